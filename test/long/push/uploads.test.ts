import { connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { ownError } from "../../support/own-error.ts";
import { firstAnswer } from "../../support/raw-connection.ts";
import { send } from "../../support/send.ts";
import { useThreeRegistries } from "../../support/three-registries.ts";

const running = useThreeRegistries({ upstreamKeys: { concurrency: { max: 200, queue: 0 } } });

const BASE = "/api/token-standard/v0/registrars/amulet/registry";
const CANCEL = `${BASE}/allocations/v1/00aa/choice-contexts/cancel`;
/** Its admin has to be read from its body before a byte goes on. */
const FACTORY_DRAFT = `${BASE}/transfer-instruction/v3/transfer-factory`;

/** By the registry, which has no such contract. */
const ANSWERED = 404;

const MIB = 1024 * 1024;
const SENT = 1_000_000;

interface Upload {
  readonly socket: Socket;
  text: string;
  isClosed: boolean;
}

const uploads: Upload[] = [];

afterEach(() => {
  for (const { socket } of uploads.splice(0)) socket.destroy();
});

/** Sends the head of a call and a megabyte of its body, but not the rest. */
function beginUpload(path: string): Promise<Upload> {
  const { hostname, port } = new URL(running().url);
  const socket = connect(Number(port), hostname);
  const upload: Upload = { socket, text: "", isClosed: false };
  uploads.push(upload);
  socket.on("data", (chunk: Buffer) => (upload.text += chunk.toString("latin1")));
  socket.on("error", () => undefined);
  socket.on("close", () => (upload.isClosed = true));
  const head = `POST ${path} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: ${MIB}\r\n\r\n`;
  return new Promise((resolve) => {
    socket.write(head + " ".repeat(SENT), "latin1", () => resolve(upload));
  });
}

const refused = () => uploads.filter(({ isClosed }) => isClosed).length;

test.each([
  ["calls", CANCEL],
  ["calls that are passed on once their admin is read", FACTORY_DRAFT],
])("where bodies of %s take more than 64 MiB, the one that is on its way longest is refused", async (_what, path) => {
  for (let i = 0; i < 67; i++) await beginUpload(path);
  // One that is complete is never given up, nor one that comes in one piece.
  const whole = `{"meta":${" ".repeat(900_000)}{}}`;
  expect((await send(running().url, { path: CANCEL, body: "{}" })).status).toBe(ANSWERED);
  expect(refused()).toBe(0);
  const [first, second] = uploads;
  expect((await send(running().url, { path: CANCEL, body: whole })).status).toBe(ANSWERED);
  await expect.poll(() => first!.isClosed).toBe(true);
  const { head, body } = firstAnswer({ text: first!.text, statuses: [], isClosed: true });
  expect(head).toContain("http/1.1 503");
  expect(head).toContain("retry-after: 1");
  expect(JSON.parse(body)).toEqual(ownError(/too many bodies/, { retryAfter: 1 }));
  expect(second!.isClosed).toBe(false);

  // The others are not hindered, and what they took is given back.
  const last = uploads.at(-1)!;
  last.socket.write(" ".repeat(MIB - SENT - 2) + "{}");
  await expect.poll(() => last.text).toMatch(/^HTTP\/1\.1 /);
  expect(last.text).not.toMatch(/^HTTP\/1\.1 503/);
  for (const { socket } of uploads.splice(0)) socket.destroy();
  for (let i = 0; i < 20; i++) await beginUpload(path);
  expect((await send(running().url, { path: CANCEL, body: whole })).status).toBe(ANSWERED);
  expect(refused()).toBe(0);
});
