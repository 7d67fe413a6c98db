import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { pino } from "pino";
import { describe, expect, it } from "vitest";
import type { UpstreamAuth } from "../../src/config/schema.ts";
import { Credentials } from "../../src/upstream/credentials.ts";
import { TestClock } from "../support/clock.ts";
import { atEnd } from "../support/closing.ts";
import { until } from "../support/until.ts";

const good = { access_token: "t1", token_type: "Bearer", expires_in: 100 };

interface Answer {
  readonly status?: number;
  readonly type?: string;
  readonly body?: string;
}

/** A token endpoint whose answers the test gives, and the credentials that come from there. */
async function start(oauth2: Partial<NonNullable<UpstreamAuth["oauth2"]>> = {}) {
  const asked: { headers: IncomingMessage["headers"]; form: URLSearchParams }[] = [];
  const endpoint = { asked, answer: (): Answer | undefined => ({ body: JSON.stringify(good) }) };
  const server = createServer((request, response: ServerResponse) => {
    void text(request).then((form) => {
      asked.push({ headers: request.headers, form: new URLSearchParams(form) });
      const answer = endpoint.answer();
      if (answer === undefined) return;
      const { status = 200, type = "application/json", body = "" } = answer;
      response
        .on("error", () => {})
        .writeHead(status, { "content-type": type, location: "http://127.0.0.1:1/" })
        .end(body);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const clock = TestClock.running();
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push((JSON.parse(line) as { msg: string }).msg) });
  const config = { tokenUrl: `http://127.0.0.1:${port}/token`, clientId: "the client", clientSecret: "s:ß", ...oauth2 };
  const credentials = Credentials.create({ oauth2: config }, { clock, log });
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  const fields = async (within = 20_000) => credentials.fields({ deadline: clock.now() + within });
  return { credentials, endpoint, clock, lines, fields };
}

it.each<{ auth: UpstreamAuth | undefined; fields: string[] }>([
  { auth: undefined, fields: [] },
  { auth: { bearer: "secret" }, fields: ["authorization", "Bearer secret"] },
  { auth: { header: { name: "X-Api-Key", value: "secret" } }, fields: ["x-api-key", "secret"] },
])("what the configuration names is shown as $fields", ({ auth, fields }) => {
  const credentials = Credentials.create(auth, { clock: TestClock.standing(), log: pino({ enabled: false }) });
  expect([credentials.fields({ deadline: 0 }), credentials.status()]).toEqual([fields, undefined]);
});

it("an info that the registry refuses and then gives is refused no more, and one that it gives says nothing of calls", () => {
  const credentials = Credentials.create(
    { bearer: "secret" },
    { clock: TestClock.standing(), log: pino({ enabled: false }) },
  );
  const told: (string | undefined)[] = [];
  for (const [operation, status] of [
    ["info", 401],
    ["info", 200],
    ["transfer_factory", 401],
    ["info", 200],
    ["transfer_factory", 404],
  ] as const) {
    credentials.answered(operation, status);
    told.push(credentials.status());
  }
  const refused = "the registry refuses it (401)";
  expect(told).toEqual([refused, undefined, refused, refused, undefined]);
});

describe("an OAuth2 token", () => {
  it("is asked once for all who wait, by the client credentials grant, and kept", async () => {
    const { fields, endpoint, credentials, clock } = await start({ scope: "read", audience: "registry" });
    expect(await Promise.all([fields(), fields(), fields()])).toEqual(
      [1, 2, 3].map(() => ["authorization", "Bearer t1"]),
    );
    expect(credentials.fields({ deadline: clock.now() })).toEqual(["authorization", "Bearer t1"]);
    expect(endpoint.asked).toHaveLength(1);
    const [{ headers, form }] = endpoint.asked as [(typeof endpoint.asked)[0]];
    expect(Object.fromEntries(form)).toEqual({ grant_type: "client_credentials", scope: "read", audience: "registry" });
    expect(headers.authorization).toBe(`Basic ${Buffer.from("the+client:s%3A%C3%9F").toString("base64")}`);
  });

  it("is renewed ahead of its end while the old one serves", async () => {
    const { fields, endpoint, clock } = await start();
    await fields();
    endpoint.answer = () => ({ body: JSON.stringify({ ...good, access_token: "t2", expires_in: "100" }) });
    clock.advance("79s");
    await fields();
    expect(endpoint.asked).toHaveLength(1);
    clock.advance("2s");
    expect(await fields()).toEqual(["authorization", "Bearer t1"]);
    await until(async () => (await fields())[1] === "Bearer t2");
    expect(endpoint.asked).toHaveLength(2);
  });

  it("that cannot be renewed is no fault before its end", async () => {
    const { fields, endpoint, credentials, clock, lines } = await start();
    await fields();
    endpoint.answer = () => ({ status: 500 });
    clock.advance("81s");
    expect(await fields()).toEqual(["authorization", "Bearer t1"]);
    await until(() => lines.length > 0);
    expect(credentials.status()).toBeUndefined();
    clock.advance("20s");
    expect(credentials.status()).toContain("answered 500");
  });

  it("that the registry refuses is asked anew, but not for each refusal", async () => {
    const { fields, endpoint, credentials, clock } = await start();
    await fields();
    credentials.answered("instruments", 401);
    await fields();
    expect(endpoint.asked).toHaveLength(1);
    clock.advance("11s");
    credentials.answered("instruments", 401);
    credentials.answered("instruments", 401);
    await Promise.all([fields(), fields()]);
    expect(endpoint.asked).toHaveLength(2);
  });

  it.each<{ what: string; answer: Answer; fault: string }>([
    {
      what: "refuses the client",
      answer: { status: 401, body: '{"error":"invalid_client"}' },
      fault: "answered 401 (invalid_client)",
    },
    {
      what: "puts a page into its error",
      answer: { status: 400, body: '{"error":"<b>see http://internal</b>"}' },
      fault: "answered 400",
    },
    { what: "fails", answer: { status: 500, type: "text/html", body: "<h1>no" }, fault: "answered 500" },
    { what: "redirects", answer: { status: 302 }, fault: "answered 302" },
    { what: "answers HTML", answer: { type: "text/html", body: "<h1>hello" }, fault: "gave no access token" },
    {
      what: "answers a megabyte",
      answer: { body: JSON.stringify({ ...good, note: "z".repeat(2 ** 20) }) },
      fault: "more than 64 KiB",
    },
    { what: "gives no token", answer: { body: "{}" }, fault: "gave no access token" },
    {
      what: "gives what is no field value",
      answer: { body: '{"access_token":"a\\nb","token_type":"bearer"}' },
      fault: "gave no access token",
    },
  ])("cannot be had where its endpoint $what", async ({ answer, fault }) => {
    const { fields, endpoint, credentials, clock, lines } = await start();
    endpoint.answer = () => answer;
    const failures = await Promise.allSettled([fields(), fields()]);
    expect(failures).toMatchObject([1, 2].map(() => ({ reason: { code: "upstream_credentials", status: 502 } })));
    expect(credentials.status()).toContain(fault);
    // The next ones fail at once, for a second.
    await expect(fields()).rejects.toMatchObject({ message: expect.not.stringContaining("127.0.0.1") as string });
    expect(endpoint.asked).toHaveLength(1);
    endpoint.answer = () => ({ body: JSON.stringify(good) });
    clock.advance("1s");
    expect(await fields()).toEqual(["authorization", "Bearer t1"]);
    expect(credentials.status()).toBeUndefined();
    expect(lines).toEqual([expect.stringContaining(fault), "an OAuth2 token can be had again"]);
    expect(lines.join()).not.toContain("127.0.0.1");
  });

  it("that does not come is waited for no longer than the call lasts, nor than 10 s", async () => {
    const { fields, endpoint, credentials, clock } = await start();
    endpoint.answer = () => undefined;
    await expect(fields(20)).rejects.toMatchObject({ code: "upstream_timeout", status: 504 });
    const waiting = fields(60_000).catch((error: unknown) => error);
    await until(() => endpoint.asked.length === 1);
    clock.advance("10s");
    expect(await waiting).toMatchObject({ code: "upstream_credentials" });
    expect(credentials.status()).toContain("did not answer in time");
  });

  it("whose endpoint is not there cannot be had", async () => {
    const { fields, credentials } = await start({ tokenUrl: "http://127.0.0.1:1/token" });
    await expect(fields()).rejects.toMatchObject({ code: "upstream_credentials" });
    expect(credentials.status()).toContain("cannot be reached");
  });
});
