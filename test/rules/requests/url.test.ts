import { beforeAll, describe, expect, test } from "vitest";
import { ENDPOINTS, LIST, PREFIX } from "../../support/endpoints.ts";
import { partyOf } from "../../support/registry.ts";
import { runs } from "../../support/thorough.ts";
import { type Meaning, scriptedApp } from "./scripted-app.ts";
import { meaningOf } from "./url-by-hand.ts";

let app: Awaited<ReturnType<typeof scriptedApp>>;
beforeAll(async () => {
  app = await scriptedApp();
});

const JSON_TYPE = { "content-type": "application/json" };
const FACTORY = '{"choiceArguments":{}}';
const get = (url: string): Promise<Meaning> => app.send("GET", url);
const post = (url: string): Promise<Meaning> => app.send("POST", url, JSON_TYPE, FACTORY);

const PARTY = partyOf("amulet");
const AMULET = `${PREFIX}/amulet`;
const OPERATOR = "/api/utilities/v0/operator";

describe("what a URL addresses", () => {
  test.each<[string, string, string]>([
    ["/registry/metadata/v1/info", "amulet", "info"],
    ["/registry/metadata/v1/instruments?pageSize=2", "amulet", "instruments 2"],
    [`${PREFIX}/bonds/registry/metadata/v1/info`, "bonds", "info"],
    [`${PREFIX}/${PARTY}/registry/metadata/v1/info`, "amulet", "info"],
    [`${PREFIX}/${encodeURIComponent(PARTY)}/registry/metadata/v1/info`, "amulet", "info"],
    [`${PREFIX}/${PARTY.replace("::", "%3a%3A")}/registry/metadata/v1/info`, "amulet", "info"],
    ["/registry/metadata/v1/instruments/Amulet%2FUSD", "amulet", "instrument Amulet/USD"],
    ["/registry/metadata/v1/instruments/Amulet%2fUSD", "amulet", "instrument Amulet/USD"],
    ["/registry/metadata/v1/instruments/a..b", "amulet", "instrument a..b"],
    ["/registry/metadata/v1/instruments/...", "amulet", "instrument ..."],
    ["/registry/metadata/v1/instruments/x%2F..y%2F.z%2F..%3F", "amulet", "instrument x/..y/.z/..?"],
    ["/registry/metadata/v1/instruments/100%25", "amulet", "instrument 100%"],
    ["/registry/metadata/v1/instruments/%2541", "amulet", "instrument %41"],
    ["/registry/metadata/v1/instruments/a+b", "amulet", "instrument a+b"],
    ["/registry/metadata/v1/instruments/%E2%82%AC", "amulet", "instrument €"],
    ["/registry/metadata/v1/instruments/%3Fx%3D1%23y", "amulet", "instrument ?x=1#y"],
    ["/registry/metadata/v1/instruments/a%5Cb", "amulet", "instrument a\\b"],
    [`/registry/metadata/v1/instruments/${"x".repeat(2_000)}`, "amulet", `instrument ${"x".repeat(2_000)}`],
    ["/registry/metadata/v1/%69nfo", "amulet", "info"],
    ["//registry/metadata/v1/info", "amulet", "info"],
    ["/registry//registry/metadata/v1/info", "amulet", "info"],
    ["/registry/registry/metadata/v1/info", "amulet", "info"],
    [`${PREFIX}/bonds//registry/metadata/v1/info`, "bonds", "info"],
    [`${PREFIX}/bonds/registry/registry/metadata/v1/info`, "bonds", "info"],
    [`${PREFIX}/bonds/registry//registry/metadata/v1/info`, "bonds", "info"],
    ["http://elsewhere.example/registry/metadata/v1/info", "amulet", "info"],
    [`HTTPS://[::1]:1${PREFIX}/bonds/registry/metadata/v1/info?a=b`, "bonds", "info"],
    ["/registry/metadata/v1/info?a=/b?c//registry", "amulet", "info"],
    ["/bonds//registry/metadata/v1/info?x", "bonds", "info"],
    ["/bonds/registry/registry/metadata/v1/info", "bonds", "info"],
    ["/api/validator/v0/scan-proxy/registry/metadata/v1/info", "amulet", "info"],
    [
      "/registry/transfer-instruction/v3/transfer-factory?x=1",
      "amulet",
      "registry /registry/transfer-instruction/v3/transfer-factory?x=1",
    ],
    [`${PREFIX}/bonds/registry/drafts/v1/x%20y?a=%2f&&`, "bonds", "registry /registry/drafts/v1/x%20y?a=%2f&&"],
    [`${PREFIX}/bonds/registry/a/b/c/x%2Fy`, "bonds", "registry /registry/a/b/c/x%2Fy"],
    [`${OPERATOR}?a=b`, "bonds", `origin ${OPERATOR}?a=b`],
    ["/featured/a%20b/c?x", "bonds", "origin /featured/a%20b/c?x"],
  ])("GET %s", async (url, registry, asks) => expect(await get(url)).toEqual({ registry, asks }));

  test("a call is addressed as a read is, and its id is encoded once", async () => {
    const asks = "transfer_accept_v2 /registry/transfer-instruction/v2/a%2Fb/choice-contexts/accept";
    expect(await post(`${AMULET}/registry/transfer-instruction/v2/a%2fb/choice-contexts/accept?x`)).toEqual({
      registry: "amulet",
      asks,
    });
    expect(await post("/burn")).toEqual({ registry: "bonds", asks: "origin /burn" });
  });

  test.each<[string, number]>([
    ["/registry/metadata/v1/instruments/", 400],
    ["/registry/metadata//v1/info", 400],
    ["/registry/metadata/v1/info/", 400],
    ["/registry/metadata/v1/instruments/..", 400],
    ["/registry/metadata/v1/instruments/%2e%2e", 400],
    ["/registry/metadata/v1/instruments/%2E", 400],
    ["/registry/../registry/metadata/v1/info", 400],
    ["/registry/metadata/v1/instruments/%00", 400],
    ["/registry/metadata/v1/instruments/a%0d%0aX-Evil:1", 400],
    ["/registry/metadata/v1/instruments/%7f", 400],
    ["/registry/metadata/v1/instruments/%C2%85", 400],
    ["/registry/metadata/v1/instruments/%", 400],
    ["/registry/metadata/v1/instruments/%C0%AF", 400],
    ["/registry/metadata/v1/instruments/%ED%A0%80", 400],
    ["/registry/metadata/v1/instruments/\u00e9", 400],
    ["/registry/metadata/v1/instruments/a#b", 400],
    [`${PREFIX}//registry/metadata/v1/info`, 400],
    [`${PREFIX}/../registry/metadata/v1/info`, 400],
    [`${PREFIX}/%2e%2e/registry/metadata/v1/info`, 400],
    [`${PREFIX}/%ff/registry/metadata/v1/info`, 400],
    ["/featured/..%2f..%2fadmin", 400],
    ["/docs/../registry/x", 400],
    ["/nothing/..", 400],
    ["ftp://elsewhere.example/registry/metadata/v1/info", 400],
    ["http:///registry/metadata/v1/info", 400],
    ["http://u@elsewhere.example/registry/metadata/v1/info", 400],
    ["http://[::1/registry/metadata/v1/info", 400],
    ["http://a,b/registry/metadata/v1/info", 400],
    ["registry/metadata/v1/info", 400],
    ["*", 400],
    ["/registry/metadata/v1/instruments/a/b", 404],
    ["/registry/allocations/v1/a/b/choice-contexts/cancel", 404],
    [`${PREFIX}/nobody/registry/metadata/v1/info`, 404],
    [AMULET, 404],
    [`${AMULET}/metadata/v1/info`, 404],
    [`${AMULET}/x/registry/metadata/v1/info`, 404],
    [`${AMULET}/registry/metadata%2Fv1%2Finfo`, 404],
    ["/registry/metadata/v1/instruments%2Fx", 404],
    ["/registry/transfer-instruction%2Fv1%2Ftransfer-factory", 404],
    ["/registry/transfer-instruction/v2%5Ctransfer-factory", 404],
    ["/registry/transfer-instruction/v2/transfer-factory%2F", 404],
    ["/registry/transfer-instruction/v2/transfer-%2566actory", 404],
    ["/registry/transfer-instruction/v2/transfer-factory;v=1", 404],
    ["/registry/Transfer-Instruction/v2/transfer-factory", 404],
    ["/registry/allocation%25252Fv2/settlement-factory", 404],
    ["/registry/registry/registry/transfer-instruction/v1/transfer-factory", 404],
    ["/registry/%72egistry/transfer-instruction/v1/transfer-factory", 404],
    ["/registry/Registry/transfer-instruction/v1/transfer-factory", 404],
    ["/bondsy/registry/metadata/v1/info", 404],
    ["/%62onds/registry/metadata/v1/info", 404],
    ["/registryy/metadata/v1/info", 404],
    [`${OPERATOR}x`, 404],
    ["/featured", 404],
    ["/burn", 405],
    ["/registry/transfer-instruction/v2/transfer-factory", 405],
  ])("GET %s is %i", async (url, status) => expect(await get(url)).toEqual({ status }));

  test.each<[string, string, number]>([
    ["POST", LIST, 405],
    ["POST", "/", 405],
    ["POST", "/catalog/v1/registries", 405],
    ["POST", OPERATOR, 405],
    ["POST", "/nothing", 404],
    ["PUT", LIST, 405],
    ["PUT", "/registry/drafts/v1/x", 405],
    ["HEAD", "/registry/drafts/v1/x", 405],
    ["DELETE", OPERATOR, 405],
    ["DELETE", "/nothing", 404],
    ["TRACE", "/registry/..", 400],
  ])("%s %s is %i", async (method, url, status) => expect(await app.send(method, url)).toEqual({ status }));
});

/** What climbs out of its path for some server that decodes once more. */
const CLIMBERS = [
  "..%2F..%2Fsecret",
  "%2F..",
  "x%2F.%2Fy",
  "..%5Cadmin",
  "x%5C..",
  "%252e%252e",
  "%25252e%25252e%25252fadmin",
  "..%252F%25ff",
  "..%3Bx%2Fadmin",
  "x%2F..%3B",
];

test.each(CLIMBERS)("%s is 400 wherever it stands", async (segment) => {
  for (const before of [
    LIST,
    "/registry/drafts/v1",
    "/registry",
    "/featured",
    PREFIX,
    "/nothing",
    "http://elsewhere.example/registry",
  ]) {
    for (const url of [`${before}/${segment}`, `${before}/${segment}/registry/metadata/v1/info?x=y`]) {
      expect([url, await get(url)]).toEqual([url, { status: 400 }]);
    }
  }
});

/** Good URLs after one or two edits; the same ones each time. */
function* mutated(count: number): Generator<{ method: string; url: string }> {
  let seed = 7;
  const random = (below: number): number => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
  const bits =
    `/ // %2F %2f %5C .. . %2e %252e %00 ; %3B registry Registry v1 v2 v3 metadata info ? # é %ff % a ${PREFIX} %20 :: instruments`.split(
      " ",
    );
  const bases = ["", AMULET, `${PREFIX}/${encodeURIComponent(PARTY)}`, "/bonds", "http://elsewhere.example"];
  for (let round = 0; round < count; round += 1) {
    const { method, path } = ENDPOINTS[random(ENDPOINTS.length)]!;
    let url = bases[random(bases.length)]! + path.replace("{id}", "a%2Fb%20c");
    for (let edits = random(3); edits > 0; edits -= 1) {
      const at = random(url.length + 1);
      url = url.slice(0, at) + bits[random(bits.length)]! + url.slice(at + random(3));
    }
    yield { method, url };
  }
}

test("no URL means another endpoint, id or registry than a parser by hand reads in it, and no good one is refused", async () => {
  const counts = { good: 0, passed: 0, refused: 0 };
  for (const { method, url } of mutated(runs(200, 60_000))) {
    const byHand = meaningOf(method, url);
    const got = method === "GET" ? await get(url) : await post(url);
    if ("asks" in got) expect([url, got]).toEqual([url, byHand]);
    // What passes through may be refused where some server could read a standard path in it.
    else if ("asks" in byHand) expect([url, byHand.asks]).toEqual([url, expect.stringMatching(/^registry /)]);
    // What is left of some is the page of the root.
    else if (got.status === 200) expect(url).toMatch(/^(https?:\/\/[^/?]+)?\/?(\?.*)?$/);
    else expect([400, 404, 405]).toContain(got.status);
    counts["asks" in got ? (got.asks.startsWith("registry ") ? "passed" : "good") : "refused"] += 1;
  }
  for (const count of Object.values(counts)) expect(count).toBeGreaterThan(10);
});
