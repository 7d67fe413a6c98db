import type { CannedAnswer } from "./canned-process.ts";
import { startProcess, stop } from "./child.ts";
import type { BenchServer } from "./server.ts";

/** Bare `node:http` that always sends `answer`. */
export function startBare(answer: CannedAnswer): Promise<BenchServer> {
  return startNode("bare node:http", "canned-process.ts", answer);
}

/** A plain Fastify with @fastify/http-proxy before `upstream`, all settings at their defaults. */
export function startHttpProxy(upstream: number): Promise<BenchServer> {
  return startNode("stock @fastify/http-proxy", "http-proxy-process.ts", { upstream: `http://127.0.0.1:${upstream}` });
}

/** `node:http` and undici's `dispatch` before `upstream`, answers read as JSON, and nothing else. */
export function startLeastProxy(upstream: number): Promise<BenchServer> {
  return startNode("least Node proxy", "least-proxy-process.ts", { upstream: `http://127.0.0.1:${upstream}` });
}

async function startNode(name: string, file: string, options: unknown): Promise<BenchServer> {
  const { child, port } = await startProcess(file, options);
  return { name, pid: child.pid!, port, stop: () => stop(child) };
}
