import { expect, test } from "vitest";
import { startRedis } from "../support/redis.ts";
import { FAULTS, plant } from "./faults.ts";
import { runModel } from "./property.ts";

/** The model is worth something: of builds with a mistake it finds out each within the steps of a push. */
test.each(FAULTS)(
  "a build that $name is found out",
  async (fault) => {
    const create = await plant(fault);
    const redis = fault.needsRedis === true ? await startRedis() : undefined;
    const { problem, steps } = await runModel({
      steps: 1_500,
      create,
      shrinks: false,
      ...(redis !== undefined && { redis }),
    });
    process.stdout.write(`model: found out at step ${steps}\n`);
    expect(problem).toMatch(fault.shows);
  },
  600_000,
);
