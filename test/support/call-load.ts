/** What became of one call of a load. */
export interface Sample {
  /** Milliseconds from the start of the load. */
  readonly at: number;
  readonly latency: number;
  readonly status: number;
}

/**
 * Makes `perSecond` calls a second for `seconds`, whether earlier ones are answered or not, and waits for all of them.
 * `call` resolves to a status.
 */
export async function runLoad(
  call: (index: number) => Promise<number>,
  { perSecond, seconds }: { perSecond: number; seconds: number },
): Promise<Sample[]> {
  const samples: Sample[] = [];
  const running: Promise<unknown>[] = [];
  const begun = performance.now();
  const total = perSecond * seconds;
  for (let sent = 0; sent < total;) {
    const due = Math.min(total, Math.ceil(((performance.now() - begun) / 1_000) * perSecond));
    for (; sent < due; sent++) {
      const at = performance.now();
      const done = (status: number) => samples.push({ at: at - begun, latency: performance.now() - at, status });
      running.push(call(sent).then(done, (error: { status?: number }) => done(error.status ?? 0)));
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await Promise.all(running);
  return samples;
}

/** The smallest latency that `share` of the samples do not exceed, ms. */
export function percentile(samples: readonly Sample[], share: number): number {
  const sorted = samples.map(({ latency }) => latency).toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? 0;
}

/** The share of samples that are no 200. */
export function errorRate(samples: readonly Sample[]): number {
  return samples.filter(({ status }) => status !== 200).length / samples.length;
}
