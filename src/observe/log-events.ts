/** Levels that the gateway writes, as pino names them. */
type LogLevel = "debug" | "info" | "warn" | "error" | "fatal";

interface LogEventDefinition {
  readonly levels: readonly LogLevel[];
  /** Fields besides `level`, `time` and `msg`; `?` after a name: not always there. */
  readonly fields: readonly string[];
}

/**
 * Every event that the gateway logs, by the `msg` of its line. The {@link Logger} takes no other, and of each no other
 * fields. What they mean is in `tools/log-event-texts.ts`.
 */
export const LOG_EVENTS = {
  request: {
    levels: ["info", "error"],
    fields: [
      "requestId",
      "traceId?",
      "method",
      "operation",
      "upstream",
      "client?",
      "instrument?",
      "contract?",
      "status",
      "outcome",
      "collapsed?",
      "durationMs?",
      "bytes?",
      "code?",
      "reason?",
      "cause?",
      "err?",
    ],
  },
  "client refused": { levels: ["warn"], fields: ["client", "tier", "reason"] },
  "client over its limit was let in": { levels: ["warn"], fields: ["client", "tier", "reason"] },
  "client keys changed": { levels: ["info"], fields: ["changes", "added", "removed", "changed"] },
  "client keys cannot be used": { levels: ["error"], fields: ["source", "reason"] },
  "client keys can be used again": { levels: ["info"], fields: ["source"] },
  "request routed": { levels: ["debug"], fields: ["requestId", "operation", "upstream", "by"] },
  "attempt ended": {
    levels: ["debug"],
    fields: ["requestId?", "upstream", "operation", "node?", "kind", "outcome", "reason?", "status?", "durationMs"],
  },
  "call refused": { levels: ["debug"], fields: ["upstream", "reason"] },
  listening: { levels: ["info"], fields: ["publicPort", "operationsPort", "upstreams", "version"] },
  stopping: { levels: ["info"], fields: ["signal"] },
  stopped: { levels: ["info"], fields: [] },
  configuration: { levels: ["warn"], fields: ["warning"] },
  "bad configuration": { levels: ["fatal"], fields: ["problems"] },
  "configuration reloaded": { levels: ["info"], fields: ["cause", "changed"] },
  "configuration unchanged": { levels: ["info"], fields: ["cause"] },
  "configuration refused: the one in use stays": { levels: ["error"], fields: ["cause", "problems"] },
  "files that the configuration names are no good: what was read of them before stays in use": {
    levels: ["error"],
    fields: ["problems"],
  },
  "these changes of the configuration need a restart and have no effect yet": { levels: ["warn"], fields: ["changed"] },
  "node state changed": { levels: ["info", "warn"], fields: ["upstream", "node", "from", "to", "reason"] },
  "upstream state changed": { levels: ["info", "warn", "error"], fields: ["upstream", "from", "to", "reason"] },
  "breaker state changed": { levels: ["info", "warn"], fields: ["upstream", "calls", "from", "to", "openForSeconds"] },
  "admin proved": { levels: ["info"], fields: ["upstream", "admin"] },
  "node names another admin": { levels: ["error"], fields: ["upstream", "node", "expected", "named"] },
  "node answers out of step": { levels: ["error"], fields: ["upstream", "node", "fault"] },
  "nodes say different things": { levels: ["error", "debug"], fields: ["upstream", "operation", "nodes", "parts"] },
  "supportedApis changed": { levels: ["warn"], fields: ["upstream", "added", "removed"] },
  "changes of a registry cannot be reported": { levels: ["error"], fields: ["upstream", "err"] },
  "upstream answered 429: calling it less": { levels: ["warn"], fields: ["upstream", "share"] },
  "credential cannot be used": { levels: ["error"], fields: ["upstream", "key", "reason"] },
  "credential can be used again": { levels: ["info"], fields: ["upstream", "key"] },
  "out of file descriptors: raise the limit (ulimit -n, LimitNOFILE) or lower listen.maxConnections": {
    levels: ["error"],
    fields: ["code"],
  },
  "file descriptors can be had again": { levels: ["info"], fields: [] },
  "file has no name any more: changes of it are not seen": { levels: ["warn"], fields: ["file"] },
  "listener certificate cannot be used": { levels: ["error"], fields: ["reason"] },
  "listener certificate is out of its time": { levels: ["warn"], fields: ["reason"] },
  "listener certificate can be used again": { levels: ["info"], fields: [] },
  "listener certificate replaced": { levels: ["info"], fields: ["expiresAt"] },
  "seal key cannot be used": { levels: ["error"], fields: ["reason"] },
  "seal key can be used again": { levels: ["info"], fields: [] },
  "Redis state changed": { levels: ["info", "warn"], fields: ["to", "reason"] },
  "Redis cannot be connected to": { levels: ["error"], fields: ["reason"] },
  "traces cannot be sent: the newest are kept, the others dropped": { levels: ["warn"], fields: [] },
  "traces are sent again": { levels: ["info"], fields: [] },
  "metrics cannot be sent": { levels: ["warn"], fields: [] },
  "metrics are sent again": { levels: ["info"], fields: [] },
  "too much to do: misses and calls are refused": { levels: ["warn"], fields: ["delayMs"] },
  "misses and calls are answered again": { levels: ["info"], fields: ["delayMs"] },
  "console sign-in": { levels: ["warn"], fields: ["by", "from"] },
  "operations token cannot be used": { levels: ["warn"], fields: ["operator", "fault"] },
  "console sign-in refused": { levels: ["warn"], fields: ["from"] },
  "registry pinned": { levels: ["info"], fields: ["upstream", "admin", "source", "nodes"] },
  "registry URL mended": { levels: ["warn"], fields: ["upstream", "from", "to"] },
  "registry waits for approval": { levels: ["warn"], fields: ["upstream", "admin", "source", "nodes"] },
  "listed URL is another registry": { levels: ["warn"], fields: ["upstream", "named"] },
  "listed registry is not proved": { levels: ["warn"], fields: ["upstream", "reason"] },
  "more registries are listed than discovery.max": { levels: ["warn"], fields: ["max", "listed"] },
  "listed registries are asked later": { levels: ["warn"], fields: ["urls"] },
  "discovery source fails": { levels: ["warn"], fields: ["source", "reason"] },
  "discovery source can be read again": { levels: ["info"], fields: ["source"] },
  "discovery source lists fewer registries": { levels: ["warn"], fields: ["source", "before", "after"] },
  "pin file cannot be used": { levels: ["error"], fields: ["reason"] },
  "pin file is not there": { levels: ["warn"], fields: ["fromRedis"] },
  "pin file can be used again": { levels: ["info"], fields: [] },
  "found registries cannot be used": { levels: ["error"], fields: ["reason"] },
  "operator action": {
    levels: ["warn"],
    fields: [
      "did",
      "upstream?",
      "endpoint?",
      "soft?",
      "node?",
      "state?",
      "weight?",
      "mode?",
      "for?",
      "reason?",
      "force?",
      "approve?",
      "by",
      "from",
      "reach",
    ],
  },
  "operator action in force": {
    levels: ["warn"],
    fields: ["upstream", "node", "state", "weight", "mode", "reason", "by", "from", "since", "until"],
  },
  "operations request failed": { levels: ["error"], fields: ["err"] },
  "cannot start": { levels: ["fatal"], fields: ["err"] },
  "unexpected rejection": { levels: ["error"], fields: ["err"] },
  "unexpected error": { levels: ["fatal"], fields: ["err"] },
} as const satisfies Readonly<Record<string, LogEventDefinition>>;

type Definitions = typeof LOG_EVENTS;

/** The `msg` of a line. */
export type LogEvent = keyof Definitions;

type EventAt<Level extends LogLevel> = {
  [Event in LogEvent]: Level extends Definitions[Event]["levels"][number] ? Event : never;
}[LogEvent];

/** A field of an event's line, with `?` where it is not always there. */
export type FieldName<Event extends LogEvent> = Definitions[Event]["fields"][number];

/** The fields of an event's line: all that are always there, and those of the others that are known. */
type LogFields<Event extends LogEvent> = {
  readonly [Name in FieldName<Event> as Name extends `${string}?` ? never : Name]: unknown;
} & {
  readonly [Name in FieldName<Event> as Name extends `${infer Optional}?` ? Optional : never]?: unknown;
};

type Write<Level extends LogLevel> = <Event extends EventAt<Level>>(fields: LogFields<Event>, event: Event) => void;

/** pino's logger, for the events of the table alone. */
export interface Logger {
  /** A reload may change it. */
  level: string;
  readonly debug: Write<"debug">;
  readonly info: Write<"info">;
  readonly warn: Write<"warn">;
  readonly error: Write<"error">;
  readonly fatal: Write<"fatal">;
  isLevelEnabled(level: LogLevel): boolean;
  /** Writes the lines that wait for others: what ends the process has to. */
  flush(): void;
  /** The same, after what the kernel has: in order, and nothing is lost. */
  end(): Promise<void>;
  /** Lines that standard output did not take. */
  droppedLines(): number;
}
