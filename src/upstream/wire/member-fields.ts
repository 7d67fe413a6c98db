import { parseList, serializeList, Token } from "structured-headers";
import { type Fields, fieldValue, filterFields, OWN_NAME } from "../../fields.ts";

/**
 * The fields of an answer whose `Cache-Status` and `Proxy-Status`, to which each intermediary adds a member, have no member
 * with the gateway's name: the registry wrote it. `Proxy-Status` then gets ours (RFC 9209 §2.1.4) where there are others,
 * or `always`.
 *
 * @param status that was received
 */
export function withOwnMembers(fields: Fields, status: number, always = false): Fields {
  const cacheStatus = fieldValue(fields, "cache-status");
  const proxyStatus = fieldValue(fields, "proxy-status");
  if (cacheStatus === undefined && proxyStatus === undefined && !always) return fields;
  const result = filterFields(fields, (name) => name !== "cache-status" && name !== "proxy-status");
  const caches = othersIn(cacheStatus);
  if (caches.length > 0) result.push("cache-status", serializeList(caches));
  const proxies = othersIn(proxyStatus);
  if (proxies.length === 0 && !always) return result;
  const own = [new Token(OWN_NAME), new Map([["received-status", status]])] satisfies (typeof proxies)[number];
  return [...result, "proxy-status", serializeList([...proxies, own])];
}

/** The members of others; none of a value that is no list. */
function othersIn(value = ""): ReturnType<typeof parseList> {
  try {
    return parseList(value).filter(([name]) => String(name) !== OWN_NAME);
  } catch {
    return [];
  }
}
