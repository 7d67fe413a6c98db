import dns, { type LookupAddress, type LookupOptions } from "node:dns";
import { tmpdir } from "node:os";
import { pino } from "pino";
import { type Clock, systemClock } from "../../src/clock.ts";
import { loadConfig } from "../../src/config/load.ts";
import type { LoadedConfig } from "../../src/config/loaded.ts";
import { GatewayError } from "../../src/errors.ts";
import type { Operation } from "../../src/spec/operations.ts";
import type { Limiter } from "../../src/sharing/ports.ts";
import { WindowLimiter } from "../../src/sharing/windows.ts";
import type { Answer, Call, CallReport } from "../../src/upstream/types.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import { Upstreams } from "../../src/upstream/upstreams.ts";
import { atEnd } from "./closing.ts";
import { operationOf, pathOf } from "./endpoints.ts";
import { Registry } from "./registry.ts";

/** Upstreams of a configuration; a registry among them stands for itself. */
type UpstreamValues = readonly (Registry | object)[];

/** What came of a call. */
export interface Outcome {
  /** `200`, `404 admin_unknown`. */
  readonly text: string;
  readonly error: GatewayError | undefined;
  readonly answer: Answer | undefined;
  readonly report: CallReport;
  /** How long it took, by the clock. */
  readonly took: number;
}

export type Question = Partial<Omit<Call, "deadline">> & { readonly within?: number; readonly name?: string };

/** Calls as the requests' rooms make them, until the gateway's front is there to be asked over HTTP. */
export class UpstreamHarness {
  upstreams: Upstreams;
  readonly clock: Clock;
  /** What the observer was told: `attempt transfer_factory success`, `info success`, `refused rate_limited`, `hedge`, `agreed`. */
  readonly seen: string[] = [];
  /** Parties whose entries would have been purged. */
  readonly purged: string[] = [];
  readonly lines: Record<string, unknown>[] = [];
  private readonly limiter: Limiter;

  constructor(values: UpstreamValues, clock: Clock, keys: object) {
    this.clock = clock;
    this.limiter = new WindowLimiter(clock);
    this.upstreams = this.create(load(values, keys), undefined);
    this.upstreams.start();
  }

  upstream(name = "amulet"): Upstream {
    return this.upstreams.byName(name)!;
  }

  reload(values: UpstreamValues, keys: object = {}): void {
    const previous = this.upstreams;
    this.upstreams = this.create(load(values, keys), previous);
    this.upstreams.start();
    previous.close(this.upstreams);
  }

  /** Calls an operation of version 1 or 2; a POST with `{}` unless `question` says otherwise. */
  async call(operation: string, { within = 15_000, name = "amulet", ...question }: Question = {}): Promise<Outcome> {
    const isEndpoint = operation !== "pass_through" && !operation.startsWith("/");
    const path = isEndpoint ? pathOf(operation, question.id) : operation;
    const method = isEndpoint && operationOf("GET", path) === "pass_through" ? "POST" : "GET";
    const began = this.clock.now();
    let report: CallReport | undefined;
    const made: Call = {
      operation: isEndpoint ? (operation as Operation) : "pass_through",
      method,
      base: "registry",
      path,
      fields: method === "POST" ? ["content-type", "application/json"] : [],
      ...(method === "POST" && { body: Buffer.from("{}") }),
      priority: "client",
      deadline: began + within,
      onEnd: (told) => (report = told),
      ...question,
    };
    const ended = await this.upstream(name)
      .call(made)
      .catch((error: unknown) => error);
    if (!(ended instanceof GatewayError) && (ended as Answer).status === undefined) throw ended;
    const error = ended instanceof GatewayError ? ended : undefined;
    const answer = error === undefined ? (ended as Answer) : undefined;
    const text = error === undefined ? String(answer!.status) : `${error.status} ${error.code}`;
    return { text, error, answer, report: report!, took: this.clock.now() - began };
  }

  /** How often the observer was told this. */
  count(what: string): number {
    return this.seen.filter((each) => each === what).length;
  }

  private create(loaded: LoadedConfig, previous: Upstreams | undefined): Upstreams {
    const tell = (text: string): void => void this.seen.push(text);
    const log = pino(
      { level: "trace" },
      { write: (line: string) => void this.lines.push(JSON.parse(line) as object as never) },
    );
    return new Upstreams(loaded, previous, {
      clock: this.clock,
      log,
      observer: {
        attemptEnded: (_upstream, operation, outcome) =>
          tell(operation === "info" ? `info ${outcome}` : `attempt ${operation} ${outcome}`),
        callRefused: (_upstream, reason) => tell(`refused ${reason}`),
        retried: (_upstream, kind) => tell(kind),
        agreed: (_upstream, outcome) => tell(outcome),
      },
      sharing: { limiter: this.limiter },
      onWrongAdmin: (party) => void this.purged.push(party),
    });
  }
}

function load(values: UpstreamValues, keys: object): LoadedConfig {
  const upstreams = values.map((each) => (each instanceof Registry ? each.upstream() : each));
  return loadConfig({ values: { ...keys, upstreams }, folder: tmpdir() }, {});
}

/** Upstreams without a gateway around them, which end with the test. */
export function useUpstreams(values: UpstreamValues, options: { clock?: Clock; keys?: object } = {}): UpstreamHarness {
  const { clock = systemClock(), keys = {} } = options;
  const harness = new UpstreamHarness(values, clock, keys);
  atEnd(() => harness.upstreams.close());
  return harness;
}

type Done = (error: Error | null, address: string | LookupAddress[], family?: number) => void;

/** The system's resolver, which a test may put another in the place of. */
const resolver: { lookup: (name: string, options: LookupOptions, done: Done) => void } = dns;

type Addresses = readonly string[];

/** Has `name` lead to these addresses while the test runs; asked at each lookup. None: there is no such name. */
export function resolveTo(name: string, addresses: () => Addresses | Promise<Addresses>): void {
  const before = resolver.lookup;
  resolver.lookup = (asked, options, done) => {
    if (asked !== name) return before.call(dns, asked, options, done);
    const answer = (all: Addresses): void => {
      const found = all.map((address) => ({ address, family: 4 }));
      if (found.length === 0) done(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }), []);
      else if (options.all === true) done(null, found);
      else done(null, found[0]!.address, 4);
    };
    void Promise.resolve(addresses()).then((all) => setImmediate(answer, all));
  };
  atEnd(() => (resolver.lookup = before));
}
