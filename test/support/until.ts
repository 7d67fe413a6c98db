/** Far more than anything here takes on a machine that is busy with other tests. */
const PATIENCE = 60_000;

/** Waits until `look` gives something (neither undefined nor false), and returns it; throws what it threw last at the end. */
export async function until<T>(
  look: () => T | Promise<T>,
  patience = PATIENCE,
): Promise<Exclude<T, undefined | false | null>> {
  const end = performance.now() + patience;
  for (let wait = 2; ; wait = Math.min(wait * 1.5, 20)) {
    const { value, error } = await attempt(look);
    if (value !== undefined && value !== null && value !== false) return value as Exclude<T, undefined | false | null>;
    if (performance.now() > end) throw error ?? new Error(`not true within ${patience} ms: ${look.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

async function attempt<T>(look: () => T | Promise<T>): Promise<{ value?: T; error?: unknown }> {
  try {
    return { value: await look() };
  } catch (error) {
    return { error };
  }
}
