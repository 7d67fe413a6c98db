import ipaddr from "ipaddr.js";

/** Characters of an address that is none, as a proxy wrote it. */
const MOST_OF_ADDRESS = 64;

/** The addresses of an `X-Forwarded-For`. Some proxies write them with ports, `192.0.2.7:61234` or `[2001:db8::7]:61234`. */
export function withoutPorts(forwarded: string): string {
  return forwarded.split(",").map(withoutPort).join(", ");
}

function withoutPort(written: string): string {
  const address = written.trim();
  const [, v6, v4] = /^(?:\[([^\]]*)\]|([\d.]+))(?::\d+)?$/.exec(address) ?? [];
  return v6 ?? v4 ?? address;
}

/** An IPv4 address, or the /64 that an IPv6 one is of: hosts draw new addresses in it as they like. */
export function networkOf(address: string): string {
  if (!address.includes(":")) return address.slice(0, MOST_OF_ADDRESS);
  if (!ipaddr.IPv6.isValid(address)) return address.slice(0, MOST_OF_ADDRESS);
  const parsed = ipaddr.IPv6.parse(address);
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString();
  return `${parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(":")}::/64`;
}
