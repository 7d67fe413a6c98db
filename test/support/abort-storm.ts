import { connect } from "node:net";
import type { ThreeRegistries } from "./three-registries.ts";

const BASE = "/api/token-standard/v0/registrars/amulet/registry";
const JSON_HEAD = "Host: g\r\nContent-Type: application/json\r\n";
const CANCEL = `${BASE}/allocations/v1/00ab/choice-contexts/cancel`;

/** Requests that are given up, each in another state; `i` tells them apart. */
const KINDS: readonly ((i: number) => string)[] = [
  // A miss of its own, and one that all share.
  (i) => `GET ${BASE}/metadata/v1/instruments/abort-${i} HTTP/1.1\r\nHost: g\r\n\r\n`,
  () => `GET ${BASE}/metadata/v1/instruments/abort-shared HTTP/1.1\r\nHost: g\r\n\r\n`,
  () => `POST ${CANCEL} HTTP/1.1\r\n${JSON_HEAD}Content-Length: 2\r\n\r\n{}`,
  () => `GET ${BASE}/drafts/v1/x HTTP/1.1\r\nHost: g\r\n\r\n`,
  () => `POST ${BASE}/drafts/v1/x HTTP/1.1\r\n${JSON_HEAD}Content-Length: 2\r\n\r\n{}`,
  // Given up within the request: half a head, half a body, half a body that is streamed on.
  () => `GET ${BASE}/metadata/v1/info HTTP/1.1\r\nHost:`,
  () => `POST ${CANCEL} HTTP/1.1\r\n${JSON_HEAD}Content-Length: 200\r\n\r\n{"meta":`,
  () => `POST ${BASE}/drafts/v1/x HTTP/1.1\r\n${JSON_HEAD}Transfer-Encoding: chunked\r\n\r\n4\r\n{"me`,
  () => `POST ${BASE}/transfer-instruction/v2/transfer-factory HTTP/1.1\r\n${JSON_HEAD}Content-Length: 99\r\n\r\n{"c`,
  // Several at once on one connection.
  (i) => `GET ${BASE}/metadata/v1/instruments/abort-p${i} HTTP/1.1\r\nHost: g\r\n\r\n`.repeat(3),
];

/** What must be as it was, once nothing runs any more. */
export interface Remains {
  readonly sockets: number;
  readonly openCalls: number;
  readonly running: number;
  readonly queued: number;
  readonly inFlight: number;
}

export function remainsOf({ gateway, registries }: ThreeRegistries): Remains {
  const states = gateway.upstreams().all.map((upstream) => upstream.status());
  return {
    sockets: process.getActiveResourcesInfo().filter((kind) => kind === "TCPSocketWrap").length,
    openCalls: Object.values(registries).reduce((sum, { calls }) => sum + calls.open, 0),
    running: states.reduce((sum, { running }) => sum + running, 0),
    queued: states.reduce((sum, { queued }) => sum + queued, 0),
    inFlight: states.flatMap(({ nodes }) => nodes).reduce((sum, { inFlight }) => sum + inFlight, 0),
  };
}

/** Of {@link KINDS}, how many reach the registry whatever else runs, when they are not given up before. */
const SURE = 3;

/**
 * Sends `count` requests, of which no answer will come in time, and gives each of them up; `atATime` at a time. Every
 * other batch is given up at once, before the gateway has read it; the others when calls have reached the registry.
 */
export async function abortStorm(running: ThreeRegistries, count: number, atATime = 25): Promise<void> {
  const { amulet } = running.registries;
  const operations = ["instrument", "allocation_cancel", "pass_through"] as const;
  await amulet.faults.set({ kind: "hang", rate: 0.5, operations }, { kind: "hang-body", operations });
  for (let sent = 0; sent < count; sent += atATime) {
    const batch = Math.min(atATime, count - sent);
    const isPatient = (sent / atATime) % 2 === 1;
    const enough = amulet.calls.total + SURE * Math.floor(batch / KINDS.length);
    const reached = isPatient ? amulet.calls.reached(enough) : Promise.resolve();
    await Promise.all(Array.from({ length: batch }, (_none, i) => giveUp(running.url, sent + i, reached)));
  }
  await amulet.faults.clear();
}

/** Connects, sends a part of a conversation, and is gone: every other time with a reset. */
function giveUp(base: string, i: number, reached: Promise<void>): Promise<void> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(KINDS[i % KINDS.length]!(i), () => {
        void reached.then(() => (i % 2 === 0 ? socket.destroy() : socket.resetAndDestroy()));
      });
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
  });
}
