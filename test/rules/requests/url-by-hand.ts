import { ENDPOINTS, PREFIX } from "../../support/endpoints.ts";
import { partyOf } from "../../support/registry.ts";
import { BASES, type Meaning } from "./scripted-app.ts";

const NAMES = ["amulet", "bonds"];
const refused: Meaning = { status: 400 };

/** What a request means, read from left to right: another way to the same end than routes and patterns. */
export function meaningOf(method: string, url: string): Meaning {
  if (!/^[\x21\x22\x24-\x7e]+$/.test(url)) return refused;
  const absolute = /^https?:\/\/[a-z0-9.-]+(?=[/?]|$)/i.exec(url)?.[0] ?? "";
  const [path = "", ...rest] = url.slice(absolute.length).split("?");
  const query = rest.length === 0 ? "" : `?${rest.join("?")}`;
  if (!path.startsWith("/")) return refused;
  let left = path.slice(1).split("/");
  let named: string | undefined;
  const prefix = [...Object.keys(BASES), PREFIX].find((base) => path.startsWith(`${base}/`));
  if (prefix !== undefined) left = path.slice(prefix.length + 1).split("/");
  if (prefix === PREFIX) named = decoded(left.shift()!) ?? "";
  else if (prefix !== undefined) named = BASES[prefix as keyof typeof BASES];
  if (left[0] === "") left.shift();
  if (left.shift() !== "registry") return refused;
  const again = left[0] === "" ? 1 : 0;
  if (left[again] === "registry" && left.length > again + 1) left.splice(0, again + 1);
  const segments = left.map(decoded);
  if ([...segments, named ?? "x"].some((each) => each === undefined || each === "" || isBad(each))) return refused;
  const registry = named === undefined ? "amulet" : NAMES.find((name) => name === named || partyOf(name) === named);
  if (registry === undefined) return refused;
  return { registry, asks: asksOf(method, segments as string[], query) };
}

function asksOf(method: string, segments: readonly string[], query: string): string {
  const encoded = `/registry/${segments.map(encodeURIComponent).join("/")}`;
  for (const endpoint of ENDPOINTS) {
    const pattern = endpoint.path.split("/").slice(2);
    const agrees =
      pattern.length === segments.length && pattern.every((part, i) => part === "{id}" || part === segments[i]);
    if (!agrees || endpoint.method !== method) continue;
    if (method === "POST") return `${endpoint.operation} ${encoded}`;
    return [endpoint.operation, ...segments.filter((_each, i) => pattern[i] === "{id}")].join(" ");
  }
  return `registry ${encoded}${query}`;
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/** Control characters, or a part that climbs, in any of four readings. */
function isBad(text: string): boolean {
  let reading = text;
  for (let times = 0; times < 4; times += 1) {
    const parts = reading.split(/[/\\]/).map((part) => part.split(";")[0]);
    if (parts.some((part) => part === "." || part === "..")) return true;
    reading = reading.replaceAll(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(parseInt(hex, 16)));
  }
  return /\p{Cc}/u.test(text);
}
