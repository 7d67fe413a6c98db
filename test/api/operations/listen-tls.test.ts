import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CANCEL, LIST } from "../../support/endpoints.ts";
import { startGateway, temporaryFolder, type TestGateway, useGateway, type Values } from "../../support/gateway.ts";
import { Site } from "../../support/http.ts";
import { type Registry, startRegistry } from "../../support/registry.ts";

const TLS = join(import.meta.dirname, "../../fixtures/tls");
const file = (name: string): string => join(TLS, name);
const read = (name: string): Buffer => readFileSync(file(name));

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
  const folder = temporaryFolder();
  const use = (name: string): void => {
    copyFileSync(file(`${name}.pem`), join(folder, "cert.pem"));
    copyFileSync(file(`${name}-key.pem`), join(folder, "key.pem"));
  };
  let amulet: Registry;
  let gateway: TestGateway;
  let values: Values;
  let site: Site;
  beforeAll(async () => {
    use("server");
    amulet = await startRegistry("amulet");
    values = { listen: { tls: { certFile: "cert.pem", keyFile: "key.pem" } }, upstreams: [amulet] };
    gateway = await startGateway(values, { folder });
    site = new Site(gateway.url, read("ca-and-successor.pem"));
  });
  beforeEach(() => {
    use("server");
    gateway.reload(values);
    gateway.lines.length = 0;
  });

  test("serves hits and calls, and 60 POSTs at once are 60 answers", async () => {
    expect(gateway.url).toMatch(/^https:/);
    expect((await site.get(LIST)).status).toBe(200);
    expect((await site.get(LIST)).cache).toBe("hit");
    const answers = await Promise.all(Array.from({ length: 60 }, () => site.post(CANCEL)));
    expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(["200"]));
  });

  test("takes a new certificate with a reload, without a connection less", async () => {
    const before = await serialAt(gateway.url);
    use("successor");
    gateway.reload(values);
    expect(await serialAt(gateway.url)).not.toBe(before);
    expect((await site.get(LIST)).status).toBe(200);
  });

  test("keeps a good certificate where the new one has ended, with a warning, and takes the rest", async () => {
    const before = await serialAt(gateway.url);
    use("ended");
    gateway.reload({ ...values, upstreams: [amulet.upstream({ basePaths: ["/amulet"] })] });
    expect(await serialAt(gateway.url)).toBe(before);
    expect((await site.get(`/amulet${LIST}`)).status).toBe(200);
    expect(gateway.lines.some(({ level, msg }) => level === "warn" && /certificate/i.test(String(msg)))).toBe(true);
    expect((await gateway.operations.status()).health.lines).toContainEqual(
      expect.objectContaining({
        text: "the certificate of listen.tls.certFile ended on 1 Jan 2021",
        effect: expect.stringContaining("that one stays in use") as string,
      }),
    );
  });

  test("that loses its tls in a reload keeps it until the next start, with its certificate, and takes the rest", async () => {
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
    copyFileSync(file("other-name-key.pem"), join(folder, "key.pem"));
    expect(() => gateway.reload(values)).toThrow();
    expect((await site.get(LIST)).status).toBe(200);
  });
});

describe("a registry with TLS", () => {
  const serve = useGateway();
  test.each([
    ["is trusted by its caFile", "server", "ca.pem", 200],
    ["is not trusted without it", "server", undefined, 502],
    ["is not trusted for another name", "other-name", "ca.pem", 502],
    ["is not trusted when its certificate has ended", "ended", "ca.pem", 502],
    ["is not trusted by another authority", "server", "other-ca.pem", 502],
  ])("%s", async (_what, name, caFile, status) => {
    const amulet = await startRegistry("amulet", { tls: { cert: read(`${name}.pem`), key: read(`${name}-key.pem`) } });
    const tls = caFile === undefined ? {} : { tls: { caFile: file(caFile) } };
    const gateway = await serve({ upstreams: [amulet.upstream({ ...tls, retries: 0 })] });
    const answer = await gateway.post(CANCEL);
    expect(answer.outcome).toBe(status === 200 ? "200" : "502 upstream_tls");
    if (status === 200) return;
    expect(answer.error).toMatch(/showed a TLS certificate that is not trusted/);
    expect(amulet.calls).toEqual([]);
  });
});
