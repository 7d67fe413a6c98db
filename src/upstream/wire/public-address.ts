import type { LookupAddress } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";

/** Addresses that lead to this machine, its network or nowhere (RFC 6890 and the registries that follow it). */
const V4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  // A cloud's own services answer there on each of its hosts.
  "168.63.129.16/32",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
];

/** Only 2000::/3 is given out; of that, what wraps an IPv4 address (6to4, Teredo), is for documents or for AS112. */
const V6 = ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"];

const blocked = new BlockList();
for (const range of V4) blocked.addSubnet(...subnet(range), "ipv4");
for (const range of V6) blocked.addSubnet(...subnet(range), "ipv6");
const global = new BlockList();
global.addSubnet("2000::", 3, "ipv6");

/**
 * Whether an address is of the public internet: not loopback, link-local, private, unique-local, multicast, reserved,
 * or an IPv4 address in IPv6 clothes.
 */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !blocked.check(address, "ipv4");
  // A zone (`%eth0`) belongs to link-local addresses.
  return family === 6 && !address.includes("%") && global.check(address, "ipv6") && !blocked.check(address, "ipv6");
}

/** The host of a URL is an address, and not a public one. */
export function isPrivateHost(hostname: string): boolean {
  const address = hostname.replace(/^\[(.*)\]$/, "$1");
  return isIP(address) !== 0 && !isPublicAddress(address);
}

/**
 * Looks a name up for a connection and refuses it when one of its addresses is not public. The connection goes to the
 * very address that was checked: a name that changes its mind afterwards changes nothing.
 */
export function publicOnly(lookUp: LookupFunction): LookupFunction {
  return (hostname, options, done) => {
    lookUp(hostname, { ...options, all: true }, (error, found) => {
      const addresses = found as LookupAddress[];
      if (error !== null) {
        done(error, "");
        return;
      }
      const [first] = addresses;
      if (first === undefined || !addresses.every(({ address }) => isPublicAddress(address))) {
        done(new PrivateAddress(), "");
      } else if (options.all === true) {
        done(null, addresses);
      } else {
        done(null, first.address, first.family);
      }
    });
  };
}

/** A name leads to an address that is not of the public internet. */
export class PrivateAddress extends Error {
  readonly code = "PRIVATE_ADDRESS";

  constructor() {
    super("it is at an address that is not public");
  }
}

function subnet(range: string): [net: string, prefix: number] {
  const [net, prefix] = range.split("/");
  return [net!, Number(prefix)];
}
