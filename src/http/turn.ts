import { performance } from "node:perf_hooks";

type Task = () => void;

/**
 * What is to be done at the end of a turn of the event loop, when all that has arrived is read.
 *
 * A server that serves each request as it reads it wakes its peers, clients and registries, one by one, and they are
 * asleep again before it has read the next. One that reads everything first, then writes everything, wakes them once:
 * with many connections that spares a quarter of the CPU of a POST, and waits besides. Nothing waits for a timer, and a
 * request that comes alone is served in the same turn.
 */
export class Turn {
  private readonly tasks: Task[] = [];
  private endedIn = -1;

  /**
   * Runs `task` at the end of this turn, after those that were given before it; at once where that has come: what follows
   * from what is done at the end is not put off again.
   */
  atEnd(task: Task): void {
    if (this.endedIn === currentTurn()) task();
    else if (this.tasks.push(task) === 1) setImmediate(this.end);
  }

  private readonly end = (): void => {
    const { tasks } = this;
    this.endedIn = currentTurn();
    let done = 0;
    try {
      while (done < tasks.length) tasks[done++]!();
    } finally {
      tasks.splice(0, done);
      // One that threw takes nothing from the others.
      if (tasks.length > 0) setImmediate(this.end);
    }
  };
}

/** The number of this turn of the event loop; it grows before sockets are read. */
function currentTurn(): number {
  return performance.nodeTiming.uvMetricsInfo.loopCount;
}
