/** One series of a counter or a histogram, to which numbers are added. */
export interface Series {
  add(value: number): void;
}

/** Values of a histogram that wait: 2 KiB for each series. */
const MOST_VALUES = 256;

/**
 * Hands what every request counts to the client library many at a time: its checks and look-ups, made once a request among
 * other work, cost microseconds of a hit, and a tenth of that in a batch. A scrape has the batches handed over first.
 */
export class Batches {
  private readonly waiting = new Set<() => void>();

  /** @param hand takes the sum of what was added */
  counter(hand: (sum: number) => void): Series {
    const { waiting } = this;
    let sum = 0;
    const flush = (): void => {
      hand(sum);
      sum = 0;
    };
    return {
      add(value) {
        if (sum === 0) waiting.add(flush);
        sum += value;
      },
    };
  }

  /** @param hand takes each value */
  histogram(hand: (value: number) => void): Series {
    const { waiting } = this;
    const values = new Float64Array(MOST_VALUES);
    let count = 0;
    const flush = (): void => {
      for (let i = 0; i < count; i += 1) hand(values[i]!);
      count = 0;
    };
    return {
      add(value) {
        if (count === 0) waiting.add(flush);
        values[count] = value;
        count += 1;
        if (count === MOST_VALUES) flush();
      },
    };
  }

  /** Hands over what waits. */
  flush(): void {
    for (const flush of this.waiting) flush();
    this.waiting.clear();
  }
}
