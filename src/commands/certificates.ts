import { isIP } from "node:net";
import { connect } from "node:tls";
import { type Duration, systemClock } from "../clock.ts";
import { isReadable } from "../config/urls.ts";
import { type Finding, finding } from "./questions.ts";

const TIMEOUT: Duration = 15_000;
const DAY: Duration = 86_400_000;
/** Days before its end in which a certificate is warned of. */
const SOON = 14;

/** Says when a certificate ends, by the time of its end (Unix ms). */
export function sayEnd(endsAt: number): Pick<Finding, "severity" | "text"> {
  const days = Math.floor((endsAt - systemClock().wallNow()) / DAY);
  const on = new Date(endsAt).toISOString().slice(0, 10);
  if (days < 0) return { severity: "error", text: `its certificate has ended on ${on}` };
  return { severity: days < SOON ? "warning" : "good", text: `its certificate ends on ${on}, in ${days} days` };
}

/** The version of TLS that a server speaks, and its certificate. Whether that is trusted, each question shows. */
export async function askTls(url: string): Promise<Finding> {
  const { protocol, hostname, port } = new URL(url);
  if (protocol === "http:")
    return finding(isReadable(url) ? "warning" : "note", "TLS", "none: it is read in the clear");
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const name = isIP(host) === 0 ? { servername: host } : {};
  return new Promise((resolve, reject) => {
    const to = { host, port: Number(port || 443), timeout: TIMEOUT, rejectUnauthorized: false, ...name };
    const socket = connect(to, () => {
      const { severity, text } = sayEnd(Date.parse(socket.getPeerCertificate().valid_to));
      resolve(finding(severity, "TLS", `${socket.getProtocol()}, ${text}`));
      socket.destroy();
    });
    socket.once("timeout", () => socket.destroy(new Error("there is no TLS handshake in time")));
    socket.once("error", reject);
  });
}
