import * as fc from "fast-check";
import { createGateway } from "../../src/gateway/gateway.ts";
import { type Case, cases, stepsOf } from "./plan.ts";
import { Scene, type SceneOptions } from "./scene.ts";

/** Ten cases, and the shrinking of one: enough to be read. */
const LONGEST_SHRINKING = 60_000;

export interface ModelOptions extends Partial<SceneOptions> {
  /** Steps at the least. */
  readonly steps: number;
  readonly seed?: number;
  /** False: a problem is told as it was found. */
  readonly shrinks?: boolean;
}

/** What the oracle found; anything else that is thrown is a fault of the model itself. */
class BrokenPromise extends Error {}

/** What running cases has brought. */
export interface Outcome {
  readonly steps: number;
  readonly problem: string | undefined;
}

/** Runs random cases until so many steps are done, or one shows a problem; that one is shrunk. */
export async function runModel({
  steps,
  seed,
  redis,
  create = createGateway,
  shrinks = true,
}: ModelOptions): Promise<Outcome> {
  let done = 0;
  let isFound = false;
  const options: SceneOptions = { create, ...(redis !== undefined && { redis }) };
  const property = fc.asyncProperty(cases(redis !== undefined), async (each: Case) => {
    if (!isFound) {
      if (done >= steps) return;
      done += stepsOf(each);
    }
    const problem = await Scene.run(each, options);
    if (problem === undefined) return;
    isFound = true;
    throw new BrokenPromise(problem);
  });
  let at = seed ?? seedOf();
  while (done < steps) {
    const details = await fc.check(property, {
      seed: at,
      numRuns: 10,
      endOnFailure: !shrinks,
      interruptAfterTimeLimit: LONGEST_SHRINKING,
    });
    if (details.failed && !(details.errorInstance instanceof BrokenPromise)) throw details.errorInstance;
    if (details.failed) return { steps: done, problem: report(details) };
    at += 1;
  }
  return { steps: done, problem: undefined };
}

/** Of a push always the same one; `MODEL_SEED` has a case again. */
function seedOf(): number {
  const given = process.env["MODEL_SEED"];
  return given === undefined ? (fc.readConfigureGlobal().seed ?? Math.floor(Math.random() * 2 ** 31)) : Number(given);
}

/** Fails with the smallest case in which a promise is broken. */
export async function expectModel(options: ModelOptions): Promise<void> {
  const seed = options.seed ?? seedOf();
  const { problem, steps } = await runModel({ ...options, seed });
  if (problem !== undefined) throw new Error(problem);
  process.stdout.write(`model: ${steps} steps from MODEL_SEED=${seed} on\n`);
}

/** What is wrong in the shrunk case, the case, and how to see it again. */
function report({ seed, errorInstance, numShrinks }: fc.RunDetails<[Case]>): string {
  return `${(errorInstance as Error).message}\n\nMODEL_SEED=${seed}, shrunk ${numShrinks} times`;
}
