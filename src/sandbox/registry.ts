import type { IncomingMessage, ServerResponse } from "node:http";
import { collect } from "../bodies/collected-body.ts";
import type { Clock, Duration } from "../clock.ts";
import type { Operation } from "../spec/operations.ts";
import { type Answer, jsonAnswer, tooManyRequestsAnswer } from "./answer.ts";
import { type Call, CallLog } from "./call-log.ts";
import { Catalogue } from "./catalogue.ts";
import { CONTROL, control } from "./control.ts";
import type { ErrorStyle } from "./error-style.ts";
import { type CallFault, faultAskedFor, FaultKnobs, isBreaking } from "./faults.ts";
import { breakAnswer, spoilAnswer } from "./faulty-answer.ts";
import { type Instrument, sampleInstruments, supportedApis } from "./instrument.ts";
import { lieAbout, type Liar } from "./lies.ts";
import { allowBrowsers, Listener, type ListenerTls } from "./listener.ts";
import type { MaxPageSize, PageStyle } from "./paging.ts";
import { hashText, mulberry32 } from "./random.ts";
import { type RateLimit, SlidingWindow } from "./rate-limit.ts";
import { RegistryAnswers, withEtag } from "./registry-answers.ts";
import { readRoute, type Route } from "./route.ts";
import { delay, type Script, sendScripted } from "./script.ts";

export interface SampleRegistryOptions {
  /** The party id it is the registry of. */
  admin: string;
  clock: Clock;
  /** Address to listen on; by default 127.0.0.1. */
  host?: string;
  /** 0, the default, takes a free one. */
  port?: number;
  /** A path before `/registry`, as hosts of several registrars have it: starts with a slash, ends without. */
  basePath?: string;
  /** How many generated instruments, or which; by default 60: three pages. */
  instruments?: number | readonly Instrument[];
  /** By default `keyset`. */
  pageStyle?: PageStyle;
  /** By default 25. */
  defaultPageSize?: number;
  /** By default 1024, and 400 beyond. */
  maxPageSize?: MaxPageSize;
  /** How long each answer takes; by default no time. */
  latency?: Duration | (() => Duration);
  /** All generated data and all drawn faults depend on it; by default on the admin. */
  seed?: number;
  rateLimit?: RateLimit;
  /** `ignore`: gives a plausible 200 to a factory request that names another admin, as one big registry does. */
  bodyAdminPolicy?: "check" | "ignore";
  /** Whose errors and context shapes it speaks; by default `splice`. */
  errorStyle?: ErrorStyle;
  /** Further header fields of 200s and 304s. */
  cacheHeaders?: (operation: Operation) => Record<string, string>;
  /** ETags on 200s to GET, and 304s. */
  etags?: boolean;
  /** Version 2 and an echo on every draft path; by default true. */
  supportsV2?: boolean;
  /** What it answers at paths that it does not have: 404 in its own words, the default, or a web page. */
  unknownPaths?: "own" | "html";
  /** Which contract ids it knows; by default every one. See `ownContracts` for one that knows its own only. */
  contracts?: (id: string) => boolean;
  tls?: ListenerTls;
  /** Factory calls that name no instrument of its own, or transfer nothing, are refused; by default they are answered. */
  isStrict?: boolean;
  /** Answers preflights, and lets pages of any origin read what it answers; by default it does not. */
  allowsBrowsers?: boolean;
  /** Whether a request may ask for a fault (see `faultAskedFor`); by default it may not. */
  givesFaults?: boolean;
  /** Whether `/sandbox/…` controls it (see `control`); by default it does not. */
  isControlled?: boolean;
  /** The round that is open now, of which its contexts are; by default 0. */
  round?: () => number;
  /** In what it differs from the honest nodes of its registry; by default in nothing. */
  liar?: Liar | undefined;
}

/** A faithful registry of the API over real HTTP on loopback, with knobs for what goes wrong in the field. */
export class SampleRegistry {
  readonly admin: string;
  readonly catalogue: Catalogue;
  readonly calls = new CallLog();
  readonly faults: FaultKnobs;
  private readonly options: SampleRegistryOptions;
  private readonly answers: RegistryAnswers;
  private readonly listener: Listener;
  private readonly window: SlidingWindow | undefined;
  private extraLatency: Duration = 0;
  private handler: Script | undefined;

  constructor(options: SampleRegistryOptions) {
    const { admin, clock, instruments = 60, seed = hashText(admin) } = options;
    this.options = options;
    this.admin = admin;
    this.catalogue = new Catalogue(
      typeof instruments === "number"
        ? sampleInstruments(instruments, seed, supportedApis(options.supportsV2 ?? true))
        : instruments,
      { clock, random: mulberry32(seed + 1) },
    );
    this.listener = new Listener({
      host: options.host ?? "127.0.0.1",
      port: options.port ?? 0,
      tls: options.tls,
      serve: (request, response) => void this.serve(request, response),
    });
    this.faults = new FaultKnobs(mulberry32(seed + 2), (isOn) => (isOn ? this.revive() : this.kill()));
    this.window = options.rateLimit === undefined ? undefined : new SlidingWindow(options.rateLimit, clock);
    this.answers = new RegistryAnswers({
      admin,
      seed,
      style: options.errorStyle ?? "splice",
      catalogue: this.catalogue,
      paging: {
        style: options.pageStyle ?? "keyset",
        defaultSize: options.defaultPageSize ?? 25,
        maxSize: options.maxPageSize ?? { limit: 1024, beyond: "400" },
      },
      checksBodyAdmin: options.bodyAdminPolicy !== "ignore",
      supportsV2: options.supportsV2 ?? true,
      unknownPaths: options.unknownPaths ?? "own",
      contracts: options.contracts ?? (() => true),
      isStrict: options.isStrict ?? false,
      round: options.round ?? (() => 0),
    });
  }

  /** The base URL, without a trailing slash and without `/registry`. Throws before the first start. */
  get url(): string {
    const { tls, basePath = "" } = this.options;
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

  /** Lets `handler` answer calls first, before faults, limits and latency; undefined ends it. */
  script(handler: Script | undefined): void {
    this.handler = handler;
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { supportsV2 = true, basePath = "", clock } = this.options;
    if (this.options.allowsBrowsers === true && allowBrowsers(request.method ?? "GET", response)) return;
    const url = request.url ?? "/";
    const isControl = this.options.isControlled === true && url.startsWith(CONTROL);
    const path = url.split("?", 1)[0]!;
    const route = readRoute(path.startsWith(basePath) ? path.slice(basePath.length) : "", supportsV2);
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
      // A client that went away takes no answer; a script that threw must not look like a fault of the network.
      if (response.headersSent || request.socket.destroyed) response.destroy();
      else sendAnswer(jsonAnswer(500, { error: `sample registry: ${String(error)}` }), response);
    }
  }

  private async respond(call: Call, route: Route, response: ServerResponse): Promise<void> {
    const { clock } = this.options;
    const scripted = await this.handler?.(call);
    if (scripted !== undefined) return sendScripted(scripted, response, clock);
    if (this.window?.admits() === false) return sendAnswer(tooManyRequestsAnswer(), response);
    const asked = this.options.givesFaults === true ? faultAskedFor(call.url, call.body) : undefined;
    const fault = asked ?? this.faults.draw(call);
    await delay(clock, this.latency() + (fault?.kind === "slow" ? fault.delay : 0));
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
    const answer = this.options.etags === true ? withEtag(plain, call) : plain;
    if (answer.status !== 200 && answer.status !== 304) return answer;
    return { ...answer, headers: { ...answer.headers, ...this.options.cacheHeaders?.(call.operation) } };
  }

  private latency(): Duration {
    const { latency = 0 } = this.options;
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
