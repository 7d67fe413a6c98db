import { expect, test } from "vitest";
import { readAssetList } from "../../src/discovery/asset-list.ts";

function assetOf(admin: string, registryURLs: readonly unknown[]): object {
  return { instrumentId: { admin: `${admin}::1220` }, registryURLs };
}

const listOf = (...assets: readonly object[]) => readAssetList(JSON.stringify({ net: assets }), undefined);

const urls = (count: number) => Array.from({ length: count }, (_, at) => `https://node-${at}.example`);

// All were looked at before they were cut: a list held everything else up for two seconds.
test("no more than 64 URLs of a registry are looked at, in one asset or many", async () => {
  for (const assets of [[[...urls(64), "ftp://a"]], [urls(64), ["ftp://a"]]]) {
    const { registries, problems } = await listOf(...assets.map((each) => assetOf("a", each)));
    expect(registries).toEqual([{ network: "net", admin: "a::1220", urls: urls(64) }]);
    expect(problems).toEqual(['"a::1220": has more than 64 URLs; the first 64 are taken']);
  }
  const { registries, problems } = await listOf(
    assetOf(
      "a",
      Array.from({ length: 65 }, (_, at) => at),
    ),
  );
  expect([registries, problems.length]).toEqual([[], 64 + 1]);
});

test("a URL that several assets name is looked at once, and counts once", async () => {
  const { registries, problems } = await listOf(
    ...Array.from({ length: 1_000 }, () => assetOf("a", [...urls(63), "ftp://a"])),
  );
  expect(registries).toEqual([{ network: "net", admin: "a::1220", urls: urls(63) }]);
  expect(problems).toEqual([expect.stringMatching(/"net: 0": "ftp:\/\/a" must begin with/)]);
});

test("a list of more than 10,000 different URLs is refused as none", async () => {
  const each = urls(10_001).map((url, at) => assetOf(`a${at}`, [url, url]));
  expect((await listOf(...each.slice(0, -1))).registries).toHaveLength(10_000);
  await expect(listOf(...each)).rejects.toThrow("it has more than 10000 different URLs");
});

test("reading a list gives way to everything else", async () => {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await listOf(...Array.from({ length: 2_000 }, (_, at) => assetOf(`a${at % 100}`, urls(64))));
  isOver = true;
  expect(turns).toBeGreaterThanOrEqual(2_000 / 20);
});
