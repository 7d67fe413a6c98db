import * as fc from "fast-check";
import { expect, test } from "vitest";
import { ADMIN_HEADER, DRAFT, ENDPOINTS, PREFIX } from "../../support/endpoints.ts";
import { NOTHING_KEPT } from "../../support/gateway.ts";
import type { Request } from "../../support/http.ts";
import { partyOf, STRANGER } from "../../support/registry.ts";
import { runs } from "../../support/thorough.ts";
import { type Name, NAMES, useThree } from "../../support/three.ts";

const three = useThree({ keys: NOTHING_KEPT });

const forget = (): void => {
  for (const name of NAMES) three().registries[name].calls.length = 0;
};
const askedOnes = (): Name[] => NAMES.filter((name) => three().registries[name].count() > 0);

/** A text percent-encoded here and there: every spelling means the same. */
const spelled = (text: string): fc.Arbitrary<string> =>
  fc.array(fc.nat(3), { minLength: 1, maxLength: 16 }).map((choices) =>
    [...Buffer.from(text)]
      .map((byte, at) => {
        const plain = String.fromCharCode(byte);
        const code = `%${byte.toString(16).padStart(2, "0")}`;
        const chosen = choices[at % choices.length];
        if (chosen === 0) return code;
        if (chosen === 1) return code.toUpperCase();
        return /[A-Za-z0-9:_~-]/.test(plain) ? plain : code;
      })
      .join(""),
  );

/** What one place of a request names: a registry by party id or alias, a stranger, or nothing. */
interface Naming {
  readonly means: Name | "stranger" | undefined;
  readonly text: string;
}

const naming = (mayBeAlias: boolean): fc.Arbitrary<Naming> =>
  fc.constantFrom<Naming>(
    { means: undefined, text: "" },
    { means: "stranger", text: STRANGER },
    ...NAMES.map((means) => ({ means, text: partyOf(means) })),
    ...(mayBeAlias ? NAMES.map((means) => ({ means, text: means })) : []),
  );

const isGoodId = (id: string): boolean =>
  id.isWellFormed() && !/\p{Cc}/u.test(id) && !id.split(/[/\\]/).some((part) => /^(\.|%2e|%252e)+$/i.test(part));

/** A well-formed request to any endpoint, whose places agree or not, as it falls. */
const requests = fc
  .record({
    endpoint: fc.constantFrom(...ENDPOINTS.filter(({ operation }) => operation !== "info")),
    id: fc.string({ unit: "grapheme", minLength: 1, maxLength: 30 }).filter(isGoodId),
    path: naming(true),
    header: naming(true),
    instrument: naming(false),
    expected: naming(false),
  })
  .chain((parts) =>
    spelled(parts.path.text).map((spelling) => {
      const { endpoint, path, header, instrument, expected } = parts;
      const isFactory = endpoint.kind === "factory";
      const below = endpoint.path.replace("{id}", () => encodeURIComponent(parts.id));
      const choiceArguments = {
        ...(instrument.means === undefined ? {} : endpoint.naming?.(instrument.text)),
        ...(expected.means === undefined ? {} : { expectedAdmin: expected.text }),
      };
      const namings = [
        path,
        header,
        ...(endpoint.naming === undefined ? [] : [instrument]),
        ...(isFactory ? [expected] : []),
      ];
      const request: Request = {
        path: path.means === undefined ? below : `${PREFIX}/${spelling}${below}`,
        headers: header.means === undefined ? {} : { [ADMIN_HEADER]: header.text },
        ...(endpoint.method === "POST" && { body: JSON.stringify({ choiceArguments }) }),
      };
      return { request, named: namings.flatMap(({ means }) => (means === undefined ? [] : [means])) };
    }),
  );

test("a request reaches the one registry that all its places name, and otherwise none", async () => {
  await fc.assert(
    fc.asyncProperty(requests, async ({ request, named }) => {
      // What the plain base URL of all registries together answers is another story.
      fc.pre(named.length > 0);
      forget();
      const { status } = await three().gateway.send(request);
      const [only, ...others] = new Set(named);
      const isClear = others.length === 0 && only !== "stranger";
      expect(askedOnes()).toEqual(isClear ? [only] : []);
      if (others.length > 0) expect([400, 404]).toContain(status);
      else if (!isClear) expect(status).toBe(404);
    }),
    { numRuns: runs(150, 2_000) },
  );
});

test("whatever the URL, no registry gets a request whose path names another, or one outside /registry", async () => {
  const piece = fc.constantFrom(
    ...NAMES,
    ...NAMES.map((name) => encodeURIComponent(partyOf(name))),
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
    "%5c..",
    "%00",
    "a%20b",
    PREFIX.slice(1),
    "registrars",
    "?pageSize=1",
    DRAFT.slice(1),
    "allocations/v1/x/choice-contexts/cancel",
  );
  const methods = fc.constantFrom("GET", "POST");
  await fc.assert(
    fc.asyncProperty(piece, fc.array(piece, { maxLength: 6 }), methods, async (admin, rest, method) => {
      forget();
      const { status } = await three().gateway.send({ method, path: [PREFIX, admin, "registry", ...rest].join("/") });
      expect(status).not.toBe(500);
      const named = NAMES.filter((name) => [name, encodeURIComponent(partyOf(name))].includes(admin));
      expect(named).toEqual(expect.arrayContaining(askedOnes()));
      for (const name of named) {
        for (const { url } of three().registries[name].calls) {
          expect(new URL(url, "http://registry").pathname).toMatch(/^\/registry\//);
        }
      }
    }),
    { numRuns: runs(200, 3_000) },
  );
});
