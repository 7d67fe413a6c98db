import type { StatusAnswer } from "../../src/operations/answers.ts";
import type { Drill } from "./drills.ts";
import { Scene } from "./scene.ts";

/** Until it is well, until what was broken is seen, until it is over: each within so many milliseconds. */
const MOST = 360_000;

interface DrillOptions {
  /** Is given what to print. */
  readonly say: (line: string) => void;
  /** Called once the alert's cause is seen; what it returns is awaited before it is mended. */
  readonly isSeen: (status: StatusAnswer) => Promise<void>;
}

export interface DrillOutcome {
  /** After how many seconds `status` named the alert; undefined: it did not. */
  readonly seenAfter: number | undefined;
  /** Whether what had the alert was mended, and seen to be. */
  readonly isOver: boolean;
  /** As it was then, and what the log had said by then. */
  readonly status: StatusAnswer;
  readonly logged: ReadonlySet<unknown>;
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
    const [status, { logged }] = [await scene.status(), scene];
    const seconds = Math.round((performance.now() - before) / 1_000);
    say(`\n${wasSeen ? `After ${seconds} s` : `Not seen within ${seconds} s`}: ${status.health.sentence}`);
    for (const { severity, id, text } of status.health.findings) say(`  ${severity}  ${text}  (${id})`);
    await isSeen(status);
    await drill.mend(scene);
    // What was dropped stays counted for ten minutes, and a call that failed or was late as well.
    const isOver = isCounted(drill.alert) || (await scene.until((each) => !isNamed(each), MOST));
    say(isOver ? "Mended." : "It is mended, and still said.");
    return { seenAfter: wasSeen ? seconds : undefined, isOver, status, logged };
  } finally {
    await scene.stop();
  }
}

/** What alerts count over ten minutes: it is said until these are over. */
const COUNTED = ["LogLinesDropped", "RegistrySlow", "CallsFail", "RegistryErrors", "RedisRefusesWrites"];

function isCounted(alert: string): boolean {
  return COUNTED.some((name) => alert === `RegistryGateway${name}`);
}
