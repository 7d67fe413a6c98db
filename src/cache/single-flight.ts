import { GatewayError } from "../errors.ts";

/** Fetches at once. Each waits for a registry, or for another replica. */
const MAX_FLIGHTS = 10_000;

/** One piece of work per id at a time: whoever asks for the same meanwhile waits for the same. It belongs to none of them. */
export class SingleFlight<T> {
  private readonly running = new Map<string, Promise<T>>();

  has(id: string): boolean {
    return this.running.has(id);
  }

  /** Joins the work that runs under `id`, or begins it. @throws GatewayError 503 where too much runs */
  join(id: string, begin: () => Promise<T>): { readonly work: Promise<T>; readonly isJoined: boolean } {
    const joined = this.running.get(id);
    if (joined !== undefined) return { work: joined, isJoined: true };
    if (this.running.size >= MAX_FLIGHTS) {
      throw new GatewayError("overloaded", "the gateway waits for too many answers; try again in a moment", {
        retryAfter: 1,
      });
    }
    const work = begin().finally(() => this.running.delete(id));
    this.running.set(id, work);
    return { work, isJoined: false };
  }
}
