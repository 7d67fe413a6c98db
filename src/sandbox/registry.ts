import type { IncomingMessage, ServerResponse } from "node:http";
import { collect } from "../bodies/collected-body.ts";
import { type Clock, type Duration, sleep } from "../clock.ts";
import type { Operation } from "../spec/operations.ts";
import { type Answer, jsonAnswer } from "./answer.ts";
import { type Call, CallLog } from "./call-log.ts";
import { Catalogue } from "./catalogue.ts";
import { CONTROL, control } from "./control.ts";
import { type CallFault, faultAskedFor, FaultKnobs, isBreaking } from "./faults.ts";
import { breakAnswer, spoilAnswer } from "./faulty-answer.ts";
import { type Instrument, sampleInstruments, supportedApis } from "./instrument.ts";
import { lieAbout, type Liar } from "./lies.ts";
import { allowBrowsers, Listener, type ListenerTls } from "./listener.ts";
import { hashText, mulberry32 } from "./random.ts";
import { type AnswerOptions, RegistryAnswers, withEtag } from "./registry-answers.ts";
import { readRoute, type Route } from "./route.ts";

interface RegistryOptions extends AnswerOptions {
  readonly clock: Clock;
  /** Address to listen on; by default 127.0.0.1. */
  readonly host: string;
  /** 0, the default, takes a free one. */
  readonly port: number;
  /** A path before `/registry`, as hosts of several registrars have it: starts with a slash, ends without. */
  readonly basePath: string;
  /** How many generated instruments, or which; by default 60: three pages. */
  readonly instruments: number | readonly Instrument[];
  /** How long each answer takes; by default no time. */
  readonly latency: Duration | (() => Duration);
  /** Further header fields of 200s and 304s. */
  readonly cacheHeaders?: (operation: Operation) => Record<string, string>;
  /** ETags on 200s to GET, and 304s; by default there are none. */
  readonly etags: boolean;
  readonly tls?: ListenerTls;
  /** Answers preflights, and lets pages of any origin read what it answers; by default it does not. */
  readonly allowsBrowsers: boolean;
  /** Whether a request may ask for a fault (see `faultAskedFor`); by default it may not. */
  readonly givesFaults: boolean;
  /** Whether `/sandbox/…` controls it (see `control`); by default it does not. */
  readonly isControlled: boolean;
  /** In what it differs from the honest nodes of its registry; by default in nothing. */
  readonly liar?: Liar | undefined;
}

export type SampleRegistryOptions = Pick<RegistryOptions, "admin" | "clock"> & Partial<RegistryOptions>;

const DEFAULTS: Omit<RegistryOptions, "admin" | "clock" | "seed"> = {
  host: "127.0.0.1",
  port: 0,
  basePath: "",
  instruments: 60,
  version: "v2",
  paging: "keyset",
  defaultPageSize: 25,
  maxPageSize: { limit: 1024, beyond: "400" },
  style: "splice",
  unknownPaths: "own",
  strict: false,
  checksBodyAdmin: true,
  contracts: () => true,
  round: () => 0,
  latency: 0,
  etags: false,
  allowsBrowsers: false,
  givesFaults: false,
  isControlled: false,
};

/** A faithful registry of the API over real HTTP on loopback, with knobs for what goes wrong in the field. */
export class SampleRegistry {
  readonly admin: string;
  readonly catalogue: Catalogue;
  readonly calls = new CallLog();
  readonly faults: FaultKnobs;
  private readonly options: RegistryOptions;
  private readonly answers: RegistryAnswers;
  private readonly listener: Listener;
  private extraLatency: Duration = 0;

  constructor(options: SampleRegistryOptions) {
    const seed = options.seed ?? hashText(options.admin);
    this.options = { ...DEFAULTS, ...options, seed };
    const { admin, clock, instruments, version, host, port, tls } = this.options;
    this.admin = admin;
    this.catalogue = new Catalogue(
      typeof instruments === "number" ? sampleInstruments(instruments, seed, supportedApis(version)) : instruments,
      { clock, random: mulberry32(seed + 1) },
    );
    this.listener = new Listener({ host, port, tls, serve: (request, response) => void this.serve(request, response) });
    this.faults = new FaultKnobs(mulberry32(seed + 2), (isOn) => (isOn ? this.revive() : this.kill()));
    this.answers = new RegistryAnswers({ ...this.options, catalogue: this.catalogue });
  }

  /** The base URL, without a trailing slash and without `/registry`. Throws before the first start. */
  get url(): string {
    const { tls, basePath } = this.options;
    if (this.listener.port === 0) throw new Error("the sample registry has no URL before it has started");
    return `${tls === undefined ? "http" : "https"}://127.0.0.1:${this.listener.port}${basePath}`;
  }

  /** Connections: open now, and accepted so far. */
  get connections(): { open: number; accepted: number } {
    return { open: this.listener.connections, accepted: this.listener.accepted };
  }

  get isListening(): boolean {
    return this.listener.isListening;
  }

  async start(): Promise<void> {
    await this.listener.open();
  }

  /** Ends the listener and every connection; calls that are open are never answered. */
  async stop(): Promise<void> {
    await this.listener.close();
  }

  /** Goes away as a crashed process does: connections break, new ones are refused. */
  async kill(): Promise<void> {
    await this.listener.close();
  }

  /** Comes back on the same port after `kill`. */
  async revive(): Promise<void> {
    await this.listener.open();
  }

  /** Adds `latency` to every answer's time from now on; 0 ends it. */
  slow(latency: Duration): void {
    this.extraLatency = latency;
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { version, basePath, clock, allowsBrowsers, isControlled } = this.options;
    if (allowsBrowsers && allowBrowsers(request.method ?? "GET", response)) return;
    const url = request.url ?? "/";
    const isControl = isControlled && url.startsWith(CONTROL);
    const path = url.split("?", 1)[0]!;
    const route = readRoute(path.startsWith(basePath) ? path.slice(basePath.length) : "", version);
    const call: Call = {
      operation: route.operation,
      method: request.method ?? "GET",
      url,
      headers: request.headers,
      rawHeaders: request.rawHeaders,
      at: clock.now(),
      body: Buffer.alloc(0),
      outcome: "open",
    };
    if (!isControl) {
      this.calls.begin(call);
      response.once("finish", () => this.calls.end(call, "answered"));
      response.once("close", () => this.calls.end(call, "aborted"));
    }
    try {
      call.body = await readBody(request);
      if (isControl) return sendAnswer(control(call, this.calls, this.faults), response);
      await this.respond(call, route, response);
    } catch (error) {
      // A client that went away takes no answer; what threw here must not look like a fault of the network.
      if (response.headersSent || request.socket.destroyed) response.destroy();
      else sendAnswer(jsonAnswer(500, { error: `sample registry: ${String(error)}` }), response);
    }
  }

  /** Answers a call whose body is whole: with its fault, after its time. */
  protected async respond(call: Call, route: Route, response: ServerResponse): Promise<void> {
    const asked = this.options.givesFaults ? faultAskedFor(call.url, call.body) : undefined;
    const fault = asked ?? this.faults.draw(call);
    const wait = this.latency() + (fault?.kind === "slow" ? fault.delay : 0);
    if (wait > 0) await sleep(wait, this.options.clock);
    return this.answerWith(fault, { call, route, response });
  }

  private async answerWith(
    fault: CallFault | undefined,
    exchange: { call: Call; route: Route; response: ServerResponse },
  ): Promise<void> {
    const { call, route, response } = exchange;
    const answerAs = (admin?: string): Answer => this.decorate(this.said(call, route, admin), call);
    if (fault === undefined || fault.kind === "slow") return sendAnswer(answerAs(), response);
    if (isBreaking(fault)) return breakAnswer(fault, response, answerAs);
    return sendAnswer(spoilAnswer(fault, answerAs), response);
  }

  private said(call: Call, route: Route, admin: string | undefined): Answer {
    const answer = this.answers.answer(call, route, admin);
    return this.options.liar === undefined ? answer : lieAbout(answer, route.operation, this.options.liar);
  }

  private decorate(plain: Answer, call: Call): Answer {
    const answer = this.options.etags ? withEtag(plain, call) : plain;
    if (answer.status !== 200 && answer.status !== 304) return answer;
    return { ...answer, headers: { ...answer.headers, ...this.options.cacheHeaders?.(call.operation) } };
  }

  private latency(): Duration {
    const { latency } = this.options;
    return this.extraLatency + (typeof latency === "number" ? latency : latency());
  }
}

function sendAnswer(answer: Answer, response: ServerResponse): void {
  const length = answer.status === 304 ? {} : { "content-length": Buffer.byteLength(answer.body) };
  response.writeHead(answer.status, { ...answer.headers, ...length });
  response.end(answer.body);
}

const MAX_BODY = 8 * 1024 * 1024;

/** The whole body. Rejects when the client goes away before its end, and for a body beyond 8 MiB. */
function readBody(request: IncomingMessage): Promise<Buffer> {
  return collect(request, MAX_BODY);
}
