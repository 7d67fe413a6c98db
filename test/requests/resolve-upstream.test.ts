import { describe, expect, test } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { adminHeaderOf, type NamedRegistries, resolveUpstream } from "../../src/requests/resolve-upstream.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import type { Upstreams } from "../../src/upstream/upstreams.ts";

const A = `alpha::1220${"aa".repeat(32)}`;
const B = `beta::1220${"bb".repeat(32)}`;
const C = `gamma::1220${"cc".repeat(32)}`;
const STRANGER = `stranger::1220${"dd".repeat(32)}`;

/** An upstream as far as naming goes. */
class FakeUpstream {
  asked = 0;
  readonly name: string;
  admin: string | undefined;
  /** What asking its node brings. */
  private readonly learns: string | GatewayError | undefined;

  constructor(name: string, admin: string | undefined, learns?: string | GatewayError) {
    this.name = name;
    this.admin = admin;
    this.learns = learns;
  }

  async learnAdmin(): Promise<string | undefined> {
    this.asked += 1;
    if (this.learns instanceof GatewayError) throw this.learns;
    this.admin = this.learns;
    return this.admin;
  }
}

function fakes(...all: FakeUpstream[]): { upstreams: Upstreams; all: FakeUpstream[] } {
  const upstreams = {
    all,
    byName: (name: string) => all.find((each) => each.name === name),
    byAdmin: (admin: string) => all.find((each) => each.admin === admin),
    get unlearned() {
      return all.some(({ admin }) => admin === undefined);
    },
  };
  return { upstreams: upstreams as unknown as Upstreams, all };
}

interface Naming {
  path?: string;
  header?: string;
  /** `expectedAdmin`, and the instrument's admin. */
  body?: readonly string[];
}

function named({ path, header, body = [] }: Naming): NamedRegistries {
  return { path, header, body: body.map((admin, i) => ({ admin, at: i === 0 ? "one.admin" : "other.admin" })) };
}

async function resolve(upstreams: Upstreams, naming: Naming): Promise<string | number | undefined> {
  const rules = { upstreams, prefix: "/registrars", adminHeader: "x-instrument-admin" };
  try {
    const upstream: Upstream | undefined = await resolveUpstream(rules, named(naming), { deadline: () => 0 });
    return upstream?.name;
  } catch (error) {
    if (error instanceof GatewayError) return error.status;
    throw error;
  }
}

async function refusalOf(upstreams: Upstreams, naming: Naming): Promise<GatewayError> {
  const rules = { upstreams, prefix: "/registrars", adminHeader: "x-instrument-admin" };
  try {
    await resolveUpstream(rules, named(naming), { deadline: () => 0 });
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error("it was not refused");
}

describe("with all admins known", () => {
  const { upstreams, all } = fakes(new FakeUpstream("a", A), new FakeUpstream("b", B));

  test.each<[Naming, string | number | undefined]>([
    [{}, undefined],
    [{ path: A }, "a"],
    [{ path: "a" }, "a"],
    [{ header: B }, "b"],
    [{ header: "b" }, "b"],
    [{ body: [A] }, "a"],
    [{ body: [A, A] }, "a"],
    [{ path: A, header: A, body: [A, A] }, "a"],
    [{ path: "a", header: A }, "a"],
    [{ path: A, header: "a" }, "a"],
    [{ path: "a", header: "a", body: [A] }, "a"],
    [{ path: A, header: B }, 400],
    [{ path: "a", header: "b" }, 400],
    [{ path: "a", header: B }, 400],
    [{ path: A, body: [B] }, 400],
    [{ path: "a", body: [B] }, 400],
    [{ header: "b", body: [A] }, 400],
    [{ body: [A, B] }, 400],
    [{ body: [A, STRANGER] }, 400],
    [{ body: [STRANGER, A] }, 400],
    [{ path: A, body: [A, B] }, 400],
    [{ path: A, header: A, body: [A, STRANGER] }, 400],
    [{ path: STRANGER, body: [A] }, 400],
    [{ path: "nobody", header: "a" }, 400],
    [{ path: "a", header: "nobody" }, 400],
    [{ path: STRANGER }, 404],
    [{ path: "nobody" }, 404],
    [{ header: STRANGER }, 404],
    [{ body: [STRANGER] }, 404],
    [{ body: [STRANGER, STRANGER] }, 404],
    [{ path: STRANGER, header: STRANGER }, 404],
    // An alias is no party id: a body can't use it.
    [{ body: ["a"] }, 404],
    [{ path: "a", body: ["a"] }, 400],
    // Party ids are compared as they are.
    [{ path: A.toUpperCase() }, 404],
    [{ body: [""] }, 404],
    [{ path: "a", body: [""] }, 400],
    [{ body: [`${A} `] }, 404],
    [{ path: "__proto__" }, 404],
    [{ path: "constructor" }, 404],
  ])("%j: %s", async (naming, expected) => {
    expect(await resolve(upstreams, naming)).toBe(expected);
    expect(all.map(({ asked }) => asked)).toEqual([0, 0]);
  });

  test("an alias whose admin is unknown and another registry are two: nothing is waited for", async () => {
    const fake = fakes(new FakeUpstream("new", undefined, A), new FakeUpstream("b", B));
    for (const naming of [
      { path: "new", header: "b" },
      { path: "new", header: B },
      { path: "new", body: [B] },
    ])
      expect(await resolve(fake.upstreams, naming)).toBe(400);
    expect(fake.all.map(({ asked }) => asked)).toEqual([0, 0]);
  });

  test("a disagreement names both registries and both places", async () => {
    const refusal = await refusalOf(upstreams, { path: A, header: A, body: [B] });
    expect(refusal.message).toContain(`"${A}" in the path`);
    expect(refusal.message).toContain(`"${B}" in one.admin`);
    const aliases = await refusalOf(upstreams, { path: "a", header: "b" });
    expect(aliases.message).toContain('"a" in the path and "b" in the header x-instrument-admin');
  });

  test("what is quoted is shortened", async () => {
    const refusal = await refusalOf(upstreams, { path: "x".repeat(5_000) });
    expect(refusal.message.length).toBeLessThan(500);
  });
});

describe("while an upstream has not told its admin", () => {
  test.each<[Naming, string | number | undefined]>([
    [{ path: A }, "a"],
    [{ path: "c" }, "c"],
    [{ path: C }, 503],
    [{ body: [STRANGER] }, 503],
    [{ path: A, body: [C] }, 400],
    [{ path: A, body: [STRANGER] }, 400],
    [{ body: [C, STRANGER] }, 400],
    [{ path: "c", body: [C] }, "c"],
    [{ path: "c", header: C, body: [C, C] }, "c"],
    [{ path: "c", header: "c" }, "c"],
    [{ path: "c", body: [A] }, 400],
    [{ path: "c", body: [STRANGER] }, 400],
    [{ path: "c", header: "a" }, 400],
    [{ path: "a", header: "c" }, 400],
    [{ path: "c", body: [C, A] }, 400],
  ])("%j: %s", async (naming, expected) => {
    const { upstreams } = fakes(new FakeUpstream("a", A), new FakeUpstream("c", undefined, C));
    expect(await resolve(upstreams, naming)).toBe(expected);
  });

  test("an unmatched admin is told when to come back", async () => {
    const { upstreams } = fakes(new FakeUpstream("c", undefined));
    expect((await refusalOf(upstreams, { path: C })).retryAfter).toBeGreaterThan(0);
  });

  test("a request by alias alone waits for nothing here", async () => {
    const { upstreams, all } = fakes(new FakeUpstream("c", undefined, C));
    expect(await resolve(upstreams, { path: "c" })).toBe("c");
    expect(all[0]!.asked).toBe(0);
  });

  test("a failure to learn it is the answer", async () => {
    const refused = new GatewayError("upstream_unreachable", "refused");
    const { upstreams } = fakes(new FakeUpstream("c", undefined, refused));
    expect(await refusalOf(upstreams, { path: "c", body: [C] })).toBe(refused);
  });
});

describe("the admin header", () => {
  const read = (...rawHeaders: string[]): string | undefined => adminHeaderOf(rawHeaders, "x-instrument-admin");

  test("is found in any case, and only under its own name", () => {
    expect(read("Host", "h", "X-Instrument-ADMIN", ` ${A}\t`)).toBe(A);
    expect(read("Host", "h", "X-Instrument-Admin2", A)).toBeUndefined();
    expect(read()).toBeUndefined();
  });

  test.each([
    ["X-Instrument-Admin", A, "x-instrument-admin", A],
    ["X-Instrument-Admin", A, "x-instrument-admin", B],
    ["X-Instrument-Admin", "", "x-instrument-admin", ""],
    ["X-Instrument-Admin", ""],
    ["X-Instrument-Admin", "  "],
  ])("is refused twice or empty: %j %j", (...raw) => {
    expect(() => read(...raw)).toThrow(expect.objectContaining({ status: 400 }));
  });
});
