import { parseList } from "structured-headers";
import { describe, expect, test } from "vitest";
import { formatCacheStatus, upstreamCacheStatus } from "../../src/cache/rfc/reuse.ts";

describe("Cache-Status", () => {
  test.for([
    [{ ttl: 25 }, "registry-gateway;hit;ttl=25"],
    [{ ttl: -5, detail: "stale-while-revalidate" }, "registry-gateway;hit;ttl=-5;detail=stale-while-revalidate"],
    [{ forward: "uri-miss", stored: true, ttl: 9 }, "registry-gateway;fwd=uri-miss;ttl=9;stored"],
    [{ forward: "stale", forwardStatus: 304, ttl: 9 }, "registry-gateway;fwd=stale;fwd-status=304;ttl=9"],
    [{ forward: "vary-miss", collapsed: true }, "registry-gateway;fwd=vary-miss;collapsed"],
    [
      { forward: "bypass", stored: false, collapsed: false, detail: "no-store" },
      "registry-gateway;fwd=bypass;detail=no-store",
    ],
  ] as const)("%j", ([status, text]) => {
    expect(formatCacheStatus(status)).toBe(text);
    expect(parseList(text)).toHaveLength(1);
  });

  test.for([
    [[], undefined],
    [["cache-status", ""], undefined],
    [["cache-status", "CDN; hit"], "CDN;hit"],
    [["cache-status", "A;hit", "cache-status", '"B b"; fwd=miss'], 'A;hit, "B b";fwd=miss'],
    [["cache-status", "(malformed"], undefined],
  ] as const)("of caches before: %j", ([fields, text]) => {
    expect(upstreamCacheStatus(fields)).toBe(text);
  });
});
