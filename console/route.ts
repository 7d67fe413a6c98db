export const PAGES = [
  "overview",
  "registries",
  "cache",
  "requests",
  "clients",
  "discovery",
  "audit",
  "configuration",
] as const;
export type Page = (typeof PAGES)[number];

/** What is shown: the part of the address behind `#`. */
export interface Route {
  readonly page: Page;
  /** What of it: the name of a registry. */
  readonly name?: string;
  readonly query: Readonly<Record<string, string>>;
}

/** Reads `#/registries/amulet?sort=name`. What is no page is the overview. */
export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [first = "", second] = path.split("/", 2);
  const page = PAGES.find((known) => known === first) ?? "overview";
  const name = second === undefined || second === "" ? undefined : decode(second);
  const query = Object.fromEntries(new URLSearchParams(search));
  return name === undefined ? { page, query } : { page, name, query };
}

/** The other way. */
export function formatRoute({ page, name, query = {} }: Pick<Route, "page"> & Partial<Route>): string {
  const search = new URLSearchParams(query).toString();
  const path = name === undefined ? page : `${page}/${encodeURIComponent(name)}`;
  return `#/${path}${search === "" ? "" : `?${search}`}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
