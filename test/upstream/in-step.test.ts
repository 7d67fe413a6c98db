import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { StepRecord } from "../../src/upstream/wire/step-record.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { startRawServer } from "../support/raw-server.ts";
import { callUnderStrays, startStrayRegistry } from "../support/stray-registry.ts";
import { acceptCall, ADMIN, inTime, listCall, openUpstream } from "../support/upstream-registries.ts";

const INTERIM = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";

function answer(body: unknown): string {
  const text = JSON.stringify(body);
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
}

const instrument = (id: string) => ({ id, name: id, symbol: "S", decimals: 2, supportedApis: {} });

function instrumentCall(id: string) {
  return listCall({ operation: "instrument", path: `/registry/metadata/v1/instruments/${id}`, instrument: id });
}

/** A registry that tells its info, and to whose other requests `serve` writes the answers. */
async function openServed(serve: (path: string, socket: Socket) => void, keys: Record<string, unknown> = {}) {
  let last: Socket | undefined;
  const server = await startRawServer((socket) => {
    socket.on("data", (chunk: Buffer) => {
      const path = chunk.toString("latin1").split(" ")[1]!;
      if (path.endsWith("/info")) socket.write(answer({ adminId: ADMIN, supportedApis: {} }));
      else {
        last = socket;
        serve(path, socket);
      }
    });
  });
  const opened = openUpstream([`http://127.0.0.1:${server.port}`], keys);
  await opened.upstream.learnAdmin(inTime(5_000));
  /** What it writes where it answered last. */
  const write = (text: string) => last!.write(text);
  return { ...opened, server, write };
}

const own = (path: string, socket: Socket) =>
  socket.write(
    answer(path.includes("/instruments/") ? instrument(path.split("/").at(-1)!) : { choiceContextData: {} }),
  );

/** What has been written has arrived. */
async function arrived(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

test("a registry that answers once too often gives no instrument and no info to another request", async () => {
  const registry = await startStrayRegistry({ share: 0.01, strays: ["extra", "doubled", "early"] });
  const { upstream, observer } = openUpstream([registry.url]);
  await upstream.learnAdmin(inTime(5_000));
  const counts = await callUnderStrays(upstream, { requests: 1_500, concurrency: 16 });
  expect(counts).toMatchObject({ wrongInstruments: 0, wrongInfos: 0 });
  expect(counts.wrongPages + counts.wrongContexts).toBeLessThan(15);
  expect(observer.count("out-of-step")).toBeGreaterThan(0);
});

describe("bytes that nobody asked for", () => {
  test("close the connection, and what came over it a moment ago is forgotten", async () => {
    const { upstream, observer, write } = await openServed(own);
    const { origin } = await upstream.call(instrumentCall("a"));
    const forgotten: string[] = [];
    origin!.recentAnswers.add(() => forgotten.push("a"));
    write(answer(instrument("a")));
    await expect.poll(() => forgotten).toEqual(["a"]);
    expect(observer.count("out-of-step amulet unasked")).toBe(1);
    expect(upstream.status().nodes[0]!.outOfStep).toBe(1);
  });

  test("behind an answer, in the same write, are none of the next one's", async () => {
    let extra = answer(instrument("stray"));
    const { upstream, observer } = await openServed((path, socket) => {
      own(path, socket);
      socket.write(extra);
      extra = "";
    });
    expect((await upstream.call(instrumentCall("a"))).content?.instrument).toBe("a");
    expect((await upstream.call(instrumentCall("b"))).content?.instrument).toBe("b");
    expect(observer.count("out-of-step amulet unasked")).toBe(1);
  });

  test("are no fault where they say that the server has waited long enough", async () => {
    const { upstream, observer, server } = await openServed(own);
    await upstream.call(instrumentCall("a"));
    for (const socket of server.sockets) {
      socket.end("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    }
    await expect.poll(() => server.sockets.size).toBe(0);
    await arrived();
    expect(observer.count("out-of-step")).toBe(0);
  });

  test("have POSTs of the next hour go over connections that carried no call", async () => {
    const uses = new Map<Socket, number>();
    const { upstream, observer, write } = await openServed((path, socket) => {
      uses.set(socket, (uses.get(socket) ?? 0) + 1);
      own(path, socket);
    });
    const most = async (call: () => ReturnType<typeof acceptCall>) => {
      uses.clear();
      for (let i = 0; i < 6; i++) await upstream.call(call());
      return Math.max(...uses.values());
    };
    const disturb = async (times: number) => {
      await upstream.call(instrumentCall("a"));
      write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
      await expect.poll(() => observer.count("out-of-step")).toBe(times);
    };
    expect(await most(acceptCall)).toBeGreaterThan(1);
    await disturb(1);
    expect(await most(acceptCall)).toBe(1);
    expect(await most(() => instrumentCall("a"))).toBeGreaterThan(1);
  });
});

describe("an instrument of another id", () => {
  test("is tried again over a new connection, and is its node's fault where that has the right one", async () => {
    let isOff = true;
    const { upstream, observer } = await openServed((path, socket) => {
      own(isOff ? "/instruments/other" : path, socket);
      isOff = false;
    });
    expect((await upstream.call(instrumentCall("a"))).content?.instrument).toBe("a");
    expect(observer.count("out-of-step amulet another")).toBe(1);
  });

  test("that the registry gives each time is 502, and no fault of its connections: clients choose ids", async () => {
    const { upstream, observer } = await openServed((_path, socket) => own("/instruments/Other", socket));
    await expect(upstream.call(instrumentCall("other"))).rejects.toMatchObject({
      status: 502,
      code: "upstream_invalid",
    });
    expect(observer.count("out-of-step")).toBe(0);
  });
});

describe("interim answers", () => {
  test("before an answer are skipped", async () => {
    const { upstream } = await openServed((path, socket) => {
      socket.write(INTERIM.repeat(20));
      own(path, socket);
    });
    expect((await upstream.call(instrumentCall("a"))).status).toBe(200);
  });

  test("without end are a failure of the node, at the twenty-first", async () => {
    let written = 0;
    const { upstream } = await openServed(
      (_path, socket) => {
        const timer = setInterval(() => {
          written += 10;
          if (!socket.write(INTERIM.repeat(10)) || socket.destroyed) clearInterval(timer);
        }, 1);
        socket.on("close", () => clearInterval(timer));
      },
      { retry: { attempts: 1 } },
    );
    await expect(upstream.call(instrumentCall("a"))).rejects.toMatchObject({ status: 502 });
    expect(written).toBeLessThan(200);
  });
});

describe("an answer is too early", () => {
  function recordOf(trips: readonly number[]): StepRecord {
    const clock = new ManualClock();
    const record = new StepRecord(clock, () => undefined);
    for (const trip of trips) {
      record.noteTrip(trip);
      clock.advance(1_000);
    }
    return record;
  }

  test("within half of the shortest of several handshakes", () => {
    expect(recordOf([80, 40, 41, 300]).leastAnswerTime).toBe(20);
  });

  test.each([
    ["after one handshake, which the process itself may have held up", [40]],
    ["where the node is next door", [1.5, 60, 60, 60]],
  ])("never %s", (_when, trips) => {
    expect(recordOf(trips).leastAnswerTime).toBe(0);
  });
});
