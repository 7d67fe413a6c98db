import { type Duration, sleep, systemClock } from "../clock.ts";
import { type Answer, BUSY, refusal } from "./answer.ts";
import { type Calls, noCalls, type RateLimit, Window } from "./calls.ts";
import {
  drawFault,
  type Fault,
  FAULT_FIELD,
  FAULT_NAMES,
  FAULT_QUERY,
  type FaultRates,
  FAULTS,
  isFaultName,
} from "./faults.ts";
import type { Apis, Instrument } from "./instruments.ts";
import { type Ending, listen, type Received } from "./listener.ts";
import type { PageSizes, PageTokens } from "./paging.ts";
import { randomHex, seededRandom, seedOf } from "./random.ts";
import { Registry } from "./registry.ts";
import { routeOf } from "./route.ts";

export type { Calls, RateLimit } from "./calls.ts";
export type { FaultName, FaultRates } from "./faults.ts";
export type { Apis, Instrument } from "./instruments.ts";
export type { PageSizes, PageTokens } from "./paging.ts";

/** A sample registry. All generated data and all draws depend on `seed` alone. */
export interface SandboxOptions {
  /** Address to listen on; by default 127.0.0.1. */
  readonly host?: string;
  /** Port to listen on; by default 0: any free one. */
  readonly port?: number;
  /** Name of the party that is its admin, `name::1220…`; by default `sandbox`. */
  readonly name?: string;
  /** The admin's party id; by default made of `name`. */
  readonly admin?: string;
  /** Seed of all data and draws; by default made of the admin. */
  readonly seed?: number;
  /** Number of instruments; by default 60. */
  readonly instruments?: number;
  /** Versions that it serves; by default both. */
  readonly apis?: Apis;
  /** Kind of page tokens; by default the last id of a page is the token of the next. */
  readonly paging?: PageTokens;
  readonly pageSize?: Partial<PageSizes>;
  /** Milliseconds that each answer takes. */
  readonly latency?: Duration;
  /** Most milliseconds that are added at random. */
  readonly jitter?: Duration;
  readonly faults?: FaultRates;
  /** Milliseconds that a slow answer comes later; by default 3,000: behind a hedge, before an attempt's usual deadline. */
  readonly slow?: Duration;
  /** `Cache-Control` of metadata; by default there is none, as at most registries. */
  readonly cacheControl?: string;
  /** Requests beyond it are answered 429; by default there is no limit. */
  readonly rateLimit?: RateLimit;
}

/** A sample registry that is running. */
export interface Sandbox extends AsyncDisposable {
  /** Base URL, without `/registry`. */
  readonly url: string;
  readonly admin: string;
  /** Sorted by id. */
  readonly instruments: readonly Instrument[];
  /** Requests so far, by endpoint. */
  readonly calls: Readonly<Calls>;
  /** Puts these faults in place of those before. */
  setFaults(faults: FaultRates): void;
  /** Ends it and all its connections. */
  close(): Promise<void>;
}

/**
 * Starts a sample registry: both versions of the standard over real HTTP, with made-up data of realistic sizes. Any contract
 * id of 138 hexadecimal digits is known; one that begins with `reassigned` is 409, every other 404. A request gets a fault by
 * `?fault=NAME` or the field `x-sandbox-fault`, whatever `faults` says.
 *
 * @throws TypeError for rates that are no shares; Node's own error where it cannot listen there
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { name = "sandbox", host = "127.0.0.1", port = 0 } = options;
  const admin = options.admin ?? `${name}::1220${randomHex(seededRandom(seedOf(name)), 64)}`;
  const server = new SandboxServer(options, admin);
  const listener = await listen({ host, port }, (received) => server.serve(received));
  const close = (): Promise<void> => listener.close();
  return {
    url: listener.url,
    admin,
    instruments: server.registry.instruments,
    calls: server.calls,
    setFaults: (faults) => {
      server.faults = checkRates(faults);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Limit, latency and faults, between the connections and the registry. */
class SandboxServer {
  readonly registry: Registry;
  readonly calls = noCalls();
  faults: FaultRates;
  readonly #options: SandboxOptions;
  readonly #random: () => number;
  readonly #window: Window | undefined;
  readonly #clock = systemClock();

  constructor(options: SandboxOptions, admin: string) {
    const { seed = seedOf(admin), instruments = 60, apis = "both", paging = "token-id", pageSize, rateLimit } = options;
    const sizes: PageSizes = { default: 25, most: 1_000, beyond: "clamp", ...pageSize };
    this.#options = options;
    this.faults = checkRates(options.faults ?? {});
    this.registry = new Registry({ admin, seed, instruments, apis, paging: { tokens: paging, sizes } });
    this.#random = seededRandom(seed);
    this.#window = rateLimit && new Window(rateLimit);
  }

  async serve({ message, url, body }: Received): Promise<Answer | Ending> {
    const route = routeOf(url.pathname);
    this.calls[route?.endpoint.operation ?? "other"] += 1;
    if (this.#window?.take(this.#clock.now()) === false) return BUSY;
    const asked = url.searchParams.get(FAULT_QUERY) ?? message.headers[FAULT_FIELD];
    if (asked !== undefined && !(typeof asked === "string" && isFaultName(asked))) {
      return refusal(400, `fault takes one of ${FAULT_NAMES.join(", ")}`);
    }
    const fault: Fault | undefined = asked === undefined ? drawFault(this.faults, this.#random) : FAULTS[asked];
    const { latency = 0, jitter = 0, slow = 3_000, cacheControl } = this.#options;
    const delay = latency + jitter * this.#random() + (fault?.kind === "slow" ? slow : 0);
    if (delay > 0) await sleep(delay, this.#clock);
    if (fault?.kind === "hang" || fault?.kind === "reset") return fault.kind;
    if (fault?.kind === "answer") return fault.answer;
    const { method = "GET", headers } = message;
    const request = { method, query: url.searchParams, contentType: headers["content-type"], body };
    const answer = this.registry.answer(request, route);
    if (cacheControl === undefined || method === "POST" || answer.status !== 200) return answer;
    return { ...answer, fields: { ...answer.fields, "cache-control": cacheControl } };
  }
}

/** @throws TypeError */
function checkRates(rates: FaultRates): FaultRates {
  let sum = 0;
  for (const [name, rate] of Object.entries(rates)) {
    if (!isFaultName(name)) throw new TypeError(`there is no fault ${name}: take one of ${FAULT_NAMES.join(", ")}`);
    if (!(rate >= 0 && rate <= 1)) throw new TypeError(`the rate of ${name} is a share from 0 to 1`);
    sum += rate;
  }
  if (sum > 1) throw new TypeError("the rates of all faults together are a share from 0 to 1");
  return rates;
}
