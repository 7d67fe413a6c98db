import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { describe, expect, test } from "vitest";
import { CANCEL, LIST } from "../../support/endpoints.ts";
import { startGateway, temporaryFolder } from "../../support/gateway.ts";
import { Site } from "../../support/http.ts";
import { startRegistry } from "../../support/registry.ts";

const TLS = join(import.meta.dirname, "../../fixtures/tls");
const file = (name: string): string => join(TLS, name);
const read = (name: string): Buffer => readFileSync(file(name));

async function start() {
  const folder = temporaryFolder();
  const use = (name: string): void => {
    copyFileSync(file(`${name}.pem`), join(folder, "cert.pem"));
    copyFileSync(file(`${name.replace(/-later$/, "")}-key.pem`), join(folder, "key.pem"));
  };
  use("server");
  const amulet = await startRegistry("amulet");
  const values = { listen: { tls: { certFile: "cert.pem", keyFile: "key.pem" } }, upstreams: [amulet] };
  const gateway = await startGateway(values, { folder });
  return { amulet, gateway, values, use, site: new Site(gateway.url, read("ca-and-successor.pem")) };
}

/** The serial number of the certificate that a new connection gets. */
function serialAt(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket: TLSSocket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

describe("a listener with TLS", () => {
  test("serves hits and calls, and 60 POSTs at once are 60 answers", async () => {
    const { site, gateway } = await start();
    expect(gateway.url).toMatch(/^https:/);
    expect((await site.get(LIST)).status).toBe(200);
    expect((await site.get(LIST)).cache).toBe("hit");
    const answers = await Promise.all(Array.from({ length: 60 }, () => site.post(CANCEL)));
    expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(["200"]));
  });

  test("takes a new certificate with a reload, without a connection less", async () => {
    const { gateway, site, use, values } = await start();
    const before = await serialAt(gateway.url);
    use("successor");
    gateway.reload(values);
    expect(await serialAt(gateway.url)).not.toBe(before);
    expect((await site.get(LIST)).status).toBe(200);
  });

  test("keeps a good certificate where the new one has ended, with a warning, and takes the rest", async () => {
    const { amulet, gateway, site, use, values } = await start();
    const before = await serialAt(gateway.url);
    use("ended");
    gateway.reload({ ...values, upstreams: [amulet.upstream({ basePaths: ["/amulet"] })] });
    expect(await serialAt(gateway.url)).toBe(before);
    expect((await site.get(`/amulet${LIST}`)).status).toBe(200);
    expect(gateway.lines.some(({ level, msg }) => level === "warn" && /certificate/i.test(String(msg)))).toBe(true);
  });

  test("that loses its tls in a reload keeps it until the next start, with its certificate, and takes the rest", async () => {
    const { amulet, gateway, site } = await start();
    const before = await serialAt(gateway.url);
    const { certificates } = await gateway.operations.status();
    for (let round = 0; round < 2; round += 1) {
      gateway.reload({ upstreams: [amulet.upstream({ basePaths: [`/amulet${round}`] })] });
      expect(await serialAt(gateway.url)).toBe(before);
      expect((await site.get(`/amulet${round}${LIST}`)).status).toBe(200);
      expect((await gateway.operations.status()).certificates).toEqual(certificates);
    }
    expect(gateway.lines.find(({ keys }) => keys !== undefined)).toMatchObject({ keys: ["listen"] });
  });

  test("refuses a key that does not fit its certificate, and all of what runs stays", async () => {
    const { gateway, site, values } = await start();
    copyFileSync(file("other-name-key.pem"), join(gateway.folder, "key.pem"));
    expect(() => gateway.reload(values)).toThrow();
    expect((await site.get(LIST)).status).toBe(200);
  });
});

describe("a registry with TLS", () => {
  test.each([
    ["is trusted by its caFile", "server", "ca.pem", 200],
    ["is not trusted without it", "server", undefined, 502],
    ["is not trusted for another name", "other-name", "ca.pem", 502],
    ["is not trusted when its certificate has ended", "ended", "ca.pem", 502],
    ["is not trusted by another authority", "server", "other-ca.pem", 502],
  ])("%s", async (_what, name, caFile, status) => {
    const amulet = await startRegistry("amulet", { tls: { cert: read(`${name}.pem`), key: read(`${name}-key.pem`) } });
    const tls = caFile === undefined ? {} : { tls: { caFile: file(caFile) } };
    const gateway = await startGateway({ upstreams: [amulet.upstream({ ...tls, retries: 0 })] });
    const answer = await gateway.post(CANCEL);
    expect(answer.outcome).toBe(status === 200 ? "200" : "502 upstream_tls");
    if (status !== 200) expect(amulet.calls).toEqual([]);
  });
});
