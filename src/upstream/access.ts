import type { Logger } from "pino";
import type { Clock } from "../clock.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import type { GatewayError } from "../errors.ts";
import type { ConcurrencyLimit } from "../limits/concurrency.ts";
import type { RateLimit } from "../limits/rate.ts";
import type { RetryBudget } from "../limits/retry-budget.ts";
import type { Size } from "../units.ts";
import type { Admin } from "./admin.ts";
import type { Credentials } from "./credentials.ts";
import type { UpstreamObserver } from "./types.ts";

/** All that it takes to ask one registry, as one configuration says. Nodes outlive it: a reload gives them the next one. */
export interface Access {
  readonly config: UpstreamConfig;
  /** `limits.responseBody`. */
  readonly answerLimit: Size;
  readonly admin: Admin;
  /** Says why the upstream is not used: upstreams or nodes contradict each other. */
  readonly whyDisabled: () => GatewayError | undefined;
  readonly credentials: Credentials;
  readonly rate: RateLimit | undefined;
  /** For calls at once. */
  readonly places: ConcurrencyLimit;
  readonly budget: RetryBudget;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observer: UpstreamObserver;
}
