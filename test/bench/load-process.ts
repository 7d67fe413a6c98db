import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { optionsOfParent, tellParent } from "../support/forks.ts";

/** What the load generator is to send, and what it must get. */
export interface LoadPlan {
  readonly port: number;
  /** Each has one request at a time. */
  readonly connections: number;
  /** Requests in all. */
  readonly count: number;
  /** Whole requests as text, sent in turn; `{n}` in them is a number that grows from `from`, with each or with each wave. */
  readonly requests: readonly string[];
  readonly from?: number;
  /** The number begins again after so many. */
  readonly period?: number;
  /** All connections send the same, wait for all answers, then send the next. */
  readonly inWaves?: boolean;
  /** What every answer must be, or the run fails. */
  readonly expected: { readonly status: number; readonly bodyLength: number };
  /** Text that heads may hold; how many do is counted. */
  readonly head?: string;
}

/** Why a run failed; the share of the heads that held the text. */
export type LoadReply = { readonly error?: string; readonly holding?: number };

const HEAD_END = "\r\n\r\n";

/** One keep-alive connection that reads answers as cheaply as they can be read without believing them. */
class LoadConnection {
  readonly connected: Promise<unknown>;
  readonly socket: Socket;
  holding = 0;
  private readonly plan: LoadPlan;
  private onAnswer = (): void => undefined;
  private head = "";
  /** Bytes of the body still to come; undefined while a head is read. */
  private missing: number | undefined;

  constructor(plan: LoadPlan) {
    this.plan = plan;
    const buffer = Buffer.allocUnsafe(64 * 1024);
    const callback = (length: number): boolean => {
      this.read(buffer.subarray(0, length));
      return true;
    };
    this.socket = connect({ port: plan.port, host: "127.0.0.1", noDelay: true, onread: { buffer, callback } });
    this.socket.on("error", ({ message }) => end({ error: message }));
    this.socket.on("close", () => end({ error: "a connection was closed" }));
    this.connected = once(this.socket, "connect");
  }

  ask(request: string, onAnswer: () => void): void {
    this.onAnswer = onAnswer;
    this.socket.write(request, "latin1");
  }

  private read(chunk: Buffer): void {
    if (this.missing !== undefined) return this.readBody(chunk.length);
    const known = this.head.length;
    const text = this.head + chunk.toString("latin1", 0, 4_096);
    const at = text.indexOf(HEAD_END);
    this.head = at === -1 ? text : "";
    if (at === -1) return;
    const head = text.slice(0, at + 2);
    const { expected, head: wanted } = this.plan;
    const length = Number(/\r\ncontent-length: ([0-9]+)\r/i.exec(head)?.[1]);
    const isExpected = expected.bodyLength === 0 || length === expected.bodyLength;
    if (!isExpected || !head.startsWith(`HTTP/1.1 ${expected.status} `)) return end({ error: `unexpected: ${head}` });
    if (wanted !== undefined && head.includes(wanted)) this.holding += 1;
    this.missing = expected.bodyLength;
    this.readBody(chunk.length - (at + HEAD_END.length - known));
  }

  private readBody(length: number): void {
    this.missing! -= length;
    if (this.missing! > 0) return;
    if (this.missing! < 0) return end({ error: "more bytes than the body has" });
    this.missing = undefined;
    this.onAnswer();
  }
}

let open: { readonly plan: LoadPlan; readonly connections: readonly LoadConnection[] } | undefined;

async function openConnections(plan: LoadPlan): Promise<void> {
  const connections = Array.from({ length: plan.connections }, () => new LoadConnection(plan));
  open = { plan, connections };
  await Promise.all(connections.map(({ connected }) => connected));
  tellParent({} satisfies LoadReply);
}

function run({ plan, connections }: NonNullable<typeof open>): void {
  const { count, from = 0, period = Infinity, inWaves = false } = plan;
  const texts = plan.requests.map((text) => text.split("{n}"));
  let [sent, answered] = [0, 0];
  const waiting: LoadConnection[] = [];
  const next = (connection: LoadConnection): void => {
    if (sent === count) return;
    const step = inWaves ? Math.floor(sent / connections.length) : sent;
    const [before, after] = texts[step % texts.length]!;
    sent += 1;
    connection.ask(after === undefined ? before! : `${before}${from + (step % period)}${after}`, () =>
      note(connection),
    );
  };
  const note = (connection: LoadConnection): void => {
    answered += 1;
    if (answered === count) return end({ holding: connections.reduce((sum, each) => sum + each.holding, 0) / count });
    if (!inWaves) return next(connection);
    waiting.push(connection);
    if (waiting.length === connections.length) for (const each of waiting.splice(0)) next(each);
  };
  for (const connection of connections) next(connection);
}

function end(reply: LoadReply): void {
  if (open === undefined) return;
  const { connections } = open;
  open = undefined;
  for (const { socket } of connections) socket.destroy();
  tellParent(reply);
}

optionsOfParent();
process.on("message", (command: LoadPlan | "run") => {
  if (command === "run") run(open!);
  else openConnections(command).catch((error: unknown) => end({ error: String(error) }));
});
tellParent({});
