import type { Config } from "../config/schema.ts";
import { parseExtraPath } from "../config/urls.ts";
import { GatewayError } from "../errors.ts";
import { endpointAt, ENDPOINTS, isId } from "../spec/operations.ts";

/** A path of `extraPaths`, and whose it is. */
interface ExtraPath {
  readonly upstream: string;
  readonly method: "GET" | "POST";
  /** Without `/*`. */
  readonly path: string;
  /** `/*`: everything below. */
  readonly isBelow: boolean;
}

/** Paths of the public listener that lead to a registry: below prefix and base paths, and extra paths. */
interface Addressing {
  readonly prefix: string;
  /** Upstreams' names by their base paths. */
  readonly basePaths: ReadonlyMap<string, string>;
  /** The most exact first. */
  readonly extraPaths: readonly ExtraPath[];
  /** Matches a base URL and the `/registry` behind it, with a slash or a second `/registry` that is forgiven. */
  readonly forgiven: RegExp;
}

const addressings = new WeakMap<Config, Addressing>();

/** The addressing of a configuration, made once. */
export function addressingOf(config: Config): Addressing {
  const known = addressings.get(config);
  if (known !== undefined) return known;
  const { prefix } = config.routing;
  const enabled = config.upstreams.filter(({ enabled }) => enabled);
  const basePaths = new Map(enabled.flatMap(({ name, basePaths }) => basePaths.map((path) => [path, name] as const)));
  const extraPaths = enabled.flatMap(({ name, extraPaths }) => extraPaths.map((text) => extraPathOf(text, name)));
  extraPaths.sort((one, other) => Number(one.isBelow) - Number(other.isBelow) || other.path.length - one.path.length);
  const bases = [...[...basePaths.keys()].map(escaped), `${escaped(prefix)}/[^/?]*`, ""].join("|");
  const forgiven = new RegExp(`^(${bases})//?registry(?=/)(?://?registry(?=/))?`);
  const addressing = { prefix, basePaths, extraPaths, forgiven };
  addressings.set(config, addressing);
  return addressing;
}

function escaped(text: string): string {
  return text.replaceAll(/[^\w/-]/g, String.raw`\$&`);
}

function extraPathOf(text: string, upstream: string): ExtraPath {
  const { method, path } = parseExtraPath(text);
  const isBelow = path.endsWith("/*");
  return { upstream, method, path: isBelow ? path.slice(0, -2) : path, isBelow };
}

/** Stands for a target that is neither a path nor an HTTP URL: no route has it, and {@link checkPath} refuses it. */
const UNREADABLE = "/\0";

/** RFC 9112 §3.2.2; the authority counts for nothing here, but has to be one. */
const ABSOLUTE_FORM = /^https?:\/\/(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?(?=$|[/?])(.*)$/is;

/**
 * The URL by which a request is routed: in origin form; a slash or `/registry` too many before the standard's path is
 * forgiven, and a base path becomes the prefix and its upstream's name.
 */
export function rewriteUrl(url: string, { prefix, basePaths, forgiven }: Addressing): string {
  let path = url;
  if (!path.startsWith("/")) {
    const rest = ABSOLUTE_FORM.exec(path)?.[1];
    if (rest === undefined) return UNREADABLE;
    path = rest.startsWith("/") ? rest : `/${rest}`;
  }
  // Nearly all URLs are as they should be.
  if (basePaths.size === 0 && !path.includes("//") && !path.includes("/registry/registry")) return path;
  return path.replace(forgiven, (_all, base: string) => {
    const name = basePaths.get(base);
    return `${name === undefined ? base : `${prefix}/${name}`}/registry`;
  });
}

/** Visible ASCII but `#`, which no request target holds (RFC 9112 §3.2). */
const VISIBLE = /^[\x21\x22\x24-\x7e]+$/;
/** Matches most paths: nothing in them climbs or is encoded, but the colons of a party id. */
const PLAIN = /^(?:\/(?:[\w:~-]|%3[Aa])+)+$/;
// oxlint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
/** `.` or `..` between slashes of either kind, also with parameters behind it, which servlet containers cut off. */
const CLIMBING = /(?:^|[/\\])\.\.?(?:;[^/\\]*)?(?:$|[/\\])/;
/** Times that servers behind us may decode a segment once more. */
const DECODINGS = 3;

/** @throws GatewayError 400 for a path with a segment that is empty, climbs, holds control characters, or is no UTF-8 */
export function checkPath(url: string): void {
  const path = pathOf(url);
  if (!VISIBLE.test(url)) throw unreadable(url);
  if (path === "/" || PLAIN.test(path)) return;
  for (const segment of path.slice(1).split("/")) {
    const text = decode(segment);
    if (text === "") throw malformed("the path has an empty segment; leave out the slash that is too many");
    if (CONTROL.test(text)) throw malformed("the path holds control characters; send an id without them");
    if (climbs(text)) {
      throw malformed("the path has a segment with . or .. as a part of it, which servers resolve; use another id");
    }
  }
}

function unreadable(url: string): GatewayError {
  if (url !== UNREADABLE) return malformed("the URL holds characters that must be percent-encoded");
  const text = "the request target must be a path, or an http URL of a host and a path";
  return new GatewayError("malformed_request", text);
}

function climbs(segment: string): boolean {
  let text = segment;
  for (let times = 0; times <= DECODINGS; times += 1) {
    if (CLIMBING.test(text)) return true;
    if (!text.includes("%")) return false;
    // Byte by byte: what is no UTF-8 keeps no server from decoding the rest, and only ASCII is looked for.
    text = text.replaceAll(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  }
  return false;
}

function malformed(text: string): GatewayError {
  return new GatewayError("malformed_path", text);
}

function decode(segment: string): string {
  try {
    return segment.includes("%") ? decodeURIComponent(segment) : segment;
  } catch {
    throw malformed("the path is not percent-encoded UTF-8");
  }
}

/** The URL without its query. */
export function pathOf(url: string): string {
  const mark = url.indexOf("?");
  return mark === -1 ? url : url.slice(0, mark);
}

/** The query as sent, with its `?`; empty without one. */
export function queryOf(url: string): string {
  const mark = url.indexOf("?");
  return mark === -1 ? "" : url.slice(mark);
}

/** The decoded segments of a path that {@link checkPath} let pass. */
export function segmentsOf(path: string): string[] {
  return path.slice(1).split("/").map(decode);
}

const ALLOW = { metadata: "GET, HEAD", factory: "POST", context: "POST" } as const;
const FAMILIES: ReadonlySet<string> = new Set(ENDPOINTS.map(({ segments }) => segments[0]!));
/** Characters by which some server behind us may take one segment for something else. */
const ODD = /[/\\;%]/;

/**
 * Lets pass what is below `/registry` and none of the endpoints.
 *
 * @param segments decoded
 * @throws GatewayError 405 for an endpoint with another method, 404 for what would be one but for its ids, or where a server
 * behind us could read one
 */
export function checkPassedPath(segments: readonly string[]): void {
  const endpoint = endpointAt(segments);
  if (endpoint !== undefined) throw wrongMethod(ALLOW[endpoint.record.kind]);
  if (ENDPOINTS.some((each) => agreesButForSlashes(each.segments, segments))) {
    throw new GatewayError(
      "no_such_path",
      "no such path; an id is one path segment, so a slash in it must be sent as %2F",
    );
  }
  const lower = segments.map((segment) => segment.toLowerCase());
  const [family = ""] = lower;
  // In a family of drafts, ids behind family, version and name may hold such characters.
  const isOdd = (FAMILIES.has(family) ? segments : segments.slice(0, 3)).some((segment) => ODD.test(segment));
  if (isOdd || family === "registry" || endpointAt(lower) !== undefined) {
    throw new GatewayError(
      "no_such_path",
      "no such path; the parts of a standard path must be sent as the standard has them",
    );
  }
}

/** The 405 for a path that has other methods. */
export function wrongMethod(allow: string): GatewayError {
  return new GatewayError("method_not_allowed", `the path does not take this method; it takes ${allow}`, { allow });
}

/** Whether segments would be an endpoint's if its id were one segment: its slashes were not encoded. */
function agreesButForSlashes(pattern: readonly string[], segments: readonly string[]): boolean {
  const at = pattern.findIndex(isId);
  if (at === -1 || segments.length <= pattern.length) return false;
  const tail = pattern.slice(at + 1);
  const end = segments.slice(segments.length - tail.length);
  return pattern.slice(0, at).every((part, i) => part === segments[i]) && tail.every((part, i) => part === end[i]);
}

/**
 * Finds the extra path that a request is for.
 *
 * @param path not decoded
 * @returns `methods`: those of every extra path that the path is
 */
export function findExtraPath(
  { extraPaths }: Addressing,
  path: string,
  method: string,
): { readonly found: ExtraPath | undefined; readonly methods: readonly string[] } {
  const all = extraPaths.filter((each) => (each.isBelow ? path.startsWith(`${each.path}/`) : path === each.path));
  return { found: all.find((each) => each.method === method), methods: all.map((each) => each.method) };
}
