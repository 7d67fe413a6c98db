import type { AgreementResult, Difference } from "../../src/upstream/agreement.ts";
import type { ApiChange } from "../../src/upstream/nodes/supported-apis.ts";
import type { AttemptEvent, CredentialLook, UpstreamObserver } from "../../src/upstream/observer.ts";

/** Keeps what it observes: attempts, and everything else as one line of text per event. */
export class RecordingObserver implements UpstreamObserver {
  readonly attempts: AttemptEvent[] = [];
  readonly events: string[] = [];
  /** Upstream and key → why the credential was no good when it was said last. */
  readonly credentialFaults = new Map<string, string | undefined>();
  /** Upstream, operation and outcome of each call. */
  readonly calls: string[] = [];

  /** Events whose text begins with `start`. */
  count(start: string): number {
    return this.events.filter((event) => event.startsWith(start)).length;
  }

  called(upstream: string, operation: string, outcome: string): void {
    this.calls.push(`${upstream} ${operation} ${outcome}`);
  }
  attempt(event: AttemptEvent): void {
    this.attempts.push(event);
  }
  retry(upstream: string, reason: string): void {
    this.events.push(`retry ${upstream} ${reason}`);
  }
  retryBudgetExhausted(upstream: string): void {
    this.events.push(`retry-budget-exhausted ${upstream}`);
  }
  hedge(upstream: string, result: string): void {
    this.events.push(`hedge-${result} ${upstream}`);
  }
  refused(upstream: string, refusal: string): void {
    this.events.push(`refused ${upstream} ${refusal}`);
  }
  check(upstream: string, _node: string, outcome: string): void {
    this.events.push(`check-${outcome} ${upstream}`);
  }
  nodeState(upstream: string, _node: string, { from, to }: { from: string; to: string }): void {
    this.events.push(`node ${from} → ${to} ${upstream}`);
  }
  upstreamState(upstream: string, { from, to }: { from: string; to: string }): void {
    this.events.push(`upstream ${from} → ${to} ${upstream}`);
  }
  breaker(upstream: string, calls: string, { to, isNew }: { to: string; isNew: boolean }): void {
    this.events.push(`breaker ${to} ${upstream} ${calls}`);
    if (isNew) this.events.push(`breaker-news ${to} ${upstream} ${calls}`);
  }
  adminProved(upstream: string, admin: string): void {
    this.events.push(`proved ${upstream} ${admin}`);
  }
  adminMismatch(upstream: string, _node: string, { named }: { named: string }): void {
    this.events.push(`mismatch ${upstream} ${named}`);
  }
  agreement(upstream: string, { operation, outcome, questions }: AgreementResult): void {
    this.events.push(`agreement ${upstream} ${operation} ${outcome} ${questions}`);
  }
  differed(upstream: string, { nodes, parts }: Difference, isNew: boolean): void {
    this.events.push(`differed ${upstream} ${nodes.map((group) => group.join("+")).join(" ")}: ${parts.join()}`);
    if (isNew) this.events.push(`differed-news ${upstream}`);
  }
  outOfStep(upstream: string, _node: string, fault: string): void {
    this.events.push(`out-of-step ${upstream} ${fault}`);
  }
  supportedApisChanged(upstream: string, { added, removed }: ApiChange): void {
    this.events.push(`apis ${upstream} +${added.join()} -${removed.join()}`);
  }
  rationed(upstream: string, share: number): void {
    this.events.push(`rationed ${upstream} ${share}`);
  }
  credential(upstream: string, key: string, { fault, isNew }: CredentialLook): void {
    this.credentialFaults.set(`${upstream} ${key}`, fault);
    if (isNew) this.events.push(`credential ${upstream} ${key} ${fault ?? "good"}`);
  }
}
