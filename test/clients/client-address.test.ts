import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { addressKindOf, ClientAddresses } from "../../src/clients/client-address.ts";

/** The address and block of a request from `peer` with these header lines. */
function clientOf(
  trusted: readonly string[],
  peer: string | undefined,
  headers: readonly (readonly [string, string])[] = [],
): { address: string; block: string } {
  const socket = { remoteAddress: peer } as Socket;
  return new ClientAddresses(trusted).of({ socket, rawHeaders: headers.flat() });
}

const PROXIES = ["10.0.0.0/8", "127.0.0.1", "fd00::/8"];

function listed(value: string, peer = "10.0.0.1"): string {
  return clientOf(PROXIES, peer, [["X-Forwarded-For", value]]).address;
}

function forwarded(value: string, peer = "10.0.0.1"): string {
  return clientOf(PROXIES, peer, [["Forwarded", value]]).address;
}

test.each([
  ["192.0.2.7", "192.0.2.7", "192.0.2.7"],
  ["::ffff:192.0.2.7", "192.0.2.7", "192.0.2.7"],
  ["2001:db8:1:2:aaaa:bbbb:cccc:dddd", "2001:db8:1:2:aaaa:bbbb:cccc:dddd", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8::1", "2001:db8::/64"],
  ["fe80::1%eth0", "fe80::1", "fe80::/64"],
  ["::1", "::1", "::/64"],
])("a connection from %s is counted under %s's block", (peer, address, block) => {
  expect(clientOf([], peer)).toEqual({ address, block });
});

test("neighbours in one IPv6 network share a block, and those in others do not", () => {
  const blocks = ["2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1"].map((peer) => clientOf([], peer).block);
  expect(new Set(blocks)).toEqual(new Set(["2001:db8:1:2::/64", "2001:db8:1:3::/64"]));
});

test("a client that is no trusted proxy says nothing of its address", () => {
  for (const [name, value] of [
    ["X-Forwarded-For", "203.0.113.9"],
    ["Forwarded", "for=203.0.113.9"],
    ["X-Real-IP", "203.0.113.9"],
  ] as const) {
    expect(clientOf(PROXIES, "192.0.2.7", [[name, value]]).address).toBe("192.0.2.7");
    expect(clientOf([], "10.0.0.1", [[name, value]]).address).toBe("10.0.0.1");
  }
});

test("the address of a connection that is gone is one of its own", () => {
  expect(clientOf(PROXIES, undefined, [["X-Forwarded-For", "203.0.113.9"]])).toEqual({
    address: "unknown",
    block: "unknown",
  });
});

test("a trusted proxy is recognised when its address is mapped into IPv6", () => {
  expect(listed("203.0.113.9", "::ffff:10.0.0.1")).toBe("203.0.113.9");
  expect(clientOf(["::ffff:10.0.0.0/104"], "10.0.0.1", [["x-forwarded-for", "203.0.113.9"]]).address).toBe(
    "203.0.113.9",
  );
  expect(clientOf(["::/0"], "10.0.0.1", [["x-forwarded-for", "203.0.113.9"]]).address).toBe("10.0.0.1");
});

test.each([
  ["203.0.113.9", "203.0.113.9"],
  ["203.0.113.9:4711", "203.0.113.9"],
  ["[2001:db8::9]:4711", "2001:db8::9"],
  ["[2001:db8::9]", "2001:db8::9"],
  ["2001:db8::9", "2001:db8::9"],
  ["::ffff:203.0.113.9", "203.0.113.9"],
  ["fe80::9%eth0", "fe80::9"],
  ["198.51.100.66, 203.0.113.9", "203.0.113.9"],
  ["203.0.113.9, 10.1.1.1, 10.2.2.2", "203.0.113.9"],
  ["198.51.100.66, 203.0.113.9,10.1.1.1", "203.0.113.9"],
  ["10.3.3.3, 10.1.1.1", "10.3.3.3"],
  // What cannot be read: the proxy that said it is the client.
  ["203.0.113.9, junk, 10.1.1.1", "10.1.1.1"],
  ["junk", "10.0.0.1"],
  ["", "10.0.0.1"],
  ["203.0.113.9, ", "10.0.0.1"],
  ["unknown", "10.0.0.1"],
  ["0x7f.1", "10.0.0.1"],
  ["127.1", "10.0.0.1"],
  ["3405803785", "10.0.0.1"],
  ["0203.0.113.9", "10.0.0.1"],
  ["203.0.113.9:", "10.0.0.1"],
  ["203.0.113.9%eth0", "10.0.0.1"],
  ["[203.0.113.9]", "10.0.0.1"],
  ["[2001:db8::9", "10.0.0.1"],
  ['"203.0.113.9"', "10.0.0.1"],
  ["203.0.113.9\u0000", "10.0.0.1"],
  ["1.2.3.4.5", "10.0.0.1"],
  ["256.1.1.1", "10.0.0.1"],
  ["localhost", "10.0.0.1"],
])("X-Forwarded-For %j means %s", (value, address) => {
  expect(listed(value)).toBe(address);
});

test.each([
  ["for=203.0.113.9", "203.0.113.9"],
  ["For=203.0.113.9;proto=https;by=10.0.0.1", "203.0.113.9"],
  ["proto=https ; for=203.0.113.9", "203.0.113.9"],
  ['for="203.0.113.9"', "203.0.113.9"],
  ['for="203.0.113.9:4711"', "203.0.113.9"],
  ['for="[2001:db8::9]"', "2001:db8::9"],
  ['for="[2001:db8::9]:4711"', "2001:db8::9"],
  ['for="\\2\\03.0.113.9"', "203.0.113.9"],
  ['for=203.0.113.9;host="a,b;c=\\"d\\""', "203.0.113.9"],
  ["for=198.51.100.66, for=203.0.113.9", "203.0.113.9"],
  ["for=203.0.113.9, for=10.1.1.1;by=10.0.0.1", "203.0.113.9"],
  [";for=203.0.113.9;", "203.0.113.9"],
  // A quote that the client left open hides nothing that was added behind it.
  ['for="198.51.100.66, for=203.0.113.9', "203.0.113.9"],
  ['for="198.51.100.66, for=203.0.113.9, for=10.1.1.1', "203.0.113.9"],
  ['for="x\\", for="[2001:db8::9]"', "2001:db8::9"],
  ['for="198.51.100.66, for=10.1.1.1', "10.1.1.1"],
  // Hidden, unknown or broken: the proxy that said it is the client.
  ["for=unknown", "10.0.0.1"],
  ["for=_hidden", "10.0.0.1"],
  ["for=203.0.113.9, for=_hidden, for=10.1.1.1", "10.1.1.1"],
  ["proto=https", "10.0.0.1"],
  ["for=203.0.113.9;for=198.51.100.66", "10.0.0.1"],
  ["for=2001:db8::9", "10.0.0.1"],
  ['for="2001:db8::9"', "10.0.0.1"],
  ["for = 203.0.113.9", "10.0.0.1"],
  ["203.0.113.9", "10.0.0.1"],
  ['for="203.0.113.9', "10.0.0.1"],
  ["for=203.0.113.9 x", "10.0.0.1"],
  ["", "10.0.0.1"],
])("Forwarded %j means %s", (value, address) => {
  expect(forwarded(value)).toBe(address);
});

test("header lines that come several times are one list, in their order", () => {
  const headers = [
    ["x-forwarded-for", "198.51.100.66"],
    ["X-FORWARDED-FOR", "203.0.113.9"],
    ["x-forwarded-for", "10.1.1.1"],
  ] as const;
  expect(clientOf(PROXIES, "10.0.0.1", headers).address).toBe("203.0.113.9");
});

test("names that only look like the headers mean nothing", () => {
  for (const name of ["X_Forwarded_For", "x.forwarded.for", "X-Forwarded-For-", "Forwarded-For"]) {
    expect(clientOf(PROXIES, "10.0.0.1", [[name, "203.0.113.9"]]).address).toBe("10.0.0.1");
  }
});

test("of Forwarded and X-Forwarded-For that disagree neither is believed", () => {
  const both = (one: string, other: string) =>
    clientOf(PROXIES, "10.0.0.1", [
      ["Forwarded", one],
      ["X-Forwarded-For", other],
    ]).address;
  expect(both("for=203.0.113.9", "203.0.113.9")).toBe("203.0.113.9");
  expect(both("for=203.0.113.9", "203.0.113.9, 10.1.1.1")).toBe("203.0.113.9");
  expect(both("for=198.51.100.66", "203.0.113.9")).toBe("10.0.0.1");
  expect(both("junk", "203.0.113.9")).toBe("10.0.0.1");
});

test("no more than twenty addresses and 4 KiB are looked at", () => {
  const many = Array.from({ length: 5_000 }, () => "10.1.1.1").join(",");
  expect(listed(`203.0.113.9, ${many}`)).toBe("10.1.1.1");
  expect(forwarded(`for=203.0.113.9, for=10.1.1.1;x="${"a".repeat(5_000)}"`)).toBe("10.0.0.1");
  expect(
    clientOf(
      PROXIES,
      "10.0.0.1",
      Array.from({ length: 30 }, (_, i) => ["x-forwarded-for", i === 0 ? "203.0.113.9" : "10.1.1.1"] as const),
    ).address,
  ).toBe("10.1.1.1");
});

test.each([";", '"', "\\", '\\"', ",", "for=", 'for="', " ", "a=b;"])("64 KiB of %j take no time", (piece) => {
  const value = piece.repeat(Math.ceil(65_536 / piece.length));
  const startedAt = process.cpuUsage();
  for (let i = 0; i < 20; i++) forwarded(value);
  const { user } = process.cpuUsage(startedAt);
  expect(user / 1_000).toBeLessThan(1_000);
});

test.each([
  ["127.0.0.1", "loopback"],
  ["::ffff:127.1.2.3", "loopback"],
  ["::1", "loopback"],
  ["10.1.2.3", "private address"],
  ["172.31.255.255", "private address"],
  ["172.32.0.0", "public address"],
  ["192.168.0.1", "private address"],
  ["169.254.169.254", "private address"],
  ["100.64.0.1", "private address"],
  ["100.128.0.1", "public address"],
  ["::ffff:10.1.2.3", "private address"],
  ["fd00::1", "private address"],
  ["fe80::1%eth0", "private address"],
  ["203.0.113.9", "public address"],
  ["2001:db8::1", "public address"],
  ["", "unknown address"],
])("%s is told as %s", (remoteAddress, kind) => expect(addressKindOf(remoteAddress)).toBe(kind));
