import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, Socket } from "node:net";
import { connect, createServer, type TLSSocket } from "node:tls";
import { afterEach, describe, expect, test } from "vitest";
import { type CertificateName, CertificateClients, certificateName } from "../../src/clients/client-certificate.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { tier, verdictOf } from "../support/token-issuer.ts";

const fixture = (path: string) => readFileSync(`${import.meta.dirname}/../fixtures/${path}`);
const certificate = (name: string) => new X509Certificate(fixture(`client-certificates/${name}.pem`));

describe("the name that a certificate gives its holder", () => {
  test.each<[string, CertificateName, string | undefined]>([
    ["plain", "cn", "wallet-a"],
    ["plain", "san", "wallet-a.example"],
    ["no-cn", "cn", undefined],
    ["no-cn", "san", "spiffe://example/wallet-a"],
    ["two-cn", "cn", undefined],
    ["two-cn", "san", undefined],
    ["comma-uri", "cn", "wallet a"],
    ["comma-uri", "san", undefined],
    ["dirname", "san", "good.example"],
    ["email", "cn", undefined],
    ["email", "san", "ops@example.org"],
  ])("%s by its %s is %j", (name, kind, expected) => {
    expect(certificateName(certificate(name), kind)).toBe(expected);
  });

  test.each([
    ["a NUL", "wallet\0a"],
    ["a line break", "wallet\na"],
    ["an escape", "wallet\u001ba"],
    ["bytes that are no text", "wallet\xffa"],
  ])("is none with %s in it", (_what, name) => {
    const der = Buffer.from(certificate("plain").raw);
    for (let at = der.indexOf("wallet-a"); at !== -1; at = der.indexOf("wallet-a", at + 1))
      der.write(name, at, "latin1");
    for (const kind of ["cn", "san"] as const) {
      let given: string | undefined;
      try {
        given = certificateName(new X509Certificate(der), kind);
      } catch {
        // OpenSSL reads no such text: the handshake has failed then.
      }
      expect(given).toBeUndefined();
    }
  });
});

describe("a connection with a client certificate", () => {
  const closing: (() => void)[] = [];
  afterEach(() => {
    for (const close of closing.splice(0)) close();
  });

  /** The server's end of a connection over which the client shows this certificate. */
  async function accept(client: { cert?: Buffer; key?: Buffer }, ca = "tls/ca.pem"): Promise<TLSSocket> {
    const server = createServer({
      cert: fixture("tls/server.pem"),
      key: fixture("tls/server-key.pem"),
      ca: fixture(ca),
      requestCert: true,
      rejectUnauthorized: false,
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const accepted = once(server, "secureConnection");
    const socket = connect({ port, host: "127.0.0.1", ca: fixture("tls/ca.pem"), servername: "localhost", ...client });
    closing.push(() => {
      socket.destroy();
      server.close();
    });
    await once(socket, "secureConnect");
    const [end] = (await accepted) as [TLSSocket];
    return end;
  }

  const pair = (name: string) => ({ cert: fixture(`tls/${name}.pem`), key: fixture(`tls/${name}-key.pem`) });

  test("is of the client that it names, the same for all connections, until it expires", async () => {
    const clock = new ManualClock();
    const clients = new CertificateClients({ name: "cn", tier: tier("partner"), clock });
    const [one, two] = [await accept(pair("client")), await accept(pair("client"))];
    const client = clients.at(one);
    const { CN } = new X509Certificate(fixture("tls/client.pem")).toLegacyObject().subject;
    expect(verdictOf(client)).toBe(`client ${String(CN)} of partner`);
    expect(client).toMatchObject({ kind: "certificate" });
    expect(clients.at(one)).toBe(client);
    expect(clients.at(two)).toEqual(client);
    clock.stepWall(one.getPeerX509Certificate()!.validToDate.getTime() - clock.wallNow() - 1);
    expect(clients.at(one)).toBe(client);
    clock.stepWall(1);
    expect(verdictOf(clients.at(one))).toBe("credential_expired");
  });

  test("without one is of nobody, and with one that is not trusted is refused", async () => {
    const clients = new CertificateClients({ name: "cn", tier: tier("partner"), clock: new ManualClock() });
    const bare = await accept({});
    expect(clients.at(bare)).toBeUndefined();
    expect(clients.at(bare)).toBeUndefined();
    expect(verdictOf(clients.at(await accept(pair("successor"))))).toBe("credential_invalid");
  });

  test("without TLS, as a listener has it that waits for a restart, is of nobody", () => {
    const clients = new CertificateClients({ name: "cn", tier: tier("partner"), clock: new ManualClock() });
    expect(clients.at(new Socket())).toBeUndefined();
  });

  test("that names no client is refused", async () => {
    const clients = new CertificateClients({ name: "cn", tier: tier("partner"), clock: new ManualClock() });
    const read = (name: string) => fixture(`client-certificates/${name}.pem`);
    const shown = { cert: read("two-cn"), key: read("two-cn-key") };
    const socket = await accept(shown, "client-certificates/two-cn.pem");
    expect(socket.authorized).toBe(true);
    expect(verdictOf(clients.at(socket))).toBe("credential_invalid");
  });
});
