import * as fc from "fast-check";

/** Worlds and what happens in them, as data: all that chance decides, so that a case can be shrunk, read and run again. */

export const NAMES = ["ash", "birch", "cedar", "dogwood"] as const;
/** Stands for the admin of none of them. */
export const STRANGER = NAMES.length;
/** Instruments that registries may have: the same ids at all of them. */
export const IDS = ["A", "B", "C/D", "Ü 1", "E", "F"] as const;

/** How a node behaves from now on. */
export type Mood =
  | { readonly kind: (typeof SIMPLE_MOODS)[number] }
  | { readonly kind: "slow"; readonly by: number }
  | { readonly kind: "fails"; readonly status: number; readonly isHtml: boolean }
  | { readonly kind: "lies"; readonly as: number }
  | { readonly kind: "limited"; readonly retryAfter: number | undefined };

const SIMPLE_MOODS = ["well", "resets", "hangs", "closed", "closes", "lags", "garbage", "cuts", "no-info"] as const;

/** What a registry says of how long its answers may be kept, in seconds. */
export interface Control {
  readonly text: string | undefined;
  readonly maxAge?: number;
  readonly window?: number;
  readonly isNoStore?: boolean;
}

const CONTROLS: readonly Control[] = [
  { text: undefined },
  { text: undefined },
  { text: "max-age=8", maxAge: 8 },
  { text: "max-age=6, must-revalidate", maxAge: 6, window: 0 },
  { text: "s-maxage=5, stale-while-revalidate=4, stale-if-error=4", maxAge: 5, window: 4 },
  { text: "no-store", isNoStore: true },
];

/** Keys of one upstream; milliseconds. */
export interface Knobs {
  readonly isEnabled: boolean;
  readonly isPinned: boolean;
  readonly isCacheOnly: boolean;
  /** The node that is left out of `urls`, where there are several. */
  readonly drained: number;
  readonly timeout: number;
  readonly attemptTimeout: number;
  readonly retries: number;
  readonly hedgeAfter: number;
  readonly agreement: number;
  readonly concurrency: number;
  readonly proofEvery: number;
  readonly ttl: { readonly info: number; readonly instruments: number; readonly instrument: number };
  readonly notFound: number;
  readonly staleWhileRevalidate: number;
  readonly staleIfError: number;
}

export interface RegistryPlan {
  readonly nodes: number;
  readonly ids: readonly string[];
  readonly hasTags: boolean;
  readonly control: Control;
  readonly knobs: Knobs;
  readonly rate: { readonly requests: number; readonly per: number } | undefined;
}

export interface WorldPlan {
  readonly registries: readonly RegistryPlan[];
  readonly replicas: number;
  readonly hasRedis: boolean;
  /** The first two upstreams share the first one's limit. */
  readonly isGrouped: boolean;
  readonly plain: "aggregate" | "off" | "ash";
}

/** One request, perhaps several times at once. */
export interface Ask {
  readonly kind: "ask";
  readonly replica: number;
  readonly operation: (typeof OPERATIONS)[number];
  readonly registry: number;
  readonly by: "party" | "alias" | "header" | "header-alias" | "plain" | "base";
  /** A factory's body, or a header beside the path, names this one, too. */
  readonly also: { readonly registry: number; readonly where: "header" | "body" } | undefined;
  readonly id: string;
  readonly size: number | undefined;
  readonly token: string | undefined;
  readonly copies: number;
}

const OPERATIONS = [
  "info",
  "instruments",
  "instrument",
  "transfer_factory",
  "allocation_factory_v2",
  "transfer_accept",
  "draft",
  "draft_post",
  "extra",
] as const;

export type Action =
  | Ask
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "mood"; readonly registry: number; readonly node: number; readonly mood: Mood }
  | { readonly kind: "restart"; readonly registry: number; readonly node: number }
  | { readonly kind: "relist"; readonly registry: number; readonly ids: readonly string[] }
  | { readonly kind: "purge"; readonly replica: number; readonly registry: number | undefined }
  | {
      readonly kind: "reload";
      /** Undefined: all replicas. */
      readonly replica: number | undefined;
      readonly registry: number;
      readonly change: Partial<Knobs>;
    }
  | { readonly kind: "redis"; readonly does: "pause" | "kill" | "heal" | "flush" };

/** What happens, in this order; what stands in one list happens at once. */
export interface Case {
  readonly world: WorldPlan;
  readonly course: readonly (readonly Action[])[];
}

/** With Redis, whose clock nobody can move, all is short. */
const among = <T>(...values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values);
const registry = fc.nat({ max: NAMES.length - 1 });
const ids = fc.subarray([...IDS], { minLength: 1 });

function knobsOf(hasRedis: boolean): fc.Arbitrary<Knobs> {
  const life = (...ms: number[]): fc.Arbitrary<number> => among(...ms.map((each) => (hasRedis ? each / 40 : each)));
  return fc.record({
    isEnabled: fc.constant(true),
    isPinned: fc.integer({ min: 0, max: 3 }).map((at) => at > 0),
    isCacheOnly: fc.constant(false),
    drained: fc.constant(-1),
    timeout: hasRedis ? fc.constant(600) : among(1_000, 2_000, 4_000),
    attemptTimeout: hasRedis ? fc.constant(300) : among(500, 1_000),
    retries: fc.nat({ max: 2 }),
    hedgeAfter: hasRedis ? fc.constant(0) : among(0, 0, 300),
    agreement: among(1, 1, 1, 2),
    concurrency: among(64, 64, 2),
    proofEvery: among(1_000, 20_000, 120_000),
    ttl: fc.record({ info: life(60_000, 20_000, 0), instruments: life(20_000), instrument: life(10_000, 20_000) }),
    notFound: life(5_000, 0),
    staleWhileRevalidate: life(0, 10_000),
    staleIfError: life(0, 60_000, 600_000),
  });
}

const mood: fc.Arbitrary<Mood> = fc.oneof(
  { weight: 5, arbitrary: among(...SIMPLE_MOODS).map((kind) => ({ kind })) },
  { weight: 5, arbitrary: fc.constant({ kind: "well" as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("slow" as const), by: among(150, 450, 1_400) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("fails" as const),
      status: among(500, 502, 503, 404),
      isHtml: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("lies" as const), as: fc.nat({ max: STRANGER }) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("limited" as const), retryAfter: among(undefined, 1, 3, 600) }),
  },
);

const ask: fc.Arbitrary<Ask> = fc.record({
  kind: fc.constant("ask"),
  replica: fc.nat({ max: 2 }),
  operation: among("info", "instruments", "instruments", "instrument", "instrument", ...OPERATIONS),
  registry: fc.oneof({ weight: 15, arbitrary: registry }, { weight: 1, arbitrary: fc.constant(STRANGER) }),
  by: among("party", "party", "alias", "header", "header-alias", "plain", "base"),
  also: fc.option(
    fc.record({
      registry: fc.oneof(
        { weight: 6, arbitrary: fc.constant(-1) },
        { weight: 2, arbitrary: fc.nat({ max: STRANGER }) },
      ),
      where: among("header", "body"),
    }),
    { nil: undefined, freq: 2 },
  ),
  id: among(...IDS, "none"),
  size: among(undefined, undefined, 2, 3),
  token: among(undefined, undefined, undefined, ...IDS),
  copies: among(1, 1, 1, 4),
});

const reload = (hasRedis: boolean): fc.Arbitrary<Action> =>
  fc.record({
    kind: fc.constant("reload"),
    replica: among(undefined, 0, 1, 2),
    registry,
    change: fc.oneof(
      knobsOf(hasRedis),
      fc.record({ isEnabled: fc.boolean() }),
      fc.record({ isPinned: fc.boolean() }),
      fc.record({ isCacheOnly: fc.boolean() }),
      fc.record({ drained: among(-1, 0, 1) }),
    ),
  });

function actionOf(hasRedis: boolean): fc.Arbitrary<Action> {
  const act = <T extends Action>(shape: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<Action> =>
    fc.record(shape) as unknown as fc.Arbitrary<Action>;
  const node = { registry, node: fc.nat({ max: 4 }) };
  const wait = hasRedis ? among(20, 50, 120, 300) : among(100, 1_000, 6_000, 12_000, 30_000, 130_000);
  const purged = { replica: fc.nat({ max: 2 }), registry: fc.option(registry, { nil: undefined }) };
  return fc.oneof(
    { weight: 26, arbitrary: ask },
    { weight: 6, arbitrary: act({ kind: fc.constant("wait"), ms: wait }) },
    { weight: 6, arbitrary: act({ kind: fc.constant("mood"), ...node, mood }) },
    { weight: 2, arbitrary: act({ kind: fc.constant("restart"), ...node }) },
    { weight: 2, arbitrary: act({ kind: fc.constant("relist"), registry, ids }) },
    { weight: 3, arbitrary: act({ kind: fc.constant("purge"), ...purged }) },
    { weight: 2, arbitrary: reload(hasRedis) },
    ...(hasRedis
      ? [
          {
            weight: 2,
            arbitrary: act({
              kind: fc.constant("redis"),
              does: among("pause", "kill", "flush", "heal", "heal"),
            } as never),
          },
        ]
      : []),
  );
}

function worldOf(hasRedis: boolean): fc.Arbitrary<WorldPlan> {
  const rate = hasRedis
    ? fc.record({ requests: among(3, 6, 6, 20), per: among(1_000, 2_000) })
    : fc.record({ requests: among(4, 8, 20), per: among(1_000, 5_000, 20_000) });
  const plan = fc.record({
    nodes: among(1, 1, 2, 3, 5),
    ids,
    hasTags: fc.boolean(),
    control: among(...CONTROLS),
    knobs: knobsOf(hasRedis),
    rate: hasRedis ? rate : fc.option(rate, { nil: undefined, freq: 2 }),
  });
  return fc.record({
    registries: fc.array(plan, { minLength: 1, maxLength: NAMES.length }),
    replicas: hasRedis ? among(2, 2, 3) : among(1, 1, 2),
    hasRedis: fc.constant(hasRedis),
    isGrouped: fc.boolean(),
    plain: among("aggregate", "aggregate", "ash", "off"),
  });
}

/** Steps of one case at the least. */
export const LEAST_STEPS = 30;

/** Random cases, printed as a person reads them. */
export function cases(hasRedis: boolean): fc.Arbitrary<Case> {
  const together = fc.oneof(
    { weight: 3, arbitrary: fc.array(actionOf(hasRedis), { minLength: 1, maxLength: 1 }) },
    { weight: 1, arbitrary: fc.array(actionOf(hasRedis), { minLength: 2, maxLength: 4 }) },
  );
  return fc.record({
    world: worldOf(hasRedis),
    // fast-check shrinks below the least length of `steps` alone.
    course: fc.array(together, { minLength: 1, maxLength: 2 * LEAST_STEPS, size: "max" }),
  });
}

export function stepsOf({ course }: Case): number {
  return course.reduce((sum, actions) => sum + actions.length, 0);
}
