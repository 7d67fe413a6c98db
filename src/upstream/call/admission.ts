import { type Upload, uploadTimeout } from "../../bodies/upload.ts";
import { type Instant, withDeadline } from "../../clock.ts";
import { GatewayError, isClientGone } from "../../errors.ts";
import type { Fields } from "../../fields.ts";
import type { CircuitBreaker } from "../../limits/circuit-breaker.ts";
import type { WaitTerms } from "../../limits/wait-queue.ts";
import type { StreamedCall } from "../call.ts";
import type { UpstreamParts } from "../parts.ts";

/**
 * What one call passes before its first attempt (a node has proved the admin, the breaker is closed, there is room), and
 * what it holds of `concurrency` until {@link leave}.
 */
export class Admission {
  private readonly parts: UpstreamParts;
  /** That of its kind of call. */
  private readonly breaker: CircuitBreaker;
  private held = 0;
  private holdsUpload = false;
  /** The call is over. */
  hasLeft = false;

  constructor(parts: UpstreamParts, breaker: CircuitBreaker) {
    this.parts = parts;
    this.breaker = breaker;
  }

  /** @throws GatewayError that is the call's answer */
  async enter(terms: WaitTerms): Promise<void> {
    const { nodes, observer, config, concurrency } = this.parts;
    while (!nodes.hasProved || nodes.disabledBecause !== undefined) {
      if (nodes.disabledBecause !== undefined) observer.refused(config.name, "disabled");
      await nodes.whenProved(terms);
    }
    if (this.hasLeft) return;
    this.throwIfBroken();
    if (this.tryEnter()) return;
    await this.whileQueued(concurrency.enter(terms));
    this.held += 1;
    if (this.hasLeft) return this.leave();
    this.throwIfBroken();
  }

  /**
   * What a call passes before {@link enter} when its body is still to arrive. The deadline is that of the body. Resolves
   * at once where a client that stalls costs the others little; else when the body is here, or so much of it that the
   * rest has to be streamed. It then counts among `concurrency.uploads` until {@link leaveUploads}.
   * @throws GatewayError that is the call's answer: 408, 413, 503 or 504.
   */
  async enterUploads(upload: Upload, terms: WaitTerms): Promise<void> {
    const { concurrency, clock, config, rateLimit } = this.parts;
    this.throwIfBroken();
    // A body that may never come has no call of rateLimit and has not the only place.
    const mayStall = rateLimit === undefined && config.concurrency.max > 1;
    if (mayStall && this.tryEnterUploads()) return;
    await withDeadline(upload.whenReady(), { ...terms, late: uploadTimeout }, clock);
    if (this.hasLeft || upload.hasArrived || this.tryEnterUploads()) return;
    await this.whileQueued(concurrency.uploads.enter(terms));
    this.holdsUpload = true;
    if (this.hasLeft || upload.hasArrived) this.leaveUploads();
  }

  /**
   * What an attempt costs: a call of `rateLimit`, which is there at once as a rule. Returns the gateway's own credentials, if
   * the upstream wants some.
   * @throws GatewayError that is the call's answer
   */
  async pay({ operation, priority, maxWait, signal }: StreamedCall, deadline: Instant): Promise<Fields | undefined> {
    const { credentials, rateLimit, observer, config } = this.parts;
    const fields = await credentials?.fields({ deadline, signal });
    if (this.hasLeft) return undefined;
    try {
      await rateLimit?.take({ operation, priority, maxWait, deadline, signal });
    } catch (error) {
      if (!this.hasLeft && !isClientGone(error)) observer.refused(config.name, "rate-limit");
      throw error;
    }
    return fields;
  }

  /** Room for an attempt beside another, which counts as another call, if there is some. */
  tryEnterBeside(): boolean {
    return this.held > 1 || this.tryEnter();
  }

  /** The body is here. */
  leaveUploads(): void {
    if (this.holdsUpload) this.parts.concurrency.uploads.leave();
    this.holdsUpload = false;
  }

  /** The call is over. */
  leave(): void {
    this.hasLeft = true;
    this.leaveUploads();
    for (; this.held > 0; this.held -= 1) this.parts.concurrency.leave();
  }

  private tryEnter(): boolean {
    const isIn = this.parts.concurrency.tryEnter();
    if (isIn) this.held += 1;
    return isIn;
  }

  private tryEnterUploads(): boolean {
    this.holdsUpload = this.parts.concurrency.uploads.tryEnter();
    return this.holdsUpload;
  }

  private async whileQueued(turn: Promise<void>): Promise<void> {
    try {
      await turn;
    } catch (error) {
      this.parts.observer.refused(this.parts.config.name, "queue");
      throw error;
    }
  }

  private throwIfBroken(): void {
    const wait = this.breaker.waitTime();
    if (wait === 0) return;
    const { observer, config } = this.parts;
    observer.refused(config.name, "breaker");
    const seconds = Math.max(1, Math.ceil(wait / 1_000));
    const text = `upstream "${config.name}" fails on all its nodes and is given a pause; try again in ${seconds} s`;
    throw new GatewayError("circuit_open", text, { retryAfter: seconds });
  }
}
