import { expect, test } from "vitest";
import { manyAliases } from "../support/config-check.ts";
import { useOperationsListener } from "../support/operations-listener.ts";
import { errorOf, send } from "../support/send.ts";

const start = useOperationsListener();

test("a text that takes longer than a check may is refused, and the next one is checked", async () => {
  const base = await start({});
  const check = (yaml: string) => send(base, { path: "/config/check", body: JSON.stringify({ yaml }) });
  const answer = await check(manyAliases(20_000));
  expect(answer.status).toBe(400);
  expect(errorOf(answer)).toContain("costs more than any configuration does");
  expect((await check("upstreams: [{name: amulet, urls: ['http://127.0.0.1:1']}]")).status).toBe(200);
});
