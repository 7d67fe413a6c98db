import { describe, expect, test } from "vitest";
import { lookUp } from "../../src/host-names.ts";
import { isPrivateHost, isPublicAddress, publicOnly } from "../../src/upstream/wire/public-address.ts";

describe("an address", () => {
  test.each([
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.5",
    "224.0.0.1",
    "239.1.1.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:7f00:1",
    "::8.8.8.8",
    "64:ff9b::808:808",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2620:4f:8000::1",
    "3fff::1",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "",
    "localhost",
    "1.2.3",
    "8.8.8.8.8",
  ])("%s is not public", (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  test.each([
    "1.1.1.1",
    "8.8.8.8",
    "172.15.255.255",
    "172.32.0.1",
    "100.128.0.1",
    "192.0.1.1",
    "2606:4700:4700::1111",
    "2a00:1450::1",
  ])("%s is public", (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  test.each([
    ["127.0.0.1", true],
    ["[::1]", true],
    ["[2606:4700::1]", false],
    ["8.8.8.8", false],
    // A name says nothing before it is looked up.
    ["localhost", false],
  ])("as the host %s of a URL is private: %s", (host, expected) => {
    expect(isPrivateHost(host)).toBe(expected);
  });
});

test("a name that leads to this machine is not connected to", async () => {
  const outcome = await new Promise((resolve) => {
    publicOnly(lookUp)("localhost", { all: true }, (error, addresses) => resolve(error ?? addresses));
  });
  expect(outcome).toMatchObject({ message: "it is at an address that is not public" });
});
