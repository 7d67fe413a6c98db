import type { BodyReader } from "../bodies/body-reader.ts";
import type { Clock } from "../clock.ts";
import type { Config, UpstreamConfig } from "../config/schema.ts";
import type { CircuitBreaker } from "./limits/circuit-breaker.ts";
import type { ConcurrencyLimit } from "./limits/concurrency-limit.ts";
import type { Credentials } from "./credentials/credentials.ts";
import type { RateLimit } from "./limits/rate-limit.ts";
import type { Latencies } from "./call/latencies.ts";
import type { NodeChoice } from "./call/node-choice.ts";
import type { Nodes } from "./node/nodes.ts";
import type { UpstreamObserver } from "./observer.ts";
import type { RecentRequests } from "./recent-requests.ts";
import type { TokenBucket } from "./limits/token-bucket.ts";

/** What the calls of one upstream share. */
export interface UpstreamParts {
  readonly config: UpstreamConfig;
  readonly limits: Pick<Config["limits"], "requestBody" | "responseBody">;
  readonly clock: Clock;
  readonly bodies: BodyReader;
  readonly random: () => number;
  readonly observer: UpstreamObserver;
  readonly nodes: Nodes;
  readonly choice: NodeChoice;
  readonly breaker: CircuitBreaker;
  /** Of what is passed through: paths of which nothing is known, and which clients choose as they like. */
  readonly passThroughBreaker: CircuitBreaker;
  /** Requests that failed on a node, which is one of two to blame: its place in the list. */
  readonly doubtful: RecentRequests<number>;
  /** Requests that failed on every node they were sent to. */
  readonly hopeless: RecentRequests<true>;
  readonly concurrency: ConcurrencyLimit;
  readonly rateLimit: RateLimit | undefined;
  readonly credentials: Credentials | undefined;
  readonly latencies: Latencies;
  readonly retries: TokenBucket;
  readonly hedges: TokenBucket;
}
