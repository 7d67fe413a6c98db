import { expect, onTestFinished, test } from "vitest";
import { RecentRequests, type RequestsReport } from "../../src/observe/request-log.ts";
import { startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { ownError } from "../support/own-error.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";

const startRegistry = useSampleRegistries();

async function requestsOf(operations: string, query = ""): Promise<RequestsReport["requests"]> {
  const answer = await fetch(`${operations}/requests${query}`);
  expect(answer.status).toBe(200);
  return ((await answer.json()) as RequestsReport).requests;
}

async function ask(url: string): Promise<number> {
  const answer = await fetch(url, { headers: { authorization: "Bearer secret-of-client" } });
  await answer.arrayBuffer();
  return answer.status;
}

const LINE = { method: "GET", operation: "info", upstream: "amulet", status: 200, outcome: "miss" };

/** As the log has them. */
const lineOf = (requestId: string) => ({ ...LINE, requestId });

test("what was asked last is told first, as the log has it, and chosen by what it was", async () => {
  const registry = await startRegistry();
  const gateway = await startGateway({
    log: { hits: 1 },
    upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
  });
  onTestFinished(() => gateway.stop());
  const list = `${gateway.url}/registry/metadata/v1/instruments?pageSize=5&secret=secret-of-query`;
  expect([await ask(list), await ask(list), await ask(list)]).toEqual([200, 200, 200]);
  expect(await ask(`${gateway.url}/registry/metadata/v1/instruments/secret-of-path`)).toBe(404);
  expect(await ask(`${gateway.registrar("nobody")}/registry/metadata/v1/info`)).toBe(404);
  await expect.poll(async () => (await requestsOf(gateway.operations)).length).toBe(5);
  const requests = await requestsOf(gateway.operations);
  expect(requests.map(({ operation, outcome }) => `${operation} ${outcome}`)).toEqual([
    "info refused",
    "instrument miss",
    "instruments hit",
    "instruments hit",
    "instruments miss",
  ]);
  const logged = gateway.lines.filter(({ msg }) => msg === "request");
  expect(requests.map(({ at: _at, ...line }) => line)).toEqual(
    logged.map(({ level: _level, time: _time, msg: _msg, ...line }) => line).toReversed(),
  );
  expect(JSON.stringify(requests)).not.toMatch(/secret|127\.0\.0\.1/);
  const only = async (query: string) => (await requestsOf(gateway.operations, query)).length;
  expect(await only("?limit=2")).toBe(2);
  expect(await only("?outcome=hit")).toBe(2);
  expect(await only("?outcome=hit&limit=1")).toBe(1);
  expect(await only("?upstream=amulet")).toBe(4);
  expect(await only(`?code=${requests[0]!.code}`)).toBe(1);
  expect(await only("?client=anonymous")).toBe(0);
  for (const query of [
    "?limit=0",
    "?limit=501",
    "?limit=x",
    "?limit=1&limit=2",
    "?outcome=a&outcome=b",
    "?__proto__=a",
    "?x=1",
    "?since=A",
    "?since=a&since=b",
  ]) {
    const answer = await fetch(`${gateway.operations}/requests${query}`);
    expect([query, answer.status, await answer.json()]).toEqual([query, 400, ownError()]);
  }
});

test("500 are kept, the latest of them", () => {
  const recent = new RecentRequests(new ManualClock());
  expect(recent.latest({ limit: 500 })).toMatchObject({ requests: [], missed: 0 });
  for (let i = 0; i < 1_234; i++) recent.note(lineOf(String(i)));
  const ids = recent.latest({ limit: 500 }).requests.map(({ requestId }) => Number(requestId));
  expect(ids).toEqual(Array.from({ length: 500 }, (_, i) => 1_233 - i));
});

test("who asks with the cursor of an answer gets what came after it, and is told what was missed", () => {
  const clock = new ManualClock();
  const recent = new RecentRequests(clock);
  const note = (requestId: string) => recent.note(lineOf(requestId));
  const idsOf = ({ requests }: RequestsReport) => requests.map(({ requestId }) => requestId);
  note("a");
  const first = recent.latest({ limit: 500 });
  expect(idsOf(recent.latest({ limit: 500, since: first.cursor }))).toEqual([]);
  note("b");
  note("c");
  const second = recent.latest({ limit: 500, since: first.cursor });
  expect([idsOf(second), second.missed]).toEqual([["c", "b"], 0]);
  // A filter leaves out, and the cursor goes on all the same.
  const filtered = recent.latest({ limit: 500, since: first.cursor, outcome: "hit" });
  expect([idsOf(filtered), filtered.cursor]).toEqual([[], second.cursor]);
  for (let i = 0; i < 503; i++) note(String(i));
  const late = recent.latest({ limit: 1, since: second.cursor });
  expect([idsOf(late), late.missed]).toEqual([["502"], 3]);
  // A gateway that began anew takes the cursor of its predecessor for none.
  clock.advance(1);
  const restarted = new RecentRequests(clock);
  for (let i = 0; i < 600; i++) restarted.note(lineOf(String(i)));
  expect(restarted.latest({ limit: 500, since: late.cursor }).requests).toHaveLength(500);
});
