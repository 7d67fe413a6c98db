import { describe, expect, it } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import { checkAccess, checkMayChange } from "../../../src/operations/access.ts";

const TOKENS = [
  { name: "ops", token: "ops-token-0123456789", readonly: false },
  { name: "viewer", token: "viewer-token-012345", readonly: true },
];
const LOOPBACK = { host: "127.0.0.1", port: 9090, hosts: ["Gateway.example"] };
const EXPOSED = { ...LOOPBACK, host: "0.0.0.0" };

const basic = (text: string): string => `Basic ${Buffer.from(text).toString("base64")}`;

interface Case {
  readonly what: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
  readonly area?: "console" | "data";
  readonly config?: typeof LOOPBACK;
  readonly tokens?: typeof TOKENS;
  /** The operator's name, or status and code. */
  readonly is: string;
}

const link = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };

const CASES: readonly Case[] = [
  { what: "loopback without tokens", is: "local" },
  { what: "loopback without tokens, by an unasked credential", headers: { authorization: "Bearer x" }, is: "local" },
  { what: "loopback with tokens and none shown", tokens: TOKENS, is: "401 unauthenticated" },
  { what: "beyond loopback without tokens", config: EXPOSED, is: "403 forbidden" },
  { what: "beyond loopback, none shown", config: EXPOSED, tokens: TOKENS, is: "401 unauthenticated" },
  {
    what: "a bearer",
    config: EXPOSED,
    tokens: TOKENS,
    headers: { authorization: "bearer ops-token-0123456789" },
    is: "ops",
  },
  {
    what: "Basic",
    config: EXPOSED,
    tokens: TOKENS,
    headers: { authorization: basic("ops:ops-token-0123456789") },
    is: "ops",
  },
  {
    what: "a readonly token",
    tokens: TOKENS,
    headers: { authorization: basic("viewer:viewer-token-012345") },
    is: "viewer",
  },
  {
    what: "another's name",
    tokens: TOKENS,
    headers: { authorization: basic("viewer:ops-token-0123456789") },
    is: "401 unauthenticated",
  },
  {
    what: "Basic without a colon",
    tokens: TOKENS,
    headers: { authorization: basic("ops") },
    is: "401 unauthenticated",
  },
  {
    what: "a token with a letter too few",
    tokens: TOKENS,
    headers: { authorization: "Bearer ops-token-012345678" },
    is: "401 unauthenticated",
  },
  { what: "an empty bearer", tokens: TOKENS, headers: { authorization: "Bearer" }, is: "401 unauthenticated" },
  {
    what: "another scheme",
    tokens: TOKENS,
    headers: { authorization: "Digest ops-token-0123456789" },
    is: "401 unauthenticated",
  },
  { what: "localhost", headers: { host: "localhost:9090" }, is: "local" },
  { what: "an IPv6 address", headers: { host: "[::1]:9090" }, is: "local" },
  { what: "an address without port", headers: { host: "192.0.2.1" }, is: "local" },
  { what: "a name of hosts, however it is written", headers: { host: "gateway.EXAMPLE.:9090" }, is: "local" },
  { what: "another host", headers: { host: "evil.example" }, is: "421 misdirected_request" },
  {
    what: "another host with a good token",
    tokens: TOKENS,
    headers: { host: "evil.example", authorization: "Bearer ops-token-0123456789" },
    is: "421 misdirected_request",
  },
  { what: "no host", headers: { host: "" }, is: "421 misdirected_request" },
  {
    what: "the console's own page",
    headers: { "sec-fetch-site": "same-origin", origin: "http://127.0.0.1:9090" },
    is: "local",
  },
  { what: "an address typed by hand", headers: { "sec-fetch-site": "none" }, is: "local" },
  { what: "a page of another site", headers: { "sec-fetch-site": "cross-site" }, is: "403 forbidden" },
  { what: "a page of another port of this machine", headers: { "sec-fetch-site": "same-site" }, is: "403 forbidden" },
  {
    what: "another origin in an old browser",
    headers: { origin: "http://127.0.0.1:8080" },
    method: "POST",
    is: "403 forbidden",
  },
  { what: "an origin that a browser hides", headers: { origin: "null" }, method: "POST", is: "403 forbidden" },
  {
    what: "a hidden origin, at a port that there is not",
    headers: { host: "127.0.0.1:99999", origin: "null" },
    is: "403 forbidden",
  },
  { what: "a link to the console on another site", headers: link, area: "console", is: "local" },
  { what: "a link to data on another site", headers: link, is: "403 forbidden" },
  { what: "a form of another site", headers: link, method: "POST", area: "console", is: "403 forbidden" },
  {
    what: "a page of another site with a good token",
    tokens: TOKENS,
    headers: { ...link, authorization: basic("ops:ops-token-0123456789") },
    method: "POST",
    is: "403 forbidden",
  },
];

describe("access to the operations listener", () => {
  it.each(CASES)("by $what: $is", ({ headers = {}, method = "GET", area = "data", config = LOOPBACK, tokens, is }) => {
    const asked = { method, area, headers: { host: "127.0.0.1:9090", ...headers } };
    const outcome = (): string => {
      try {
        return checkAccess(asked, { ...config, ...(tokens !== undefined && { tokens }) }).name;
      } catch (error) {
        return error instanceof GatewayError ? `${error.status} ${error.code}` : String(error);
      }
    };
    expect(outcome()).toBe(is);
  });

  it("lets a readonly operator change nothing", () => {
    expect(() => checkMayChange({ name: "viewer", isReadonly: true })).toThrow(/viewer.*change nothing/);
    expect(() => checkMayChange({ name: "ops", isReadonly: false })).not.toThrow();
  });
});
