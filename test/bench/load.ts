import { request as httpRequest } from "node:http";
import { ask, startModule, stop } from "../support/forks.ts";
import { cpuOf, treeOf } from "../support/usage.ts";
import type { LoadPlan, LoadReply } from "./load-process.ts";
import type { Canned } from "./node-process.ts";

/** Microseconds of CPU for each request, of the server's whole process; share of heads that held what they may hold. */
export interface Measurement {
  readonly cpu: number;
  readonly holding: number;
}

/** The load generator, in a process of its own. */
export interface Load {
  /** Opens the connections, then sends the load, and measures what the process `pid` uses in between. */
  run(plan: LoadPlan, pid: number): Promise<Measurement>;
  stop(): Promise<void>;
}

export async function startLoad(): Promise<Load> {
  const { child } = await startModule(new URL("load-process.ts", import.meta.url), {});
  const command = async (message: LoadPlan | "run"): Promise<LoadReply> => {
    const reply = (await ask(child, message)) as LoadReply;
    if (reply.error !== undefined) throw new Error(reply.error);
    return reply;
  };
  return {
    async run(plan, pid) {
      await command(plan);
      const tree = treeOf([pid]);
      const used = (): number => tree.reduce((sum, each) => sum + cpuOf(each), 0);
      const before = used();
      const { holding = 0 } = await command("run");
      return { cpu: (used() - before) / 1_000 / plan.count, holding };
    },
    stop: () => stop(child),
  };
}

export interface Asked {
  readonly path: string;
  /** Name, value, … */
  readonly fields?: readonly string[];
  /** Sent by POST. */
  readonly body?: string;
}

/** Heads as wallets send them: Node's fetch, axios, Go, a browser. */
export const AGENTS: readonly (readonly string[])[] = [
  ["user-agent", "node", "accept", "application/json", "accept-language", "*", "sec-fetch-mode", "cors"],
  ["user-agent", "axios/1.7.9", "accept", "application/json, text/plain, */*"],
  ["user-agent", "Go-http-client/1.1"],
  ["user-agent", "Mozilla/5.0 (X11; Linux x86_64) Chrome/142.0", "accept", "*/*", "accept-language", "de-CH,de;q=0.9"],
];

function headOf({ fields = [], body }: Asked, agent: readonly string[]): string[] {
  const all = ["host", "registry.example", "content-type", "application/json", ...agent, ...fields];
  return body === undefined ? all : [...all, "content-length", String(Buffer.byteLength(body))];
}

/** The whole request as text, without a content coding. */
export function requestText(asked: Asked, agent = AGENTS[0]!): string {
  const head = headOf(asked, agent).map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  return `${asked.body === undefined ? "GET" : "POST"} ${asked.path} HTTP/1.1\r\n${head.join("")}\r\n${asked.body ?? ""}`;
}

const OF_THE_CONNECTION = new Set(["connection", "keep-alive", "transfer-encoding"]);

/** Gets an answer and keeps it, to be sent by another server byte for byte. */
export function capture(port: number, asked: Asked): Promise<Canned> {
  return new Promise((resolve, reject) => {
    const options = { port, host: "127.0.0.1", path: asked.path, headers: headOf(asked, AGENTS[0]!), agent: false };
    const sent = httpRequest(options, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.once("error", reject);
      response.once("end", () => {
        const { rawHeaders, statusCode: status = 0 } = response;
        const isKept = (at: number): boolean => !OF_THE_CONNECTION.has(rawHeaders[at - (at % 2)]!.toLowerCase());
        const fields = rawHeaders.filter((_text, at) => isKept(at));
        resolve({ status, fields, body: Buffer.concat(chunks).toString("base64") });
      });
    });
    sent.setTimeout(30_000, () => sent.destroy(new Error(`no answer to ${asked.path}`)));
    sent.once("error", reject);
    sent.end();
  });
}
