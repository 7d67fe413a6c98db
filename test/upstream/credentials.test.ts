import { readFileSync } from "node:fs";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { connect } from "node:net";
import type { AddressInfo } from "node:net";
import { createServer as createTlsServer } from "node:https";
import type { TLSSocket } from "node:tls";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { passWithLooks } from "../support/looks.ts";
import { ManualClock } from "../support/manual-clock.ts";
import {
  acceptCall,
  ADMIN,
  inTime,
  openUpstream,
  startRegistry,
  streamedCall,
} from "../support/upstream-registries.ts";

const fixtures = new URL("../fixtures/tls/", import.meta.url);
const pem = (name: string) => readFileSync(new URL(`${name}.pem`, fixtures), "utf8");
const pemPath = (name: string) => new URL(`${name}.pem`, fixtures).pathname;

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "upstream-"));
  onTestFinished(() => rm(path, { recursive: true }));
  return path;
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

/** A token endpoint that notes what it was asked. */
async function startTokenEndpoint(answer: (count: number, response: ServerResponse) => void) {
  const asked: { authorization: string | undefined; form: URLSearchParams }[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    let body = "";
    request.on("data", (chunk) => (body += String(chunk)));
    request.on("end", () => {
      asked.push({ authorization: request.headers.authorization, form: new URLSearchParams(body) });
      answer(asked.length, response);
    });
  });
  return { asked, url: `http://127.0.0.1:${await listen(server)}/oauth/token?tenant=1` };
}

const giveToken = (lifetime: unknown) => (count: number, response: ServerResponse) => {
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ access_token: `t${count}`, token_type: "Bearer", expires_in: lifetime }));
};

describe("credentials are sent with every call and check, in place of the client's:", () => {
  test.each<[string, Record<string, unknown>, string, string]>([
    ["a bearer token", { bearerToken: "abc" }, "authorization", "Bearer abc"],
    ["a header of one's choice", { header: { name: "X-Api-Key", value: "k1" } }, "x-api-key", "k1"],
  ])("%s", async (_what, auth, name, value) => {
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { auth });
    await upstream.call(acceptCall({ fields: [name, "of the client"] }));
    const answer = await upstream.stream(streamedCall({ fields: [name, "of the client"] }));
    answer.body.resume();
    expect(registry.calls.recent.map(({ operation, headers }) => [operation, headers[name]])).toEqual([
      ["info", value],
      ["transfer_accept", value],
      ["pass_through", value],
    ]);
  });

  test("without credentials the client's Authorization goes on when the caller puts it there", async () => {
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry]);
    await upstream.call(acceptCall({ fields: ["authorization", "Bearer client"] }));
    expect(registry.calls.last?.headers.authorization).toBe("Bearer client");
  });

  test("a token file is read again when it changed, and at once after a refusal", async () => {
    const clock = new ManualClock();
    const file = join(await folder(), "token");
    await writeFile(file, "one\n");
    const registry = await startRegistry();
    const { upstream, observer, environment } = openUpstream(
      [registry],
      { auth: { bearerTokenFile: file } },
      { clock },
    );
    const call = async () => {
      await upstream.call(acceptCall({ deadline: clock.now() + 10_000 })).catch(() => undefined);
      return registry.calls.last?.headers.authorization;
    };
    expect(await call()).toBe("Bearer one");
    await writeFile(`${file}.new`, "two");
    await rename(`${file}.new`, file);
    expect(await call()).toBe("Bearer one");
    await passWithLooks(environment.files, clock, 1);
    expect(await call()).toBe("Bearer two");
    await writeFile(`${file}.new`, "three");
    await rename(`${file}.new`, file);
    await registry.faults.set({ kind: "status", status: 401, times: 1 });
    clock.advance(500);
    expect(await call()).toBe("Bearer two");
    expect(await call()).toBe("Bearer three");
    await rm(file);
    await passWithLooks(environment.files, clock, 4);
    expect(await call()).toBe("Bearer three");
    expect(observer.events.join()).toMatch(/credential amulet auth.bearerTokenFile is not there/);
  });
});

describe("OAuth 2.0 client credentials", () => {
  const oauth2 = { clientId: "gate way", clientSecret: "s:cr&t", scope: "a b", audience: "aud" };

  test("one token is fetched for all, kept, and fetched ahead of its end", async () => {
    const clock = new ManualClock();
    const endpoint = await startTokenEndpoint(giveToken(100));
    const registry = await startRegistry();
    const auth = { oauth2: { ...oauth2, tokenUrl: endpoint.url } };
    const { upstream } = openUpstream([registry], { auth }, { clock });
    const call = () => upstream.call(acceptCall({ deadline: clock.now() + 10_000 }));
    await Promise.all([call(), call(), call()]);
    expect(endpoint.asked).toHaveLength(1);
    expect(registry.calls.last?.headers.authorization).toBe("Bearer t1");
    const [{ authorization, form }] = endpoint.asked as [(typeof endpoint.asked)[0]];
    expect(Buffer.from(authorization!.slice(6), "base64").toString()).toBe("gate%20way:s%3Acr%26t");
    expect(Object.fromEntries(form)).toEqual({ grant_type: "client_credentials", scope: "a b", audience: "aud" });
    clock.advance(85_000);
    await call();
    expect(registry.calls.last?.headers.authorization).toBe("Bearer t1");
    await expect.poll(() => endpoint.asked.length).toBe(2);
    await expect
      .poll(async () => {
        await call();
        return registry.calls.last?.headers.authorization;
      })
      .toBe("Bearer t2");
    expect(endpoint.asked).toHaveLength(2);
  });

  test.each<[unknown, number]>([
    [0, 1_000],
    [-5, 1_000],
    ["0", 1_000],
    ["90", 90_000],
    [undefined, 300_000],
    [null, 300_000],
    ["", 300_000],
    ["soon", 300_000],
  ])("a token that expires in %j is good for %i ms", async (stated, lifetime) => {
    const clock = new ManualClock();
    const endpoint = await startTokenEndpoint(giveToken(stated));
    const registry = await startRegistry();
    const auth = { oauth2: { ...oauth2, tokenUrl: endpoint.url } };
    const { upstream } = openUpstream([registry], { auth }, { clock });
    const shown = async () => {
      await upstream.call(acceptCall({ deadline: clock.now() + 10_000 }));
      return registry.calls.last?.headers.authorization;
    };
    await shown();
    clock.advance(lifetime * 0.75);
    expect(await shown()).toBe("Bearer t1");
    expect(endpoint.asked).toHaveLength(1);
    clock.advance(lifetime * 0.25);
    expect(await shown()).toBe("Bearer t2");
  });

  test("a refused token is replaced", async () => {
    const endpoint = await startTokenEndpoint(giveToken(3_600));
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { auth: { oauth2: { ...oauth2, tokenUrl: endpoint.url } } });
    await upstream.call(acceptCall());
    await registry.faults.set({ kind: "status", status: 401, times: 1 });
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 502 });
    expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(registry.calls.last?.headers.authorization).toBe("Bearer t2");
  });

  test.each<[string, (count: number, response: ServerResponse) => void]>([
    ["401", (_count, response) => response.writeHead(401).end("no")],
    ["no JSON", (_count, response) => response.end("hello")],
    ["no token", (_count, response) => response.end("{}")],
    ["a token that is no field value", (_count, response) => response.end('{"access_token":"a\\r\\nb"}')],
    ["a broken connection", (_count, response) => response.destroy()],
  ])(
    "an endpoint that answers with %s is 502 without secrets, and is not asked again for a second",
    async (_what, answer) => {
      const endpoint = await startTokenEndpoint(answer);
      const registry = await startRegistry();
      const { upstream, observer } = openUpstream([registry], {
        auth: { oauth2: { ...oauth2, tokenUrl: endpoint.url } },
      });
      for (let i = 0; i < 3; i++) {
        await expect(upstream.call(acceptCall())).rejects.toMatchObject({
          status: 502,
          message: expect.stringMatching(/no credentials for upstream "amulet": their token endpoint/),
        });
      }
      expect(endpoint.asked).toHaveLength(1);
      expect(registry.calls.total).toBe(0);
      expect(observer.events.join()).not.toMatch(/s:cr|127\.0\.0\.1/);
    },
  );

  test("a hanging endpoint is 504 at the call's own deadline", async () => {
    const endpoint = await startTokenEndpoint(() => undefined);
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { auth: { oauth2: { ...oauth2, tokenUrl: endpoint.url } } });
    await expect(upstream.call(acceptCall({ deadline: inTime(100) }))).rejects.toMatchObject({
      status: 504,
    });
  });
});

describe("mutual TLS", () => {
  /** A registry that tells who called. */
  async function startStrictServer(): Promise<{ url: string; names: string[] }> {
    const names: string[] = [];
    const server = createTlsServer(
      { cert: pem("server"), key: pem("server-key"), ca: pem("ca"), requestCert: true, rejectUnauthorized: true },
      (request, response) => {
        names.push((request.socket as TLSSocket).getPeerCertificate().subject.CN as string);
        response.end(request.method === "GET" ? JSON.stringify({ adminId: ADMIN, supportedApis: {} }) : "{}");
      },
    );
    return { url: `https://127.0.0.1:${await listen(server)}`, names };
  }

  test("shows the client certificate", async () => {
    const { url, names } = await startStrictServer();
    const tls = { caFile: pemPath("ca"), certFile: pemPath("client"), keyFile: pemPath("client-key") };
    const { upstream } = openUpstream([url], { tls });
    expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(names).toEqual(["sample client", "sample client"]);
  });

  test("without one the handshake fails", async () => {
    const { url } = await startStrictServer();
    const { upstream } = openUpstream([url], { tls: { caFile: pemPath("ca") } });
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 502 });
  });

  test("files that change are used for new connections", async () => {
    const clock = new ManualClock();
    const caFile = join(await folder(), "ca.pem");
    await writeFile(caFile, pem("other-ca"));
    const registry = await startRegistry({ tls: { cert: pem("server"), key: pem("server-key") } });
    const { upstream, environment } = openUpstream([registry], { tls: { caFile } }, { clock });
    const call = () => upstream.call(acceptCall({ deadline: clock.now() + 10_000 }));
    await expect(call()).rejects.toMatchObject({ proxyError: "tls_certificate_error" });
    await writeFile(caFile, pem("ca"));
    await passWithLooks(environment.files, clock, 1);
    expect((await call()).status).toBe(200);
  });
});

describe("an HTTP proxy", () => {
  async function startProxy(status = 200) {
    const seen: string[] = [];
    const authorizations: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      // Absolute form: a plain request is forwarded.
      seen.push(`${request.method} ${new URL(request.url!).pathname}`);
      authorizations.push(request.headers["proxy-authorization"]);
      if (status !== 200) return response.writeHead(status).end("no");
      const target = new URL(request.url!);
      const { "proxy-authorization": _own, ...headers } = request.headers;
      void forward(target, request, headers, response);
      return undefined;
    });
    server.on("connect", (request, socket, head) => {
      seen.push("CONNECT");
      authorizations.push(request.headers["proxy-authorization"]);
      if (status >= 300) return socket.end(`HTTP/1.1 ${status} No\r\n\r\n`);
      const [host, port] = request.url!.split(":");
      const onward = connect(Number(port), host);
      onward.on("error", () => socket.destroy());
      socket.on("error", () => onward.destroy()).on("close", () => onward.destroy());
      socket.write(`HTTP/1.1 ${status} OK\r\n\r\n`);
      onward.write(head);
      socket.pipe(onward).pipe(socket);
      return undefined;
    });
    return { seen, authorizations, port: await listen(server) };
  }

  async function forward(
    target: URL,
    request: IncomingMessage,
    headers: object,
    response: ServerResponse,
  ): Promise<void> {
    const { request: send } = await import("node:http");
    const onward = send(target, { method: request.method ?? "GET", headers: { ...headers } }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  }

  test.each([200, 201, 204])("carries TLS through a tunnel (%i), which is verified end to end", async (status) => {
    const proxy = await startProxy(status);
    const registry = await startRegistry({ tls: { cert: pem("server"), key: pem("server-key") } });
    const keys = { httpProxy: `http://user:pass@127.0.0.1:${proxy.port}`, tls: { caFile: pemPath("ca") } };
    const { upstream } = openUpstream([registry], keys);
    expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(proxy.seen[0]).toBe("CONNECT");
    expect(proxy.authorizations[0]).toBe(`Basic ${Buffer.from("user:pass").toString("base64")}`);
    expect(registry.calls.last?.headers).not.toHaveProperty("proxy-authorization");
    const distrusting = openUpstream([registry], { httpProxy: keys.httpProxy });
    await expect(distrusting.upstream.call(acceptCall())).rejects.toMatchObject({
      proxyError: "tls_certificate_error",
    });
  });

  test("forwards plain requests", async () => {
    const proxy = await startProxy();
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { httpProxy: `http://127.0.0.1:${proxy.port}` });
    expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(proxy.seen).toEqual([
      "GET /registry/metadata/v1/info",
      "POST /registry/transfer-instruction/v1/00aa/choice-contexts/accept",
    ]);
  });

  test.each([407, 502])("that refuses the tunnel with %i is 502", async (status) => {
    const proxy = await startProxy(status);
    const registry = await startRegistry({ tls: { cert: pem("server"), key: pem("server-key") } });
    const keys = { httpProxy: `http://127.0.0.1:${proxy.port}`, tls: { caFile: pemPath("ca") } };
    const { upstream } = openUpstream([registry], keys);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 502,
      message: expect.stringMatching(/cannot be reached through the configured HTTP proxy/),
    });
  });

  test("that wants to know who we are for plain requests is 502", async () => {
    const proxy = await startProxy(407);
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { httpProxy: `http://127.0.0.1:${proxy.port}` });
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 502 });
    expect(registry.calls.total).toBe(0);
  });

  test("a client that goes away and a deadline end calls through it too", async () => {
    const proxy = await startProxy();
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { httpProxy: `http://127.0.0.1:${proxy.port}` });
    await upstream.call(acceptCall());
    await registry.faults.set({ kind: "hang" });
    await expect(upstream.call(acceptCall({ deadline: inTime(100) }))).rejects.toMatchObject({
      status: 504,
    });
    expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });
});
