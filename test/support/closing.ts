import { onTestFinished } from "vitest";

type Close = () => unknown;

const ofFile: Close[] = [];

/** Has `close` called when the running test ends; where none runs (`beforeAll`), when the file does. The last one comes first. */
export function atEnd(close: Close): void {
  try {
    onTestFinished(async () => void (await close()));
  } catch {
    ofFile.push(close);
  }
}

/** Closes what a file opened outside its tests. Called by setup.ts alone. */
export async function closeFile(): Promise<void> {
  for (const close of ofFile.splice(0).toReversed()) await close();
}
