import { DAY } from "../../clock.ts";
import { connect } from "node:tls";
import type { Finding } from "./finding.ts";
import { Findings } from "./finding.ts";
import { INFO } from "./checks.ts";
import type { RegistryClient } from "./registry-client.ts";

const TIMEOUT = 10_000;
interface Spoken {
  readonly tls: string | null;
  readonly protocol: string | false | null;
  readonly ends: number;
}

export async function checkProtocol(client: RegistryClient): Promise<readonly Finding[]> {
  const findings = new Findings("protocol", "RFC 9113 §3.3, RFC 8446");
  const { protocol, hostname, port } = client.base;
  if (protocol === "http:") {
    findings.add(["127.0.0.1", "localhost", "[::1]"].includes(hostname) ? "note" : "error", "it is read in the clear");
    return findings.list;
  }
  const spoken = await speak(hostname.replace(/^\[(.*)\]$/, "$1"), Number(port === "" ? 443 : port));
  const days = Math.floor((spoken.ends - client.clock.wallNow()) / DAY);
  findings.add(spoken.tls === "TLSv1.3" || spoken.tls === "TLSv1.2" ? "good" : "warning", spoken.tls ?? "no TLS");
  findings.add("note", spoken.protocol === "h2" ? "HTTP/2 is offered" : "HTTP/1.1 alone is offered");
  findings.add(days < 14 ? "warning" : "good", `its certificate ends in ${days} days`);
  return findings.list;
}

function speak(host: string, port: number): Promise<Spoken> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, servername: host, ALPNProtocols: ["h2", "http/1.1"], timeout: TIMEOUT });
    socket.once("secureConnect", () => {
      const ends = Date.parse(socket.getPeerCertificate().valid_to);
      resolve({ tls: socket.getProtocol(), protocol: socket.alpnProtocol, ends });
      socket.destroy();
    });
    socket.once("timeout", () => socket.destroy(new Error("no TLS handshake within 10 s")));
    socket.once("error", reject);
  });
}

export async function checkLatency(client: RegistryClient): Promise<readonly Finding[]> {
  const findings = new Findings("latency", "of all answers to this inspection, until their head was there");
  for (let i = 0; i < 5; i += 1) await client.ask(INFO);
  const sorted = client.times.toSorted((one, other) => one - other);
  const median = sorted[Math.floor(sorted.length / 2)]!;
  findings.add(
    median > 1_000 ? "warning" : "note",
    `median ${Math.round(median)} ms, slowest ${Math.round(sorted.at(-1)!)} ms, of ${sorted.length}`,
  );
  return findings.list;
}

/** Last: it says what all others met. */
export async function checkLimits({ refused, limits, requests }: RegistryClient): Promise<readonly Finding[]> {
  const findings = new Findings("rate limit", "RFC 6585 §4, RFC 9110 §10.2.3");
  const [first] = refused;
  if (first === undefined) findings.add("note", `no limit was met in ${requests} requests, one after the other`);
  else {
    const after = first.headers.get("retry-after");
    const text = `${refused.length} of ${requests} requests were 429`;
    if (after === null) findings.add("warning", `${text}, without Retry-After: clients must guess`);
    else findings.add("note", `${text}, with Retry-After: ${after}`);
  }
  if (limits.size > 0) findings.add("note", `it says its limits in ${[...limits].join(", ")}`);
  return findings.list;
}
