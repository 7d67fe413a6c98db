import { Document, YAMLMap } from "yaml";
import { escapeReferences } from "../config/environment.ts";
import type { ListedRegistry } from "./import-asset-list.ts";

/** A registry with what checking it has brought. */
export interface ImportedRegistry extends ListedRegistry {
  /** Why it must not be used as it is; undefined where it may be, or was not checked. */
  readonly doubt: string | undefined;
}

/** Names that mean something else in `routing.plain`. */
const RESERVED = ["aggregate", "off"];
const LONGEST_NAME = 64;

/**
 * The `upstreams` of a config file. Registries in doubt are there, switched off, with the reason beside them.
 *
 * @param registries admins occur once
 */
export function writeFragment(registries: readonly ImportedRegistry[]): string {
  const names = nameRegistries(registries);
  const document = new Document({ upstreams: [] });
  const list = registries.map(({ network, admin, urls, doubt }, at) => {
    const keys = {
      name: names[at],
      ...(doubt === undefined ? {} : { enabled: false }),
      // What a list holds is text: a reference to this machine's environment in it is none.
      ...(admin === undefined ? {} : { admin: escapeReferences(admin) }),
      urls: urls.map(escapeReferences),
    };
    const node = document.createNode(keys);
    if (node instanceof YAMLMap) node.commentBefore = commentOf(network, doubt);
    return node;
  });
  document.set("upstreams", document.createNode(list));
  return document.toString({ lineWidth: 0 });
}

function commentOf(network: string, doubt: string | undefined): string {
  const lines = [`network ${JSON.stringify(network)}`, ...(doubt === undefined ? [] : [`not used: ${doubt}`])];
  // Whatever is in the list, a comment ends with its line.
  return lines.map((line) => ` ${line.replaceAll(/[^\x20-\x7e]/g, "?")}`).join("\n");
}

/** Aliases made of what stands before `::` in the admin, or of the host; numbered where they meet. */
function nameRegistries(registries: readonly ListedRegistry[]): string[] {
  const taken = new Set<string>(RESERVED);
  return registries.map(({ admin, urls }) => {
    const hint = admin === undefined ? new URL(urls[0]!).hostname : admin.split("::", 1)[0]!;
    const plain = hint.replaceAll(/[^A-Za-z0-9_.-]+/g, "-").replaceAll(/^[^A-Za-z0-9]+|-+$/g, "");
    const base = (plain === "" ? "registry" : plain).slice(0, LONGEST_NAME - 6);
    let name = base;
    for (let number = 2; taken.has(name); number++) name = `${base}-${number}`;
    taken.add(name);
    return name;
  });
}
