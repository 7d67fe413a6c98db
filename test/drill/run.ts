import { setTimeout as sleep } from "node:timers/promises";
import type { StatusAnswer } from "../../src/operations/answers.ts";
import type { Drill } from "./drills.ts";
import { Scene } from "./scene.ts";

/** Until it is well, until what was broken is seen, until it is over: each within so many milliseconds. */
const MOST = 360_000;

interface DrillOptions {
  /** Is given what to print. */
  readonly say: (line: string) => void;
  /** Called once the alert's cause is seen; what it returns is awaited before it is mended. */
  readonly isSeen: (scene: Scene) => Promise<void>;
}

export interface DrillOutcome {
  /** After how many seconds `status` named the alert; undefined: it did not. */
  readonly seenAfter: number | undefined;
  /** Whether what had the alert was mended, and seen to be. */
  readonly isOver: boolean;
  /** As it was then. */
  readonly status: StatusAnswer;
  /** Whether the runbook's first step showed it. */
  readonly isFound: boolean;
}

/** Provokes it, waits until `status` names the alert, and mends it. */
export async function runDrill(drill: Drill, { say, isSeen }: DrillOptions): Promise<DrillOutcome> {
  const scene = await Scene.start(drill);
  const isNamed = ({ health }: StatusAnswer) => health.findings.some(({ id }) => id === drill.alert);
  try {
    const { operations } = scene;
    say(`  console  ${operations}/console/`);
    say(`  status   npm start -- status --url ${operations}\n`);
    const isWell = drill.fullDisk === true || (await scene.until(({ health }) => health.severity === null, MOST));
    if (!isWell) say("It is not well before anything is broken:");
    else say((await scene.status()).health.sentence);
    const before = performance.now();
    await drill.provoke(scene);
    const wasSeen = await scene.until(isNamed, MOST);
    const status = await scene.status();
    const seconds = Math.round((performance.now() - before) / 1_000);
    say(`\n${wasSeen ? `After ${seconds} s` : `Not seen within ${seconds} s`}: ${status.health.sentence}`);
    for (const { severity, id, text } of status.health.findings) say(`  ${severity}  ${text}  (${id})`);
    const found = await lookAt(scene, drill);
    say(
      found === undefined
        ? `Not found at the runbook's first step: ${drill.firstStep.at}`
        : `found at: ${drill.firstStep.at}\n  ${found}`,
    );
    await isSeen(scene);
    await drill.mend(scene);
    // What was dropped stays counted for ten minutes, and a call that failed or was late as well.
    const isOver = isCounted(drill.alert) || (await scene.until((each) => !isNamed(each), MOST));
    say(isOver ? "Mended." : "It is mended, and still said.");
    return { seenAfter: wasSeen ? seconds : undefined, isOver, status, isFound: found !== undefined };
  } finally {
    await scene.stop();
  }
}

/** Characters of what was found: an answer of JSON is one line. */
const MOST_SHOWN = 300;

/** What is said once a minute is looked for as long. */
const LOOKED_FOR = 75_000;

/** What the runbook's first step shows of it, to the end of the line. */
async function lookAt(scene: Scene, { firstStep: { at, shows } }: Drill): Promise<string | undefined> {
  const end = performance.now() + LOOKED_FOR;
  while (performance.now() < end) {
    const text = await scene.look(at);
    const found = shows.exec(text);
    if (found !== null) {
      const [rest] = text.slice(found.index + found[0].length).split("\n", 1);
      return `${found[0]}${rest}`.slice(0, MOST_SHOWN);
    }
    await sleep(500);
  }
  return undefined;
}

/** What alerts count over ten minutes: it is said until these are over. */
const COUNTED = ["LogLinesDropped", "RegistrySlow", "CallsFail", "RegistryErrors", "RedisRefusesWrites"];

function isCounted(alert: string): boolean {
  return COUNTED.some((name) => alert === `RegistryGateway${name}`);
}
