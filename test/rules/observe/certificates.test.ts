import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { LoadedConfig } from "../../../src/config/loaded.ts";
import { certificateEnds } from "../../../src/observe/certificates.ts";

const pem = (name: string): string => readFileSync(join(import.meta.dirname, "../../fixtures/tls", name), "utf8");
const endOf = (name: string): number => new X509Certificate(pem(name)).validToDate.getTime();

it("the certificates of the listener, of Redis and of enabled upstreams are known with their ends, of a file the first end but of the listener's its own", () => {
  const files = { "/ended.pem": pem("ended.pem"), "/client.pem": pem("client.pem"), "/ca.pem": pem("ca.pem") };
  // As behind a renewed certificate that another authority signed, too.
  const both = `${pem("client.pem")}\n${pem("ended.pem")}`;
  const loaded = {
    config: {
      listen: { tls: { certFile: "/both.pem", keyFile: "/key.pem" } },
      redis: { tls: { caFile: "/both.pem" } },
      upstreams: [
        { name: "amulet", enabled: true, tls: { certFile: "/client.pem", keyFile: "/key.pem", caFile: "/ca.pem" } },
        { name: "plain", enabled: true },
        { name: "left-out", enabled: false, tls: { caFile: "/ca.pem" } },
      ],
    },
    texts: new Map([...Object.entries(files), ["/both.pem", both]]),
  } as unknown as LoadedConfig;
  expect(certificateEnds(loaded)).toEqual([
    { role: "listener", peer: "clients", endsAt: endOf("client.pem") },
    { role: "authority", peer: "redis", endsAt: endOf("ended.pem") },
    { role: "client", peer: "amulet", endsAt: endOf("client.pem") },
    { role: "authority", peer: "amulet", endsAt: endOf("ca.pem") },
  ]);
});
