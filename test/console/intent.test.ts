import { expect, test } from "vitest";
import { type Answers, explainIntent, type Intent, requestOf } from "../../console/intent.ts";

const ANSWERS: Answers = {
  lasts: "30m",
  reason: " disk ",
  weight: "10",
  force: false,
  scope: { endpoint: "", instrument: "" },
};
const NODE = { upstream: "a", node: 1, url: "https://b.example" };

test.each<[Intent, Partial<Answers>, string, object]>([
  [{ kind: "cordon", ...NODE }, {}, "nodes", { ...NODE, state: "cordoned", for: "30m", reason: "disk" }],
  [
    { kind: "cordon", ...NODE },
    { force: true, lasts: "", reason: " " },
    "nodes",
    { ...NODE, state: "cordoned", force: true },
  ],
  [{ kind: "activate", ...NODE }, {}, "nodes", { ...NODE, state: "active" }],
  [{ kind: "weigh", ...NODE }, {}, "nodes", { ...NODE, state: "active", weight: 10, for: "30m", reason: "disk" }],
  [
    { kind: "cache-only", upstream: "a" },
    { lasts: "" },
    "upstreams",
    { upstream: "a", mode: "cache-only", reason: "disk" },
  ],
  [{ kind: "normal", upstream: "a" }, {}, "upstreams", { upstream: "a", mode: "normal" }],
  [
    { kind: "approve", admin: "x::1220", name: "x", urls: ["https://x.example"] },
    {},
    "discovery",
    { admin: "x::1220", approve: true, urls: ["https://x.example"] },
  ],
  [
    { kind: "refuse", admin: "x::1220", name: "x", urls: ["https://x.example"] },
    {},
    "discovery",
    { admin: "x::1220", approve: false, urls: ["https://x.example"] },
  ],
  [{ kind: "drop", admin: "x::1220", name: "x" }, {}, "discovery", { admin: "x::1220", approve: true, urls: [] }],
  [{ kind: "purge", upstream: undefined, soft: false }, {}, "purge", {}],
  [{ kind: "purge", upstream: "a", soft: true }, {}, "purge", { upstream: "a", soft: true }],
  [
    { kind: "purge", upstream: "a", soft: false },
    { scope: { endpoint: "instrument", instrument: "x/y" } },
    "purge",
    { upstream: "a", endpoint: "instrument", instrument: "x/y" },
  ],
  [
    { kind: "purge", upstream: "a", soft: false },
    { scope: { endpoint: "info", instrument: "typed before" } },
    "purge",
    { upstream: "a", endpoint: "info" },
  ],
])("%j is sent as the listener takes it", (intent, change, path, body) => {
  expect(requestOf(intent, { ...ANSWERS, ...change })).toEqual({ path, body });
});

test("each says what happens before it is done, with the registry's name", () => {
  const kinds: Intent[] = [
    { kind: "cordon", ...NODE },
    { kind: "weigh", ...NODE, isCordoned: true },
    { kind: "cache-only", upstream: "a" },
    { kind: "purge", upstream: "a", soft: true },
  ];
  for (const intent of kinds) {
    const { title, effects } = explainIntent(intent);
    expect(title).toMatch(/\ba\b.*\?$/);
    expect(effects.length).toBeGreaterThan(1);
  }
  // One action is in force for a node: another takes its place.
  expect(explainIntent(kinds[0]!).effects).toContain("Another weight of it ends.");
  expect(explainIntent(kinds[1]!).effects).toContain("Its cordon ends.");
});

test("undoing a weight asks about the weight, not about a cordon that there is not", () => {
  const node = { kind: "activate", upstream: "a", node: 1, url: "https://a.example" } as const;
  expect(explainIntent({ ...node, undoes: "weight" }).title).toBe("Give node 1 of a its configured weight again?");
  expect(explainIntent({ ...node, undoes: "cordon" }).title).toBe("Let node 1 of a have calls again?");
});
