import { describe, expect, test } from "vitest";
import { errorOf, send } from "../support/send.ts";
import { ADMINS, useThreeRegistries } from "../support/three-registries.ts";

const PREFIX = "/api/token-standard/v0/registrars";

/** Families of APIs that the gateway does not know, with what may stand in their queries. */
const PATHS = [
  "/registry/traffic-purchase/v1/conversion-rates/Amulet%2FUSD?admin=ADMIN",
  "/registry/traffic-purchase/v1/conversion-rates/Amulet?admin=ADMIN&admin=ADMIN&x=%2f+y",
  "/registry/conditional-lock/v1/locks?admin=ADMIN",
  "/registry/transfer-preapproval/v1/preapprovals/a%20b?admin=ADMIN&&=",
];

describe("other families of APIs are passed on with their query, whose admin routes nothing:", () => {
  const running = useThreeRegistries();

  test.each(PATHS)("%s", async (path) => {
    // It names another registry than the path of the gateway does: it is the instrument's business.
    for (const admin of [ADMINS.amulet, encodeURIComponent(ADMINS.bonds), "nobody::1220", ""]) {
      const below = path.replaceAll("ADMIN", admin);
      for (const request of [
        { path: `${PREFIX}/amulet${below}` },
        { path: below, headers: { "x-instrument-admin": "amulet" } },
        { path: `${PREFIX}/${encodeURIComponent(ADMINS.amulet)}${below}`, body: '{"admin":"bonds"}' },
      ]) {
        running().clearCalls();
        const answer = await send(running().url, request);
        expect([answer.status, running().called()]).toEqual([200, ["amulet pass_through"]]);
        expect(running().registries.amulet.calls.last!.url).toBe(below);
        expect(JSON.parse(answer.text)).toMatchObject({ url: below, body: request.body ?? "" });
      }
    }
  });

  test.each(PATHS)("%s, and without another name it goes nowhere", async (path) => {
    running().clearCalls();
    const answer = await send(running().url, { path: path.replaceAll("ADMIN", encodeURIComponent(ADMINS.bonds)) });
    expect([answer.status, running().called()]).toEqual([400, []]);
    expect(errorOf(answer)).toContain("does not say which registry");
  });
});
