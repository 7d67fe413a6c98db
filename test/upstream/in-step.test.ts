import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import type { Poll, UpstreamCall } from "../../src/upstream/call.ts";
import { Http1Connection } from "../../src/upstream/wire/http1-connection.ts";
import { StepLog, StepRecord } from "../../src/upstream/wire/in-step.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { startRawServer } from "../support/raw-server.ts";
import { callUnderStrays, startStrayRegistry } from "../support/stray-registry.ts";
import { ShiftedClock } from "../support/shifted-clock.ts";
import { acceptCall, ADMIN, inTime, listCall, openUpstream, startRegistry } from "../support/upstream-registries.ts";

const INTERIM = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";

function answer(body: unknown): string {
  const text = JSON.stringify(body);
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
}

function notFound(text: string): string {
  const body = JSON.stringify({ error: text });
  return `HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

function plainNotFound(text: string): string {
  return `HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
}

const instrument = (id: string) => ({ id, name: id, symbol: "S", decimals: 2, supportedApis: {} });

function instrumentCall(id: string) {
  return listCall({ operation: "instrument", path: `/registry/metadata/v1/instruments/${id}`, instrument: id });
}

/** A registry that tells its info, and to whose other requests `serve` writes the answers. */
async function openServed(
  serve: (path: string, socket: Socket) => unknown,
  keys: Record<string, unknown> = {},
  onInfo: (socket: Socket) => void = () => undefined,
) {
  let last: Socket | undefined;
  const server = await startRawServer((socket) => {
    socket.on("data", (chunk: Buffer) => {
      const path = chunk.toString("latin1").split(" ")[1]!;
      if (path.endsWith("/info")) onInfo(socket);
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

/** The same, with what was asked over which connection. It answers `together` requests at once. */
async function openDisturbed() {
  let together = 1;
  const waiting: (() => void)[] = [];
  const asked: { socket: Socket; kind: string; before: number }[] = [];
  const uses = new Map<Socket, number>();
  const note = (socket: Socket, kind: string) => {
    asked.push({ socket, kind, before: uses.get(socket) ?? 0 });
    uses.set(socket, (uses.get(socket) ?? 0) + 1);
  };
  const opened = await openServed(
    (path, socket) => {
      note(socket, path.includes("choice-contexts") ? "POST" : "GET");
      waiting.push(() => own(path, socket));
      if (waiting.length >= together) for (const each of waiting.splice(0)) each();
    },
    { retry: { attempts: 1 } },
    (socket) => note(socket, "info"),
  );
  const disturb = async (times: number) => {
    await opened.upstream.call(instrumentCall("a"));
    opened.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    await expect.poll(() => opened.observer.count("out-of-step")).toBe(times);
  };
  const answerTogether = (count: number) => {
    together = count;
  };
  return { ...opened, asked, disturb, answerTogether };
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
  const registry = await startStrayRegistry({ share: 0.02, strays: ["extra", "doubled", "early"] });
  const { upstream, observer } = openUpstream([registry.url]);
  await upstream.learnAdmin(inTime(5_000));
  const counts = await callUnderStrays(upstream, { requests: 500, concurrency: 16 });
  expect(counts).toMatchObject({ wrongInstruments: 0, wrongInfos: 0 });
  expect(counts.wrongPages + counts.wrongContexts).toBeLessThan(15);
  expect(observer.count("out-of-step")).toBeGreaterThan(0);
});

describe("bytes that nobody asked for", () => {
  test("close the connection, and what came over it a moment ago is forgotten", async () => {
    const { upstream, observer, write } = await openServed(own);
    const { origin } = await upstream.call(instrumentCall("a"));
    const forgotten: string[] = [];
    origin!.whenStray(() => forgotten.push("a"));
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

  test("have the info asked first over a connection that is to carry a POST of the next hour", async () => {
    const { upstream, disturb, asked } = await openDisturbed();
    asked.length = 0;
    await upstream.call(acceptCall());
    await upstream.call(acceptCall());
    expect(asked.splice(0).map(({ kind }) => kind)).toEqual(["POST", "POST"]);
    await disturb(1);
    asked.length = 0;
    for (let i = 0; i < 4; i++) await upstream.call(acceptCall());
    for (const { socket, kind, before } of asked) {
      if (kind === "POST" && before > 0)
        expect(asked.some((each) => each.socket === socket && each.kind === "info")).toBe(true);
    }
    expect(asked.filter(({ kind }) => kind === "info").length).toBeGreaterThan(0);
    asked.length = 0;
    for (let i = 0; i < 4; i++) await upstream.call(instrumentCall("a"));
    expect(asked.map(({ kind }) => kind)).toEqual(["GET", "GET", "GET", "GET"]);
  });

  test("three times in an hour have each call go over a connection of its own, and none wait for another", async () => {
    const { upstream, disturb, asked, answerTogether } = await openDisturbed();
    for (let times = 1; times <= 3; times++) await disturb(times);
    asked.length = 0;
    answerTogether(12);
    await Promise.all(Array.from({ length: 12 }, () => upstream.call(acceptCall())));
    const calls = asked.filter(({ kind }) => kind === "POST");
    expect(calls).toHaveLength(12);
    expect(new Set(calls.map(({ socket }) => socket)).size).toBe(12);
  });

  test("three times in an hour have the node used last, and an hour later like any other", async () => {
    const clock = new ShiftedClock();
    const well = await startRegistry({ clock });
    let last: Socket | undefined;
    const server = await startRawServer((socket) => {
      socket.on("data", (chunk: Buffer) => {
        const path = chunk.toString("latin1").split(" ")[1]!;
        if (path.endsWith("/info")) socket.write(answer({ adminId: ADMIN, supportedApis: {} }));
        else own(path, (last = socket));
      });
    });
    const urls = [`http://127.0.0.1:${server.port}`, well.url];
    const { upstream, upstreams, observer } = openUpstream(urls, { hedge: { enabled: false } }, { clock });
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    const ask = (poll?: Poll) => upstream.call(acceptCall({ deadline: clock.now() + 5_000, poll }));
    const nodesOf = async () => {
      const answers = await Promise.all(Array.from({ length: 12 }, () => ask()));
      return new Set(answers.map(({ node }) => node));
    };
    for (let times = 1; times <= 3; times++) {
      await ask({ asked: new Set(), only: 0, node: undefined });
      last!.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
      await expect.poll(() => observer.count("out-of-step")).toBe(times);
    }
    expect(await nodesOf()).toEqual(new Set([1]));
    await well.kill();
    await expect.poll(async () => (await ask()).node).toBe(0);
    await well.revive();
    clock.advance(3_600_001);
    await expect.poll(nodesOf).toEqual(new Set([0, 1]));
  });

  test("together with the answer, in one read, make it none: it could be the one behind it", async () => {
    let stray = "";
    const { upstream, observer } = await openServed((path, socket) => {
      const right = answer({ choiceContextData: { values: { asked: path } } });
      socket.write(stray + right);
      stray = "";
    });
    stray = answer({ choiceContextData: { values: { asked: "another" } } });
    const { body } = await upstream.call(acceptCall());
    expect(body.toString()).toContain("choice-contexts/accept");
    expect(observer.count("out-of-step amulet unasked")).toBe(1);
  });
});

describe("what came over a connection since it was last surely in step", () => {
  test("is forgotten, and no more: an instrument that was asked for by its own id shows that all before was in step", async () => {
    const { upstream, write } = await openServed(own);
    const forgotten: string[] = [];
    const ask = async (id: string) =>
      (await upstream.call(instrumentCall(id))).origin!.whenStray(() => forgotten.push(id));
    await ask("a");
    await ask("b");
    await ask("b");
    await ask("c");
    await upstream.call(acceptCall());
    write(answer(instrument("c")));
    await expect.poll(() => forgotten.length).toBeGreaterThan(0);
    expect(forgotten).not.toContain("a");
  });

  test.each<[string, readonly string[], readonly string[]]>([
    ["all of it, where nothing was confirmed", ["page", "page 2"], ["page", "page 2"]],
    ["nothing before a name that is the first of its kind", ["page", "a!", "page 2", "b!"], ["b"]],
    ["nor where the same name was asked before", ["a!", "page", "a!"], ["a", "page", "a"]],
  ])("%s", (_what, asked, expected) => {
    const log = new StepLog({ close: () => undefined, leaveStep: () => undefined });
    const forgotten: string[] = [];
    for (const each of asked) {
      const name = each.replace("!", "");
      const exchange = log.begin("GET", `/registry/metadata/v1/instruments/${encodeURIComponent(name)}`);
      exchange.whenStray(() => forgotten.push(name));
      if (each.endsWith("!")) exchange.confirm();
    }
    log.forgetAll();
    expect(forgotten).toEqual(expected);
  });
});

describe("a 404", () => {
  test.each([
    ["Gold", "Silver", notFound],
    ["USDCx", "USD", notFound],
    ["cBTC", "BTC", notFound],
    ["Gold", "Silver", plainNotFound],
  ])(
    "whose text has %s, asked for before over the same connection, and not the own %s, is not the answer",
    async (other, id, write) => {
      let stray = "";
      const { upstream, observer } = await openServed((path, socket) => {
        if (stray === "") return own(path, socket);
        socket.write(stray);
        stray = "";
        return true;
      });
      // Over each of the two connections that there are.
      for (let i = 0; i < 2; i++) await upstream.call(instrumentCall(other));
      stray = write(`No instrument with id ${other} found`);
      expect((await upstream.call(instrumentCall(id))).content?.instrument).toBe(id);
      expect(observer.count("out-of-step amulet another")).toBe(1);
    },
  );

  test.each([
    "No instrument with id Silver found",
    "No such instrument",
    "No instrument with id Golden found",
    "Silvery Gold: no Silver",
  ])("that says %j is", async (text) => {
    let isGone = false;
    const { upstream } = await openServed((path, socket) =>
      isGone ? socket.write(notFound(text)) : own(path, socket),
    );
    await upstream.call(instrumentCall("Gold"));
    isGone = true;
    expect((await upstream.call(instrumentCall("Silver"))).status).toBe(404);
  });

  // Such a path made each later 404 over its connection a 500.
  test.each([
    ["/registry/foo/v1/x?a=/instruments/%zz", "No such instrument"],
    ["/registry/foo/v1/instruments/%zz", "No such instrument"],
    ["/registry/foo/v1/x?a=/instruments/Gold", "No instrument with id Gold found"],
  ])("is told by nothing that a client writes, such as %s", (path, text) => {
    const log = new StepLog({ close: () => undefined, leaveStep: () => undefined });
    log.begin("GET", path);
    expect(log.begin("GET", "/registry/metadata/v1/instruments/Silver").namesAnother(text)).toBe(false);
  });
});

describe("ids that are words of a registry's own 404s", () => {
  /** A registry that has nothing. */
  const openEmpty = (text: string, keys: Record<string, unknown> = {}) =>
    openServed(
      (_path, socket) =>
        socket.write(`HTTP/1.1 404 Not Found\r\ncontent-type: a/b\r\ncontent-length: ${text.length}\r\n\r\n${text}`),
      keys,
    );
  const contextCall = (id: string) =>
    acceptCall({ path: `/registry/transfer-instruction/v1/${id}/choice-contexts/accept` });

  test.each<[string, string, readonly UpstreamCall[], UpstreamCall]>([
    [
      "where they name no id",
      '{"error":"Instrument not found"}',
      [instrumentCall("Instrument"), instrumentCall("Instrument")],
      instrumentCall("None0"),
    ],
    [
      "where the own one is short",
      '{"error":"Transfer instruction x not found"}',
      [contextCall("Transfer"), contextCall("Transfer")],
      contextCall("x"),
    ],
    [
      "where the gateway words them, with the alias of the registry",
      "no such endpoint",
      [instrumentCall("amulet"), instrumentCall("amulet")],
      acceptCall({
        operation: "transfer_accept_v2",
        path: "/registry/transfer-instruction/v2/00aa/choice-contexts/accept",
      }),
    ],
  ])("are no fault of a connection, %s", async (_where, text, before, call) => {
    const { upstream, observer } = await openEmpty(text);
    for (let round = 0; round < 3; round++) {
      // Over each of the two connections that there are.
      for (const each of before) await upstream.call(each);
      expect((await upstream.call(call)).status).toBe(404);
    }
    expect(observer.count("out-of-step")).toBe(0);
  });

  test("have no sound node distrusted or struck out where another words them differently", async () => {
    const nodes = [(_id: string) => "Instrument not found", (id: string) => `No instrument with id ${id} found`];
    const servers = await Promise.all(
      nodes.map((word) =>
        startRawServer((socket) => {
          socket.on("data", (chunk: Buffer) => {
            const path = chunk.toString("latin1").split(" ")[1]!;
            const isInfo = path.endsWith("/info");
            socket.write(
              isInfo ? answer({ adminId: ADMIN, supportedApis: {} }) : notFound(word(path.split("/").at(-1)!)),
            );
          });
        }),
      ),
    );
    const { upstream, upstreams, observer } = openUpstream(servers.map(({ port }) => `http://127.0.0.1:${port}`));
    upstreams.start();
    await expect.poll(() => upstream.status().nodes.map(({ state }) => state)).toEqual(["up", "up"]);
    for (let round = 0; round < 60; round++) {
      const id = round % 7 === 6 ? `None${round}` : "Instrument";
      expect((await upstream.call(instrumentCall(id))).status).toBe(404);
    }
    expect(observer.count("out-of-step")).toBe(0);
    expect(upstream.status().nodes.map(({ state }) => state)).toEqual(["up", "up"]);
  });

  test.each([
    ["fails", "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n", 500],
    ["says it in plain text", plainNotFound("Not found"), 404],
    ["names no id", notFound("No such instrument"), 404],
  ])(
    "are no fault where the same request %s over a new connection, and are forgotten",
    async (_how, second, status) => {
      let asked = 0;
      const { upstream, observer } = await openServed((path, socket) => {
        if (path.endsWith("/None0")) asked += 1;
        socket.write(asked === 2 ? second : notFound("Instrument not found"));
      });
      const forgotten: string[] = [];
      for (let i = 0; i < 2; i++) {
        (await upstream.call(instrumentCall("Instrument"))).origin!.whenStray(() => forgotten.push("Instrument"));
      }
      expect((await upstream.call(instrumentCall("None0"))).status).toBe(status);
      expect(observer.count("out-of-step")).toBe(0);
      expect(forgotten).toEqual(["Instrument"]);
    },
  );

  test("acquit no instrument that was another request's answer", async () => {
    let stray = "";
    const { upstream, observer } = await openServed((path, socket) => {
      const isGold = path.endsWith("/Gold");
      socket.write(stray || (isGold ? answer(instrument("Gold")) : notFound("Instrument not found")));
      stray = "";
    });
    const forgotten: string[] = [];
    // Over each of the two connections that there are.
    for (const id of ["Instrument", "Instrument", "Gold", "Gold"]) {
      (await upstream.call(instrumentCall(id))).origin!.whenStray(() => forgotten.push(id));
    }
    stray = answer(instrument("Gold"));
    expect((await upstream.call(instrumentCall("None0"))).status).toBe(404);
    expect(observer.count("out-of-step amulet another")).toBe(1);
    expect(forgotten).toEqual(["Gold"]);
  });

  test.each([
    ["may not be", { retry: { attempts: 1 } }],
    ["cannot be", { rateLimit: { requests: 5, per: "1m", maxWait: "0s" } }],
    ["is in vain", { retry: { attempts: 2 } }],
  ])("have the 404 given where it %s asked for again, and kept nowhere", async (_why, keys) => {
    let isAsked = false;
    const { upstream, observer } = await openServed((path, socket) => {
      if (isAsked) return socket.destroy();
      isAsked = path.endsWith("/None0");
      return socket.write(notFound("Instrument not found"));
    }, keys);
    for (let i = 0; i < 2; i++) await upstream.call(instrumentCall("Instrument"));
    const { status, body, origin } = await upstream.call(instrumentCall("None0"));
    expect([status, body.toString()]).toEqual([404, '{"error":"Instrument not found"}']);
    const forgotten: string[] = [];
    origin!.whenStray(() => forgotten.push("None0"));
    expect(forgotten).toEqual(["None0"]);
    expect(observer.count("out-of-step")).toBe(0);
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

describe("what came over a connection before another request's answer", () => {
  // What was another's stayed in the cache for its lifetime.
  test.each([
    ["an instrument of another id", answer(instrument("Gold"))],
    ["a 404 that names another id", notFound("No instrument with id Gold found")],
  ])("is forgotten where the client goes before %s was asked about once more", async (_what, stray) => {
    const client = new AbortController();
    let asked = 0;
    const { upstream } = await openServed((path, socket) => {
      if (!path.endsWith("/Silver")) return own(path, socket);
      asked += 1;
      return asked === 1 ? socket.write(stray) : client.abort();
    });
    const forgotten: string[] = [];
    // Over each of the two connections that there are.
    for (const each of [instrumentCall("Gold"), instrumentCall("Gold"), acceptCall(), acceptCall()]) {
      (await upstream.call(each)).origin!.whenStray(() => forgotten.push(each.operation));
    }
    const left = upstream.call({ ...instrumentCall("Silver"), signal: client.signal });
    await expect(left).rejects.toMatchObject({ code: "client_gone" });
    expect(asked).toBe(2);
    expect(forgotten).toEqual(["instrument", "transfer_accept"]);
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
    expect(recordOf([80, 40, 41, 300]).leastAnswerTime(300)).toBe(20);
  });

  // One name led to machines near and far, and a kept connection to a near one was closed after eight to far ones.
  test("by the handshake of its own connection, where the node has others that are farther", async () => {
    const server = await startRawServer(() => undefined);
    const clock = new ManualClock();
    const steps = recordOf(Array(8).fill(80));
    const open = async (trip: number) => {
      const socket = connect(server.port, "127.0.0.1");
      await once(socket, "connect");
      const target = { origin: `http://127.0.0.1:${server.port}`, connectTimeout: 1_000, tls: () => ({}), steps, trip };
      return new Http1Connection(socket, target, clock, () => undefined);
    };
    const [near, far] = [await open(8), await open(80)];
    for (const each of [near, far]) each.asked("GET", "/");
    const early = () => [near, far].map(({ isTooEarly }) => isTooEarly);
    expect(early()).toEqual([true, true]);
    clock.advance(15);
    expect(early()).toEqual([false, true]);
    clock.advance(30);
    expect(early()).toEqual([false, false]);
    for (const each of [near, far]) each.destroy();
  });

  test.each([
    ["after one handshake, which the process itself may have held up", [40]],
    ["where the node is next door", [1.5, 60, 60, 60]],
  ])("never %s", (_when, trips) => {
    expect(recordOf(trips).leastAnswerTime(60)).toBe(0);
  });
});
