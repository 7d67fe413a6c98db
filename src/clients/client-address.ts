import type { Socket } from "node:net";
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

/** Where a client's requests come from. */
export interface ClientAddress {
  /** Its IP address: IPv6 in its short form, without zone, and IPv4 as such where it was mapped into IPv6. */
  readonly address: string;
  /** What it is counted under: an IPv4 address, or the first 64 bits of an IPv6 address, as `2001:db8:1:2::/64`. */
  readonly block: string;
}

/** What is looked at of a request. */
export interface AddressedRequest {
  readonly socket: Socket;
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[];
}

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Addresses that are looked at, and characters of one header, both from its end. */
const MOST_HOPS = 20;
const MOST_CHARACTERS = 4 * 1024;

/** The first 64 bits of an IPv6 address belong to one network, and any client in it may have all of its addresses. */
const BLOCK_PARTS = 4;

/** A connection whose address can no longer be known is closed, and its request goes nowhere. */
const UNKNOWN: ClientAddress = { address: "unknown", block: "unknown" };

interface Peer {
  readonly client: ClientAddress;
  /** The gateway believes it about the client. */
  readonly isTrusted: boolean;
}

const PEER = Symbol("peer");

type KnownSocket = Socket & { [PEER]?: Peer };

/**
 * Who the client is, by address: the other side of the connection or, where that is one of `listen.trustedProxies`, the
 * last address before the trusted ones in what it says by `Forwarded` (RFC 7239) or `X-Forwarded-For`.
 */
export class ClientAddresses {
  private readonly trusted: readonly (readonly [range: Address, bits: number])[];

  /** @param trustedProxies addresses, or ranges in CIDR notation */
  constructor(trustedProxies: readonly string[]) {
    this.trusted = trustedProxies.map((range) => toRange(range));
  }

  /** Where a request comes from. It is worked out once for a connection, but where a trusted proxy may name others. */
  of(request: AddressedRequest): ClientAddress {
    const { client, isTrusted } = ((request.socket as KnownSocket)[PEER] ??= this.peerOf(request.socket));
    return isTrusted ? this.named(client, request.rawHeaders) : client;
  }

  private peerOf({ remoteAddress }: Socket): Peer {
    const address = parseAddress(remoteAddress ?? "");
    return { client: clientAt(address), isTrusted: address !== undefined && this.isTrusted(address) };
  }

  private isTrusted(address: Address): boolean {
    return this.trusted.some(([range, bits]) => range.kind() === address.kind() && address.match(range, bits));
  }

  /**
   * Most proxies write one of the two headers and pass the other on as the client sent it. So where both are there and
   * say different things, neither is believed.
   */
  private named(peer: ClientAddress, rawHeaders: readonly string[]): ClientAddress {
    const forwarded = valuesOf(rawHeaders, "forwarded");
    const listed = valuesOf(rawHeaders, "x-forwarded-for");
    const byForwarded = this.follow(forwarded, readForwarded) ?? peer;
    const byList = this.follow(listed, parseNode) ?? peer;
    if (listed.length === 0) return byForwarded;
    return forwarded.length === 0 || byForwarded.address === byList.address ? byList : peer;
  }

  /**
   * Goes from the end of what was said to the first address that is not trusted. What cannot be read ends the way: the
   * client is then the proxy that said it. Undefined where that is the other side of the connection.
   */
  private follow(values: readonly string[], read: (element: string) => Address | undefined): ClientAddress | undefined {
    let last: Address | undefined;
    for (const element of elementsFromEnd(values)) {
      const address = read(element);
      if (address === undefined) break;
      last = address;
      if (!this.isTrusted(address)) break;
    }
    return last === undefined ? undefined : clientAt(last);
  }
}

function toRange(text: string): [Address, number] {
  const [address, bits] = text.includes("/") ? ipaddr.parseCIDR(text) : ([ipaddr.parse(text), undefined] as const);
  const most = address.kind() === "ipv4" ? 32 : 128;
  // Addresses that were mapped into IPv6 are compared as what they are.
  if (address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && (bits ?? most) >= 96) {
    return [address.toIPv4Address(), (bits ?? most) - 96];
  }
  return [address, bits ?? most];
}

/** An address without port, in the usual forms alone: not `127.1`, nor octal or hexadecimal parts. */
function parseAddress(text: string): Address | undefined {
  const zone = text.indexOf("%");
  const plain = zone === -1 ? text : text.slice(0, zone);
  const version = isIP(plain);
  if (version === 0 || (zone !== -1 && version === 4)) return undefined;
  return ipaddr.process(plain);
}

const IPV4_AND_PORT = /^([0-9.]{7,15})(?::[0-9]{1,5})?$/;
const BRACKETED = /^\[([^[\]]{2,80})\](?::[0-9]{1,5})?$/;

/** An element of `X-Forwarded-For`: an address, in brackets or not, with or without a port. */
function parseNode(text: string): Address | undefined {
  const inside = IPV4_AND_PORT.exec(text)?.[1];
  if (inside !== undefined) return parseAddress(inside);
  const bracketed = BRACKETED.exec(text)?.[1];
  const address = parseAddress(bracketed ?? text);
  return bracketed !== undefined && address !== undefined && !bracketed.includes(":") ? undefined : address;
}

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
/** One pair, which may be empty, and what ends it. No blank can be read in two ways: clients send thousands. */
const PAIR = new RegExp(`[ \\t]*(?:(${TOKEN})=(?:(${TOKEN})|"((?:[^"\\\\]|\\\\.)*)")[ \\t]*)?(;|$)`, "y");

/** The `for` of an element of `Forwarded`; undefined for `unknown`, hidden names, and what breaks RFC 7239 §4. */
function readForwarded(element: string): Address | undefined {
  let found: string | undefined;
  PAIR.lastIndex = 0;
  for (let isLast = false; !isLast;) {
    const match = PAIR.exec(element);
    if (match === null) return undefined;
    const [, name, token, quoted, end] = match;
    isLast = end === "";
    if (name?.toLowerCase() !== "for") continue;
    if (found !== undefined) return undefined;
    found = token ?? quoted!.replaceAll(/\\(.)/g, "$1");
  }
  // RFC 7239 §6: IPv6 is in brackets.
  return found === undefined || isIP(found) === 6 ? undefined : parseNode(found);
}

/**
 * The elements of comma-separated lists, the last first, within the bounds above. It is read from its end because only that was written by a
 * trusted proxy: a quote that a client left open before it must not hide what follows.
 */
function* elementsFromEnd(values: readonly string[]): Generator<string> {
  let left = MOST_CHARACTERS;
  let hops = MOST_HOPS;
  for (const value of values.toReversed()) {
    let end = value.length;
    let isQuoted = false;
    for (let i = end - 1; i >= 0; i--) {
      if (left-- === 0) return;
      if (value[i] === '"' && !(isQuoted && isEscaped(value, i))) isQuoted = !isQuoted;
      else if (value[i] === "," && !isQuoted) {
        if (hops-- === 0) return;
        yield value.slice(i + 1, end).trim();
        end = i;
      }
    }
    if (hops-- === 0) return;
    yield value.slice(0, end).trim();
  }
}

function isEscaped(value: string, at: number): boolean {
  let backslashes = 0;
  while (value[at - 1 - backslashes] === "\\") backslashes++;
  return backslashes % 2 === 1;
}

function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const each = rawHeaders[i]!;
    if (each.length === name.length && each.toLowerCase() === name) values.push(rawHeaders[i + 1]!);
  }
  return values;
}

/** The address of a connection's other side, as a socket has it. */
export function clientAddressOf(remoteAddress: string): ClientAddress {
  return clientAt(parseAddress(remoteAddress));
}

/** As ipaddr.js calls the ranges of networks that are nobody else's (RFC 1918, 3927, 4193, 4291, 6598). */
const PRIVATE: ReadonlySet<string> = new Set(["private", "linkLocal", "carrierGradeNat", "uniqueLocal"]);

/** Which kind of address a connection's other side has, for whom the address itself is not to be told. */
export function addressKindOf(remoteAddress: string): string {
  const range = parseAddress(remoteAddress)?.range();
  if (range === undefined) return "unknown address";
  if (range === "loopback") return "loopback";
  return PRIVATE.has(range) ? "private address" : "public address";
}

function clientAt(address: Address | undefined): ClientAddress {
  if (address === undefined) return UNKNOWN;
  const text = address.toString();
  if (!(address instanceof ipaddr.IPv6)) return { address: text, block: text };
  const network = address.parts.map((part, index) => (index < BLOCK_PARTS ? part : 0));
  return { address: text, block: `${new ipaddr.IPv6(network).toString()}/64` };
}
