import type { Socket } from "node:net";
import { mulberry32, type Random } from "../../src/sandbox/random.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import { startRawServer } from "./raw-server.ts";
import { acceptCall, ADMIN, inTime, listCall } from "./upstream-registries.ts";

/**
 * What a registry does now and then: `extra`, it answers once more some milliseconds later; `doubled`, it answers twice in
 * one write; `early`, it answers what nobody asked; `cut`, it leaves half of an answer out and goes on.
 */
export type Stray = "extra" | "doubled" | "early" | "cut";

export interface StrayOptions {
  readonly seed?: number;
  /** Share of the answers with which it happens. */
  readonly share: number;
  readonly strays: readonly Stray[];
  /** Longest time for an answer, milliseconds. */
  readonly latency?: number;
}

export interface StrayRegistry {
  readonly url: string;
  readonly counts: { answers: number; strays: number; connections: number };
  /** It answers as it should from now on. */
  behave(): void;
  stop(): Promise<void>;
}

/** A registry over bare TCP whose every answer names what was asked, and which strays. */
export async function startStrayRegistry({
  seed = 1,
  share,
  strays,
  latency = 4,
}: StrayOptions): Promise<StrayRegistry> {
  const random = mulberry32(seed);
  const counts = { answers: 0, strays: 0, connections: 0 };
  let isOn = true;
  const server = await startRawServer((socket) => {
    counts.connections += 1;
    readRequests(socket, (method, path) => {
      const text = answerTo(method, path);
      setTimeout(() => {
        counts.answers += 1;
        const isStray = isOn && !path.endsWith("/info") && random() < share;
        if (!isStray) return void socket.write(text);
        counts.strays += 1;
        stray(socket, text, { random, how: strays[Math.floor(random() * strays.length)]! });
      }, random() * latency);
    });
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    counts,
    behave(): void {
      isOn = false;
    },
    stop: () => server.stop(),
  };
}

function stray(socket: Socket, text: string, { random, how }: { random: Random; how: Stray }): void {
  if (how === "doubled") socket.write(text + text);
  else if (how === "cut") socket.write(text.slice(0, text.length / 2));
  else if (how === "early") socket.write(text + answerTo("GET", "/registry/metadata/v1/instruments/nobody-asked"));
  else {
    socket.write(text);
    setTimeout(() => socket.write(text), random() * 12);
  }
}

/** Calls `asked` for each request that has arrived whole. */
function readRequests(socket: Socket, asked: (method: string, path: string) => void): void {
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
    for (;;) {
      const end = text.indexOf("\r\n\r\n");
      if (end === -1) return;
      const head = text.slice(0, end);
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (text.length < end + 4 + length) return;
      text = text.slice(end + 4 + length);
      const [method, path] = head.split(" ", 2);
      asked(method!, path!);
    }
  });
}

function answerTo(method: string, path: string): string {
  const text = bodyTo(method, path);
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
}

/** What it answers: each names what was asked. */
export function bodyTo(method: string, path: string): string {
  const last = decodeURIComponent(path.split("/").at(-1)!);
  let body: unknown;
  if (path.endsWith("/info")) body = { adminId: ADMIN, supportedApis: {} };
  else if (method === "POST") body = { choiceContextData: { values: { asked: path } }, disclosedContracts: [] };
  else if (path.includes("/instruments/")) body = instrument(last);
  else body = { instruments: [instrument(path)], nextPageToken: null };
  return JSON.stringify(body);
}

function instrument(id: string) {
  return { id, name: id, symbol: "S", decimals: 2, supportedApis: {} };
}

export interface StrayLoad {
  readonly requests: number;
  readonly concurrency: number;
  readonly seed?: number;
}

/** Instruments, pages and contexts that were asked for, by what came of them. */
export interface StrayCounts {
  /** Pages and contexts, which do not say what they are an answer to. */
  readonly askedForOthers: number;
  readonly right: number;
  readonly failed: number;
  readonly wrongInstruments: number;
  readonly wrongInfos: number;
  readonly wrongPages: number;
  readonly wrongContexts: number;
}

/** Calls `upstream` for instruments (half of them), pages, infos and contexts, each of its own name. */
export async function callUnderStrays(
  upstream: Upstream,
  { requests, concurrency, seed = 2 }: StrayLoad,
): Promise<StrayCounts> {
  const random = mulberry32(seed);
  const counts = {
    askedForOthers: 0,
    right: 0,
    failed: 0,
    wrongInstruments: 0,
    wrongInfos: 0,
    wrongPages: 0,
    wrongContexts: 0,
  };
  let next = 0;
  const one = async (index: number): Promise<void> => {
    const { kind, isRight, call } = questionOf(index, random());
    if (kind === "wrongPages" || kind === "wrongContexts") counts.askedForOthers += 1;
    try {
      const { status, body } = await upstream.call({ ...call, deadline: inTime(5_000) });
      if (status !== 200) counts.failed += 1;
      else if (isRight(JSON.parse(body.toString()))) counts.right += 1;
      else counts[kind] += 1;
    } catch {
      counts.failed += 1;
    }
  };
  const caller = async (): Promise<void> => {
    while (next < requests) await one(next++);
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
  return counts;
}

/** A call, and whether an answer is to that one. */
function questionOf(index: number, drawn: number) {
  if (drawn < 0.5) {
    const id = `token ${index}`;
    const path = `/registry/metadata/v1/instruments/${encodeURIComponent(id)}`;
    const call = listCall({ operation: "instrument", path, instrument: id });
    return { kind: "wrongInstruments" as const, call, isRight: (json: { id?: unknown }) => json.id === id };
  }
  if (drawn < 0.55) {
    const call = listCall({ operation: "info", path: "/registry/metadata/v1/info" });
    return { kind: "wrongInfos" as const, call, isRight: (json: { adminId?: unknown }) => json.adminId === ADMIN };
  }
  if (drawn < 0.7) {
    const path = `/registry/metadata/v1/instruments?pageToken=${index}`;
    const isRight = (json: { instruments?: { id: string }[] }) => json.instruments?.[0]?.id === path;
    return { kind: "wrongPages" as const, call: listCall({ path }), isRight };
  }
  const path = `/registry/transfer-instruction/v1/${index}/choice-contexts/accept`;
  const isRight = (json: { choiceContextData?: { values: { asked: string } } }) =>
    json.choiceContextData?.values.asked === path;
  return { kind: "wrongContexts" as const, call: acceptCall({ path }), isRight };
}
