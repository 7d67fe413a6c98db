import { GatewayError } from "../errors.ts";

/** As many entries as an answer has: requests and actions that are kept. */
const MOST = 500;

/**
 * The parameters of a query.
 *
 * @throws GatewayError 400 for one that is not among `names`, and for one that is given twice
 */
export function readQuery<Name extends string>(
  query: unknown,
  names: readonly Name[],
): Readonly<Partial<Record<Name, string>>> {
  const known: readonly string[] = names;
  const isRight = Object.entries(query as object).every(
    ([name, value]) => known.includes(name) && typeof value === "string",
  );
  if (isRight) return query as Partial<Record<Name, string>>;
  const once = names.length === 1 ? "once" : "each of them once";
  throw new GatewayError("invalid_query", `this path takes ${names.join(", ")}, ${once}`);
}

/**
 * How many entries are asked for: all that an answer has where nothing is said.
 *
 * @throws GatewayError 400 for anything but a number from 1 to 500
 */
export function readLimit(text = String(MOST)): number {
  const limit = /^[0-9]{1,3}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= MOST) return limit;
  throw new GatewayError("invalid_query", `limit must be a whole number from 1 to ${MOST}`);
}
