import { isAuthority } from "../connections/framing.ts";
import { GatewayError } from "../errors.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { adminPathsOfPassThrough } from "../spec/body-admin.ts";
import { type Endpoint, matchEndpoint } from "../spec/endpoints.ts";

/** What a request's URL addresses, before any registry is looked up. */
export type Target = RegistryTarget | PassThroughTarget | LocalTarget;

/** One of the endpoints of the standard. */
export interface RegistryTarget {
  readonly kind: "endpoint";
  readonly endpoint: Endpoint;
  /** The decoded instrument or contract id, where the endpoint has one. */
  readonly id: string | undefined;
  /** The admin or alias that the path names; undefined on the plain base URL. */
  readonly registry: string | undefined;
  /** The raw query, without `?`. */
  readonly query: string;
}

/** Any other path below `/registry`, as drafts and other families of APIs have; or one of `extraPaths`. */
export interface PassThroughTarget {
  readonly kind: "pass-through";
  /** Decoded segments below `/registry`; none for an extra path. */
  readonly segments: readonly string[];
  /** The path of `extraPaths` that it is; undefined below `/registry`. */
  readonly extraPath: string | undefined;
  readonly registry: string | undefined;
  readonly query: string;
}

/** Whether its answers may be kept: those of an extra path without a query, which clients could vary without end. */
export function isKeptExtraPath({ extraPath, query }: PassThroughTarget): boolean {
  return extraPath !== undefined && query === "";
}

/** A page of the gateway's own. */
export interface LocalTarget {
  readonly kind: "local";
  readonly path: string;
  readonly query: string;
}

/** Which paths of the public listener are a registry's. */
export interface Addressing {
  /** `routing.prefix`. */
  readonly prefix: string;
  /** Which upstream's each of `basePaths` is; none is below another. */
  readonly basePaths: ReadonlyMap<string, string>;
  /** Which upstreams have each of `extraPaths`. */
  readonly extraPaths: ReadonlyMap<string, readonly string[]>;
}

/** The addressing of what is configured. */
export function addressingOf(
  prefix: string,
  upstreams: readonly { readonly name: string; readonly config: Pick<UpstreamConfig, "basePaths" | "extraPaths"> }[],
): Addressing {
  const extras = upstreams.flatMap(({ name, config }) => config.extraPaths.map((path) => ({ name, path })));
  return {
    prefix,
    basePaths: new Map(upstreams.flatMap(({ name, config }) => config.basePaths.map((path) => [path, name] as const))),
    extraPaths: new Map(
      Object.entries(Object.groupBy(extras, ({ path }) => path)).map(([path, list]) => [
        path,
        list!.map(({ name }) => name),
      ]),
    ),
  };
}

/**
 * Reads a request target.
 *
 * @param url as received: origin form, or absolute form (RFC 9112 §3.2.2), whose authority counts for nothing here
 * @throws GatewayError 400 for a malformed path, 404 for one that addresses nothing
 */
export function parseTarget(url: string, { prefix, basePaths, extraPaths }: Addressing): Target {
  if (!PRINTABLE.test(url))
    throw new GatewayError("malformed_path", "the URL holds characters that must be percent-encoded");
  const origin = url.startsWith("/") ? url : originForm(url);
  const mark = origin.indexOf("?");
  const path = mark === -1 ? origin : origin.slice(0, mark);
  const query = mark === -1 ? "" : origin.slice(mark + 1);
  if (path.startsWith(`${prefix}/`)) {
    const [admin = "", ...rest] = path.slice(prefix.length + 1).split("/");
    if (admin === "")
      throw new GatewayError("admin_missing", `the path names no instrument admin: ${addressForm(prefix)}`);
    const registry = decodeSegment(admin);
    const extraPath = `/${(rest[0] === "" ? rest.slice(1) : rest).join("/")}`;
    if (extraPaths.has(extraPath)) return { kind: "pass-through", segments: [], extraPath, registry, query };
    const segments = belowRegistry(rest);
    if (segments === undefined) {
      const hint = rest[0] === "catalog" ? "; the catalogue of all registries is at /catalog/v1 of this host" : "";
      const text = `no such path; the API of one registry is below ${addressForm(prefix)}${hint}`;
      throw new GatewayError("no_such_path", text);
    }
    return registryTarget(segments, query, registry);
  }
  const segments = belowRegistry(path.slice(1).split("/"));
  if (segments !== undefined) return registryTarget(segments, query, undefined);
  const owners = extraPaths.get(path);
  if (owners !== undefined) {
    const registry = owners.length === 1 ? owners[0] : undefined;
    return { kind: "pass-through", segments: [], extraPath: path, registry, query };
  }
  for (const [base, registry] of basePaths) {
    const below = path.startsWith(`${base}/`) ? belowRegistry(path.slice(base.length + 1).split("/")) : undefined;
    if (below !== undefined) return registryTarget(below, query, registry);
  }
  return { kind: "local", path, query };
}

/** How a registry is addressed, for error texts. */
export function addressForm(prefix: string): string {
  return `${prefix}/{admin}/registry/`;
}

/** The query parameters of endpoint 2, canonical: equal parameters give equal strings. */
export interface PageQuery {
  readonly pageSize: number | undefined;
  /** Percent-encoded as it goes upstream; `+` stays what the client sent, for servers read it differently. */
  readonly pageToken: string | undefined;
}

/**
 * Reads `pageSize` and `pageToken`; other parameters are dropped.
 *
 * @throws GatewayError 400 for a `pageSize` that is empty, repeated or no integer from 1 to 2^31-1, or a `pageToken`
 * that is repeated or not percent-encoded UTF-8
 */
export function parsePageQuery(query: string): PageQuery {
  let pageSize: number | undefined;
  let pageToken: string | undefined;
  for (const [name, value] of queryPairs(query)) {
    if (name === "pageSize") {
      if (pageSize !== undefined) throw new GatewayError("invalid_query", "pageSize is given twice");
      pageSize = parsePageSize(value);
    } else if (name === "pageToken") {
      if (pageToken !== undefined) throw new GatewayError("invalid_query", "pageToken is given twice");
      pageToken = canonicalToken(value);
    }
  }
  return { pageSize, pageToken };
}

/** The name (decoded) and value (as sent) of each query parameter. */
export function* queryPairs(query: string): Generator<[name: string, value: string]> {
  if (query === "") return;
  for (const pair of query.split("&")) {
    const at = pair.indexOf("=");
    const name = decodeOrUndefined((at === -1 ? pair : pair.slice(0, at)).replaceAll("+", " "));
    if (name !== undefined) yield [name, at === -1 ? "" : pair.slice(at + 1)];
  }
}

function parsePageSize(value: string): number {
  const decoded = decodeOrUndefined(value) ?? "";
  const size = /^[0-9]{1,10}$/.test(decoded) ? Number(decoded) : Number.NaN;
  if (!(size >= 1 && size <= 0x7fff_ffff)) {
    throw new GatewayError(
      "invalid_query",
      `pageSize must be an integer from 1 to 2147483647, not ${JSON.stringify(decoded)}`,
    );
  }
  return size;
}

function canonicalToken(value: string): string {
  const parts = value.split("+").map(decodeOrUndefined);
  if (parts.includes(undefined)) throw new GatewayError("invalid_query", "pageToken is not percent-encoded UTF-8");
  return parts.map((part) => encodeURIComponent(part!)).join("+");
}

function registryTarget(segments: readonly string[], query: string, registry: string | undefined): Target {
  const found = matchEndpoint(segments);
  switch (found.match) {
    case "endpoint":
      return { kind: "endpoint", endpoint: found.endpoint, id: found.id, registry, query };
    case "malformed-id":
      throw new GatewayError(
        "no_such_path",
        "no such path; an id is one path segment, so a slash in it must be sent as %2F",
      );
    case "other":
      if (hidesEndpoint(segments)) {
        throw new GatewayError(
          "no_such_path",
          "no such path; the slashes between the parts of a path must be sent as they are",
        );
      }
      return { kind: "pass-through", segments, extraPath: undefined, registry, query };
  }
}

/**
 * The decoded segments behind `registry`. A base URL may have been written with a trailing slash or with `/registry`
 * at its end, so one empty segment and one repeated `registry` before the API's path are forgiven.
 */
function belowRegistry(segments: readonly string[]): string[] | undefined {
  let at = 0;
  if (segments[at] === "") at++;
  if (segments[at] !== "registry") return undefined;
  at++;
  const repeated = segments[at] === "" ? at + 1 : at;
  if (segments[repeated] === "registry") at = repeated + 1;
  return segments.slice(at).map(decodeSegment);
}

/**
 * @throws GatewayError 400 for a segment that is empty, climbs, is not percent-encoded UTF-8, or holds control
 * characters
 */
function decodeSegment(segment: string): string {
  if (PLAIN.test(segment)) return segment;
  const decoded = decodeOrUndefined(segment);
  if (decoded === undefined) throw new GatewayError("malformed_path", "the path is not percent-encoded UTF-8");
  if (decoded === "") throw new GatewayError("malformed_path", "the path has an empty segment");
  if (climbs(decoded)) {
    throw new GatewayError(
      "malformed_path",
      "the path has a segment with . or .. as a part of it, which servers resolve; use another id",
    );
  }
  if (CONTROL.test(decoded)) throw new GatewayError("malformed_path", "the path holds control characters");
  return decoded;
}

/**
 * Whether a server behind us that decodes the segment again, as many do with `%2F`, and then resolves `..` would leave
 * the path that was checked here.
 */
function climbs(segment: string): boolean {
  return readingsOf([segment]).some(([text]) => CLIMBING.test(text!));
}

/**
 * Whether such a server would see one of the endpoints, or a factory of a later version, in a path that is neither here:
 * neither the admin nor anything else in it would have been compared.
 */
function hidesEndpoint(segments: readonly string[]): boolean {
  const isPlain = !segments.some((segment) => MAY_READ_OTHERWISE.test(segment));
  return (isPlain ? [segments] : readingsOf(segments)).some((reading) => {
    const parts = reading.flatMap((text) => text.split(/[/\\]/).map(withoutParameters)).filter((part) => part !== "");
    // Such a server may forgive a `registry` more, as is done here.
    if (parts[0]?.toLowerCase() === "registry") return true;
    const isOther = parts.length !== segments.length || parts.some((part, i) => part !== segments[i]);
    return isOther && (matchEndpoint(parts).match !== "other" || adminPathsOfPassThrough(parts) !== undefined);
  });
}

/** Servlet containers cut off what is behind a semicolon. */
function withoutParameters(part: string): string {
  return part.replace(/;.*/s, "");
}

/** The segments as they are here, and as servers read them that decode once more, twice and three times. */
function readingsOf(segments: readonly string[]): (readonly string[])[] {
  const readings = [segments];
  while (readings.length <= DECODING_LAYERS && readings.at(-1)!.some((text) => text.includes("%"))) {
    readings.push(readings.at(-1)!.map(decodeLeniently));
  }
  return readings;
}

/** Byte by byte: what is no UTF-8 keeps no server from decoding the rest, and only ASCII is looked for. */
function decodeLeniently(text: string): string {
  return text.replaceAll(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function decodeOrUndefined(text: string): string | undefined {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function originForm(url: string): string {
  const match = /^https?:\/\/([^/?#]+)([/?].*)?$/i.exec(url);
  // RFC 9110 §4.2.4: user information in a URL from elsewhere is an error.
  if (match === null || !isAuthority(match[1]!)) {
    throw new GatewayError(
      "malformed_request",
      "the request target must be a path, or an http URL of a host and a path",
    );
  }
  const rest = match[2] ?? "/";
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** Visible ASCII but `#`, which no request target holds (RFC 9112 §3.2). */
const PRINTABLE = /^[\x21\x22\x24-\x7e]+$/;
/** Most segments: nothing in them is encoded, climbs or separates. */
const PLAIN = /^[\w:~-]+$/;
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
/** `.` or `..` between slashes of either kind, also with parameters behind it, which servlet containers cut off. */
const CLIMBING = /(?:^|[/\\])\.\.?(?:;[^/\\]*)?(?:$|[/\\])/;
const MAY_READ_OTHERWISE = /[%/\\;]/;
/** How often a segment is decoded behind us at most: by as many servers, one behind the other. */
const DECODING_LAYERS = 3;
