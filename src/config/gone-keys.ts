const NO_PREFETCH = "is gone: the next page is fetched when a client asks for it; leave the key out";

/** Why a key that there was once is refused, by its path without places in lists and names of tiers. */
const GONE: ReadonlyMap<string, string> = new Map([
  [
    "listen.tls.http2",
    "is gone: listen.tls speaks HTTP/1.1 alone, because below Node, HTTP/2 loses fields with forbidden characters, an admin or a key among them; leave the key out, and put a proxy that speaks HTTP/2 in front (docs/operations/in-front.md)",
  ],
  ["clients.tiers.posts.burst", "is gone: posts has one window, requests in any per; leave the key out"],
  ["cache.prefetch", NO_PREFETCH],
  ["upstreams.cache.prefetch", NO_PREFETCH],
  ["upstreams.agree", "is gone; agreement.admin takes its place"],
  ["upstreams.compare", "is gone; agreement.observe takes its place"],
  [
    "upstreams.publicOnly",
    "is gone: written upstreams are where their urls say, and found ones at public addresses alone, unless discovery.allowPrivate is true; leave the key out",
  ],
  [
    "redis.sentinel.auth",
    "is gone: the login to the master is redis.username and redis.password or redis.passwordFile",
  ],
  [
    "workers",
    "is gone: start more replicas at one Redis; listen.reusePort: true lets them share a port on one machine",
  ],
]);

/** What took the place of the key at this path; undefined where there never was such a key. */
export function whyGone(path: string): string | undefined {
  const key = path
    .replaceAll(/\[\d+\]/g, "")
    .replace(/^clients\.tiers\.[^.]+/, "clients.tiers")
    .replace(/^discovery\.defaults\./, "upstreams.");
  return GONE.get(key);
}
