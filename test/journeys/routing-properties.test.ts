import * as fc from "fast-check";
import { expect, test } from "vitest";
import { NOTHING_KEPT } from "../support/gateway.ts";
import { ENDPOINTS, endpointPath } from "../../src/spec/endpoints.ts";
import { type SentRequest, send } from "../support/send.ts";
import { runs } from "../support/thorough.ts";
import {
  ADMINS,
  REGISTRY_NAMES,
  type RegistryName,
  STRANGER,
  useThreeRegistries,
} from "../support/three-registries.ts";

const running = useThreeRegistries({
  keys: NOTHING_KEPT,
});

const PREFIX = "/api/token-standard/v0/registrars";

/** A text percent-encoded here and there: every spelling means the same. */
const spelled = (text: string): fc.Arbitrary<string> =>
  fc.array(fc.nat(3), { minLength: 1, maxLength: 16 }).map((choices) =>
    [...Buffer.from(text)]
      .map((byte, i) => {
        const plain = String.fromCharCode(byte);
        const choice = choices[i % choices.length]!;
        const code = `%${byte.toString(16).padStart(2, "0")}`;
        if (choice === 0) return code;
        if (choice === 1) return code.toUpperCase();
        return /[A-Za-z0-9:_~-]/.test(plain) ? plain : code;
      })
      .join(""),
  );

/** What one place of a request names: a registry by party id or alias, a stranger, or nothing. */
interface Naming {
  readonly means: RegistryName | "stranger" | undefined;
  readonly text: string;
}

const naming = (mayBeAlias: boolean): fc.Arbitrary<Naming> =>
  fc.oneof(
    fc.constant<Naming>({ means: undefined, text: "" }),
    fc.constant<Naming>({ means: "stranger", text: STRANGER }),
    ...REGISTRY_NAMES.map((means) => fc.constant<Naming>({ means, text: ADMINS[means] })),
    ...(mayBeAlias ? REGISTRY_NAMES.map((means) => fc.constant<Naming>({ means, text: means })) : []),
  );

/** Where the factories have the admin of the instrument. */
const PLACES: Readonly<Record<string, (admin: string) => object>> = {
  transfer_factory: (admin) => ({ transfer: { instrumentId: { admin } } }),
  transfer_factory_v2: (admin) => ({ transfer: { instrumentId: { admin } } }),
  allocation_factory: (admin) => ({ allocation: { transferLeg: { instrumentId: { admin } } } }),
  allocation_factory_v2: (admin) => ({ allocation: { admin } }),
};

interface Case {
  readonly request: SentRequest;
  readonly named: readonly (RegistryName | "stranger")[];
}

/** A well-formed request to any endpoint, whose places agree or not, as it falls. */
const requests: fc.Arbitrary<Case> = fc
  .record({
    endpoint: fc.constantFrom(...ENDPOINTS),
    id: fc.string({ unit: "grapheme", minLength: 1, maxLength: 30 }).filter(isGoodId),
    path: naming(true),
    header: naming(true),
    instrument: naming(false),
    expected: naming(false),
  })
  .chain((parts) =>
    spelled(parts.path.text).map((spelling) => {
      const { endpoint, path, header, instrument, expected } = parts;
      const below = endpointPath(endpoint, parts.id);
      const isFactory = endpoint.kind === "factory";
      const place = PLACES[endpoint.operation];
      const choiceArguments = {
        ...(instrument.means === undefined ? {} : place?.(instrument.text)),
        ...(expected.means === undefined ? {} : { expectedAdmin: expected.text }),
      };
      const namings = [path, header, ...(place === undefined ? [] : [instrument]), ...(isFactory ? [expected] : [])];
      return {
        request: {
          path: path.means === undefined ? below : `${PREFIX}/${spelling}${below}`,
          headers: header.means === undefined ? {} : { "x-instrument-admin": header.text },
          ...(endpoint.kind === "metadata" ? {} : { body: JSON.stringify({ choiceArguments }) }),
        },
        named: namings.map(({ means }) => means).filter((means) => means !== undefined),
      };
    }),
  );

function isGoodId(id: string): boolean {
  return id.isWellFormed() && id !== "." && id !== ".." && !/\p{Cc}/u.test(id);
}

const calledRegistries = (): RegistryName[] =>
  REGISTRY_NAMES.filter((name) => running().registries[name].calls.total > 0);

test("a request reaches the one registry that all its places name, and otherwise none", async () => {
  await fc.assert(
    fc.asyncProperty(requests, async ({ request, named }) => {
      // What the plain base URL of all registries together answers is another story.
      fc.pre(named.length > 0);
      running().clearCalls();
      const { status } = await send(running().url, request);
      const [only, ...others] = new Set(named);
      const isClear = others.length === 0 && only !== "stranger";
      expect(calledRegistries()).toEqual(isClear ? [only] : []);
      if (!isClear) expect(status).toBe(others.length > 0 ? 400 : 404);
    }),
    { numRuns: runs(75, 1_000) },
  );
});

test("whatever the URL, no registry gets a request whose path names another", async () => {
  const piece = fc.constantFrom(
    ...REGISTRY_NAMES,
    ...REGISTRY_NAMES.map((name) => encodeURIComponent(ADMINS[name])),
    "registry",
    "metadata/v1/info",
    "metadata",
    "v1",
    "instruments",
    "info",
    "..",
    ".",
    "",
    "%2e%2e",
    "%2F",
    "%2f..%2f",
    "%00",
    "a%20b",
    PREFIX.slice(1),
    "registrars",
    "?pageSize=1",
    "drafts/v1/x",
    "allocations/v1/x/choice-contexts/cancel",
  );
  await fc.assert(
    fc.asyncProperty(
      piece,
      fc.array(piece, { maxLength: 6 }),
      fc.constantFrom("GET", "POST"),
      async (admin, rest, method) => {
        running().clearCalls();
        await send(running().url, { method, path: [PREFIX, admin, "registry", ...rest].join("/") });
        const named = REGISTRY_NAMES.filter((name) => [name, encodeURIComponent(ADMINS[name])].includes(admin));
        expect(named).toEqual(expect.arrayContaining(calledRegistries()));
        for (const name of named) {
          // Nothing a client writes leaves the API's part of a registry's host.
          for (const { url } of running().registries[name].calls.recent) {
            expect(new URL(url, "http://registry").pathname).toMatch(/^\/registry\//);
          }
        }
      },
    ),
    { numRuns: runs(100, 1_500) },
  );
});
