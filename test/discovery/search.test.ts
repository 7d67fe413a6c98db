import type { ServerResponse } from "node:http";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { listOf, partyOf, usePublishers, useSearches } from "../support/discovery.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const startRegistry = useSampleRegistries();
const startPublisher = usePublishers();
const search = useSearches();
const folder = useTemporaryFolder();

const TLS = join(import.meta.dirname, "../fixtures/tls");
const ONE = partyOf("one");
const TWO = partyOf("two");

const pinFile = () => join(folder(), "pins.json");

/** A list with a registry in it, found by a search. */
async function findOne(keys: Record<string, unknown> = {}) {
  const registry = await startRegistry({ admin: ONE });
  const list = await startPublisher(listOf({ [ONE]: registry.url }));
  const block = { sources: [{ url: list.url, network: "MainNet" }], pinFile: pinFile(), ...keys };
  const scene = await search(block);
  await scene.search.run();
  return { registry, list, block, ...scene };
}

describe("a list", () => {
  test("that grows has its new registries used once they have proved their admin", async () => {
    const { registry, list, used, state, ...scene } = await findOne();
    expect(used()).toEqual({ [ONE]: [registry.url] });
    const other = await startRegistry({ admin: TWO });
    list.publish(listOf({ [ONE]: registry.url, [TWO]: other.url }));
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [registry.url], [TWO]: [other.url] });
    expect([state(ONE), state(TWO)]).toEqual(["pinned", "pinned"]);
  });

  test("proves each URL by itself, though several nodes have to name the admin before a registry is used", async () => {
    const [one, other] = [await startRegistry({ admin: ONE }), await startRegistry({ admin: ONE })];
    const list = await startPublisher(listOf({ [ONE]: [one.url, other.url] }));
    const defaults = { agreement: { admin: 2 } };
    const { used, ...scene } = await search({ sources: [{ url: list.url }], pinFile: pinFile(), defaults });
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [one.url, other.url].toSorted() });
  });

  test("that shrinks takes nothing away, and says so", async () => {
    const { registry, list, used, state, lines, ...scene } = await findOne();
    list.publish(listOf({}));
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "gone"]);
    expect(lines).toContainEqual(
      expect.objectContaining({ msg: "discovery source lists fewer registries", before: 1, after: 0 }),
    );
    expect(await scene.metrics()).toContain('registry_gateway_discovery_registries{state="gone"} 1');
    list.publish(listOf({ [ONE]: registry.url }));
    await scene.search.run();
    expect(state(ONE)).toBe("pinned");
  });

  test("that loses a registry has it taken away when an operator says so, and not back by itself", async () => {
    const { registry, list, used, state, ...scene } = await findOne();
    list.publish(listOf({}));
    await scene.search.run();
    expect(await scene.search.decide(ONE, true)).toEqual({ registry: null, reach: "replica" });
    expect(used()).toEqual({});
    list.publish(listOf({ [ONE]: registry.url }));
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{}, "waiting"]);
  });

  test("has a registry that was refused wait wherever else it is listed", async () => {
    const { list, used, state, ...scene } = await findOne({ approve: "none" });
    await scene.search.decide(ONE, false);
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{}, "found"]);
    const moved = await startRegistry({ admin: ONE });
    list.publish(listOf({ [ONE]: moved.url }));
    const again = await search({ sources: [{ url: list.url }], pinFile: pinFile(), approve: "new" });
    await again.search.run();
    expect([again.used(), again.state(ONE)]).toEqual([{}, "waiting"]);
  });

  test("with entries that are no good has the others used, and is no failing source", async () => {
    const registry = await startRegistry({ admin: ONE });
    const list = await startPublisher(listOf({ [ONE]: registry.url, "no party": registry.url, [TWO]: "ftp://x" }));
    const { used, ...scene } = await search({ sources: [{ url: list.url }], pinFile: pinFile() });
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [registry.url] });
    expect(scene.search.report().sources[0]).toMatchObject({ lastError: null, found: 1 });
    expect(await scene.metrics()).toContain('registry_gateway_discovery_runs_total{outcome="success"} 1');
  });

  test("that changes a URL waits, and the old one goes on being used until an operator approves", async () => {
    const { registry, list, used, state, lines, ...scene } = await findOne();
    const moved = await startRegistry({ admin: ONE });
    list.publish(listOf({ [ONE]: moved.url }));
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "waiting"]);
    expect(scene.search.report().registries[0]!.proposed).toMatchObject({ urls: [moved.url], source: "127.0.0.1" });
    expect(lines.filter(({ msg }) => msg === "registry waits for approval")).toHaveLength(1);
    await scene.search.decide(ONE, true);
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [moved.url] }, "pinned"]);
  });

  test("that changes a URL has it wait once it was asked, and not in between when it is asked again", async () => {
    const { list, state, ...scene } = await findOne();
    const moved = await startRegistry({ admin: ONE });
    list.publish(listOf({ [ONE]: moved.url }));
    for (const during of ["pinned", "waiting"]) {
      const [asked, held] = [Promise.withResolvers<void>(), Promise.withResolvers<{ status: number; body: string }>()];
      moved.script(() => {
        asked.resolve();
        return held.promise;
      });
      const run = scene.search.run();
      await asked.promise;
      expect(state(ONE)).toBe(during);
      held.resolve({ status: 500, body: "{}" });
      await run;
      expect(state(ONE)).toBe("waiting");
      expect(scene.search.report().registries[0]!.problem).toContain("500");
    }
    moved.script(undefined);
    await scene.search.run();
    await scene.search.decide(ONE, true, [moved.url]);
    expect(state(ONE)).toBe("pinned");
  });

  test("that changes a URL is not asked about again once the change was refused", async () => {
    const { registry, list, used, state, ...scene } = await findOne();
    const moved = await startRegistry({ admin: ONE });
    list.publish(listOf({ [ONE]: moved.url }));
    await scene.search.run();
    await scene.search.decide(ONE, false);
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "pinned"]);
    await expect(scene.search.decide(ONE, false)).rejects.toThrow(/nothing .* waits/);
    list.publish(listOf({ [ONE]: [moved.url, registry.url] }));
    await scene.search.run();
    expect(state(ONE)).toBe("waiting");
  });

  // Else who writes the list chooses what an operator approves: between the look and the word.
  test("that changes once more after an operator looked has nothing of it approved, refused or taken away", async () => {
    const { registry, list, used, ...scene } = await findOne();
    const [moved, attacker] = [await startRegistry({ admin: ONE }), await startRegistry({ admin: ONE })];
    list.publish(listOf({ [ONE]: attacker.url }));
    await scene.search.run();
    for (const seen of [[moved.url], [moved.url, attacker.url], [], ["junk"]]) {
      for (const approve of [true, false]) {
        await expect(scene.search.decide(ONE, approve, seen)).rejects.toMatchObject({ status: 409 });
      }
    }
    // What was seen waits no more, and approving it is not taking away what is gone.
    list.publish(listOf({}));
    await scene.search.run();
    await expect(scene.search.decide(ONE, true, [attacker.url])).rejects.toThrow(/has changed since you looked/);
    expect(used()).toEqual({ [ONE]: [registry.url] });
    list.publish(listOf({ [ONE]: [moved.url, registry.url] }));
    await scene.search.run();
    // Nor is taking it away approving what is listed again.
    await expect(scene.search.decide(ONE, true, [])).rejects.toMatchObject({ status: 409 });
    await scene.search.decide(ONE, true, [registry.url, moved.url, moved.url]);
    expect(used()).toEqual({ [ONE]: [moved.url, registry.url].toSorted() });
    list.publish(listOf({}));
    await scene.search.run();
    await scene.search.decide(ONE, true, []);
    expect(used()).toEqual({});
  });

  test("that names a URL of another admin does not have it used", async () => {
    const stranger = await startRegistry({ admin: TWO });
    const registry = await startRegistry({ admin: ONE });
    const list = await startPublisher(listOf({ [ONE]: stranger.url }));
    const { used, state, lines, ...scene } = await search({ sources: [{ url: list.url }], pinFile: pinFile() });
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{}, "found"]);
    expect(lines.map(({ msg }) => msg)).toContain("listed URL is another registry");
    await expect(scene.search.decide(ONE, true)).rejects.toThrow(/has proved this admin, and nothing is changed/);
    list.publish(listOf({ [ONE]: [stranger.url, registry.url] }));
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [registry.url] });
  });

  test.each([
    ["is cut off in its JSON", (list: string) => list.slice(0, -20), /cut off/],
    ["is HTML", () => "<!doctype html><p>Moved</p>", /web page/],
    ["is 10 MiB", (list: string) => list + " ".repeat(10 * 2 ** 20), /larger than the 4MiB/],
    ["is something else", () => '{"version":"1"}', /no networks/],
  ])("that %s changes nothing and is told as a fault", async (_about, spoil, fault) => {
    const { registry, list, used, state, lines, ...scene } = await findOne();
    list.publish(spoil(listOf({ [ONE]: registry.url })));
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "pinned"]);
    expect(scene.search.report().sources[0]).toMatchObject({ lastError: expect.stringMatching(fault), found: 1 });
    expect(lines.filter(({ msg }) => msg === "discovery source fails")).toHaveLength(1);
    list.publish(listOf({ [ONE]: registry.url }));
    await scene.search.run();
    expect(scene.search.report().sources[0]!.lastError).toBeNull();
  });

  test("that is cut off on the wire, redirected, coded or away changes nothing", async () => {
    const { registry, list, used, ...scene } = await findOne();
    const elsewhere = await startPublisher(listOf({ [ONE]: "http://127.0.0.1:1" }));
    const faults: string[] = [];
    for (const answer of [
      (response: ServerResponse) => {
        response.writeHead(200, { "content-length": 1000 }).write("{");
        setTimeout(() => response.destroy(), 20);
      },
      (response: ServerResponse) => response.writeHead(302, { location: elsewhere.url }).end(),
      (response: ServerResponse) => response.writeHead(404).end("gone"),
      (response: ServerResponse) => response.writeHead(404, { "content-encoding": "gzip" }).end("gone"),
      (response: ServerResponse) => response.writeHead(200, { "content-encoding": "gzip" }).end("coded"),
      (response: ServerResponse) => response.socket!.end("hello\r\n\r\n"),
    ]) {
      list.publish((response) => {
        answer(response);
      });
      await scene.search.run();
      faults.push(scene.search.report().sources[0]!.lastError!);
    }
    expect(faults).toEqual([
      "it was cut off",
      "it redirects (302), which is not followed",
      "it answered 404",
      "it answered 404",
      "it is encoded, though it was asked for as it is",
      expect.stringMatching(/^it cannot be fetched \(\w+\)$/),
    ]);
    expect([used(), elsewhere.asked]).toEqual([{ [ONE]: [registry.url] }, 0]);
  });

  test.each(["new", "all"])(
    "that goes back and forth changes nothing and fills no log (approve: %s)",
    async (approve) => {
      const { registry, list, used, lines, block, ...scene } = await findOne({ approve });
      const moved = await startRegistry({ admin: ONE });
      const before = readFileSync(block.pinFile, "utf8");
      for (let turn = 0; turn < 10; turn += 1) {
        list.publish(listOf({ [ONE]: turn % 2 === 0 ? moved.url : registry.url }));
        await scene.search.run();
        expect(used()).toEqual({ [ONE]: [registry.url] });
      }
      for (let turn = 0; turn < 10; turn += 1) {
        list.publish(turn % 2 === 0 ? listOf({}) : listOf({ [ONE]: registry.url }));
        await scene.search.run();
      }
      expect(readFileSync(block.pinFile, "utf8")).toBe(before);
      expect(lines.length).toBeLessThan(6);
    },
  );

  test("that stays changed is followed where all changes are approved", async () => {
    const { list, used, ...scene } = await findOne({ approve: "all" });
    const moved = await startRegistry({ admin: ONE });
    list.publish(listOf({ [ONE]: moved.url }));
    await scene.search.run();
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [moved.url] });
  });

  test("that was changed once and then cannot be read is not followed, though all changes are approved", async () => {
    const { registry, list, used, ...scene } = await findOne({ approve: "all" });
    const moved = await startRegistry({ admin: ONE });
    list.publish(listOf({ [ONE]: moved.url }));
    await scene.search.run();
    list.publish((response) => void response.writeHead(503).end());
    for (let i = 0; i < 3; i += 1) await scene.search.run();
    expect(used()).toEqual({ [ONE]: [registry.url] });
  });

  test("that writes a known admin in another case lists no new registry", async () => {
    const { registry, list, used, ...scene } = await findOne();
    const upper = ONE.replace(/::.*/s, (print) => print.toUpperCase());
    expect(upper).not.toBe(ONE);
    const stranger = await startRegistry({ admin: upper });
    list.publish(listOf({ [ONE]: registry.url, [upper]: stranger.url }));
    await scene.search.run();
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [registry.url] });
  });

  test.each<[what: string, approve: string]>([
    ["that names an admin in two cases", "new"],
    ["that names an admin in two cases, of which all would be used", "all"],
  ])("%s has an operator say which is the registry's", async (_what, approve) => {
    const upper = ONE.replace(/::.*/s, (print) => print.toUpperCase());
    const [registry, stranger] = [await startRegistry({ admin: ONE }), await startRegistry({ admin: upper })];
    const list = await startPublisher(listOf({ [upper]: stranger.url, [ONE]: registry.url }));
    const { used, state, ...scene } = await search({ sources: [{ url: list.url }], pinFile: pinFile(), approve });
    await scene.search.run();
    await scene.search.run();
    expect([used(), state(ONE), state(upper)]).toEqual([{}, "waiting", "waiting"]);
    expect(scene.search.report().registries[0]!.problem).toContain("an operator has to say");
    await scene.search.decide(ONE, true);
    expect(used()).toEqual({ [ONE]: [registry.url] });
  });

  test("that names an admin in another case first does not shut it out", async () => {
    const upper = ONE.replace(/::.*/s, (print) => print.toUpperCase());
    const [registry, stranger] = [await startRegistry({ admin: ONE }), await startRegistry({ admin: upper })];
    const list = await startPublisher(listOf({ [upper]: stranger.url }));
    const { used, state, ...scene } = await search({ sources: [{ url: list.url }], pinFile: pinFile() });
    await scene.search.run();
    list.publish(listOf({ [upper]: stranger.url, [ONE]: registry.url }));
    await scene.search.run();
    expect([state(upper), state(ONE)]).toEqual(["pinned", "waiting"]);
    await scene.search.decide(ONE, true);
    expect(used()).toMatchObject({ [ONE]: [registry.url] });
  });

  test("has nothing used by itself where nothing is approved by itself", async () => {
    const { registry, used, state, ...scene } = await findOne({ approve: "none" });
    expect([used(), state(ONE)]).toEqual([{}, "waiting"]);
    await scene.search.decide(ONE, true);
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "pinned"]);
  });

  test("with URLs that are known to be published wrongly has them mended, and says so", async () => {
    const registry = await startRegistry({ admin: ONE });
    const list = await startPublisher(listOf({ [ONE]: `${registry.url}/api/scan` }));
    const { used, lines, ...scene } = await search({ sources: [{ url: list.url }], pinFile: pinFile() });
    await scene.search.run();
    const mended = { from: `${registry.url}/api/scan`, to: registry.url };
    expect(used()).toEqual({ [ONE]: [registry.url] });
    expect(scene.search.report().registries[0]!.mended).toEqual([mended]);
    expect(lines).toContainEqual(expect.objectContaining({ msg: "registry URL mended", ...mended }));
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [registry.url] });
  });

  test("with a node that is down has it mended when it is back", async () => {
    const [up, down] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
    await down.stop();
    const list = await startPublisher(listOf({ [ONE]: [up.url, `${down.url}/api/scan`] }));
    const { used, ...scene } = await search({ sources: [{ url: list.url }], pinFile: pinFile() });
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [up.url, `${down.url}/api/scan`].toSorted() });
    await down.start();
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [up.url, down.url].toSorted() });
  });

  test("with hostile names makes aliases that are good as labels, unique and the same after a restart", async () => {
    const registries = await Promise.all(
      ["a b", "a-b", "--", "aggregate"].map((name) => startRegistry({ admin: partyOf(name) })),
    );
    const hostile = Object.fromEntries(registries.map(({ admin, url }) => [admin, url]));
    const list = await startPublisher(
      listOf({
        ...hostile,
        "x\u001b[31m::1220aa": "http://127.0.0.1:1",
        __proto__: "http://127.0.0.1:1",
        [`${"n".repeat(400)}::1220`]: "http://127.0.0.1:1",
      }),
    );
    const block = { sources: [{ url: list.url }], pinFile: pinFile() };
    const first = await search(block);
    await first.search.run();
    expect(first.names().toSorted()).toEqual(["a-b", "a-b-2", "aggregate-2", "registry"]);
    const second = await search(block);
    expect(second.names()).toEqual(first.names());
    expect(JSON.stringify(first.lines)).not.toContain("\\u001b");
  });

  test("with more registries than may be used leaves out the rest, and none that is used", async () => {
    const { registry, list, used, lines, ...scene } = await findOne({ max: 2 });
    const others = await Promise.all(["a", "b", "c"].map((name) => startRegistry({ admin: partyOf(name) })));
    const listed = Object.fromEntries(others.map(({ admin, url }) => [admin, url]));
    list.publish(listOf({ ...listed, [ONE]: registry.url }));
    await scene.search.run();
    expect(Object.keys(used())).toEqual([ONE, partyOf("a")]);
    expect(lines).toContainEqual(
      expect.objectContaining({ msg: "more registries are listed than discovery.max", listed: 4 }),
    );
  });

  test("of several networks without a choice is refused", async () => {
    const registry = await startRegistry({ admin: ONE });
    const asset = { instrumentId: { admin: ONE }, registryURLs: [registry.url] };
    const list = await startPublisher(JSON.stringify({ MainNet: [asset], TestNet: [asset] }));
    const { used, ...scene } = await search({ sources: [{ url: list.url }], pinFile: pinFile() });
    await scene.search.run();
    expect(used()).toEqual({});
    expect(scene.search.report().sources[0]!.lastError).toContain('several networks, "MainNet", "TestNet": choose one');
  });

  test("in a file is read again each time, and may vanish", async () => {
    const registry = await startRegistry({ admin: ONE });
    const file = join(folder(), "assets.json");
    const { used, state, ...scene } = await search({ sources: [{ file, network: "MainNet" }], pinFile: pinFile() });
    await scene.search.run();
    expect(scene.search.report().sources[0]).toMatchObject({ name: "assets.json", lastError: "there is no such file" });
    writeFileSync(file, listOf({ [ONE]: registry.url }));
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [registry.url] });
    unlinkSync(file);
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "pinned"]);
  });

  test("at an address that is not public is not read, and registries there are not asked", async () => {
    const registry = await startRegistry({ admin: ONE });
    const list = await startPublisher(
      listOf({ [ONE]: [registry.url.replace("127.0.0.1", "localhost"), registry.url] }),
    );
    const file = join(folder(), "assets.json");
    writeFileSync(file, listOf({ [ONE]: registry.url.replace("http://127.0.0.1", "https://localhost") }));
    const { used, ...scene } = await search({
      sources: [{ url: list.url }, { url: list.url.replace("127.0.0.1", "localhost") }, { file, network: "MainNet" }],
      pinFile: pinFile(),
      allowPrivate: false,
    });
    await scene.search.run();
    expect([used(), list.asked, registry.connections.accepted]).toEqual([{}, 0, 0]);
    const faults = scene.search.report().sources.map(({ lastError }) => lastError);
    expect(faults).toEqual([...Array(2).fill("it is at an address that is not public"), null]);
    expect(scene.search.report().registries[0]!.problem).toContain("at an address that is not public");
  });

  test("that names the admin of a written upstream is not used for it", async () => {
    const registry = await startRegistry({ admin: ONE });
    const list = await startPublisher(
      listOf({ [ONE.toUpperCase().replace("ONE", "one")]: registry.url, [ONE]: registry.url }),
    );
    const written = [{ name: "mine", admin: ONE }] as never;
    const { used, ...scene } = await search(
      { sources: [{ url: list.url }], pinFile: pinFile() },
      { written: () => written },
    );
    await scene.search.run();
    expect([used(), scene.search.report().registries]).toEqual([{}, []]);
  });
});

test("a registry with TLS that moves to another one, with a certificate as good, is not followed by itself", async () => {
  const tls = {
    cert: readFileSync(join(TLS, "server.pem"), "utf8"),
    key: readFileSync(join(TLS, "server-key.pem"), "utf8"),
  };
  const [registry, claims, stranger] = await Promise.all([ONE, ONE, TWO].map((admin) => startRegistry({ admin, tls })));
  const list = await startPublisher(listOf({ [ONE]: registry!.url }));
  const { used, state, ...scene } = await search({
    sources: [{ url: list.url }],
    pinFile: pinFile(),
    defaults: { tls: { caFile: join(TLS, "ca.pem") } },
  });
  await scene.search.run();
  expect(used()).toEqual({ [ONE]: [registry!.url] });
  for (const { url } of [claims!, stranger!]) {
    list.publish(listOf({ [ONE]: url }));
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry!.url] }, "waiting"]);
  }
  await expect(scene.search.decide(ONE, true)).rejects.toThrow(/has proved this admin/);
});

test("a registry whose certificate is not trusted is not used", async () => {
  const tls = {
    cert: readFileSync(join(TLS, "server.pem"), "utf8"),
    key: readFileSync(join(TLS, "server-key.pem"), "utf8"),
  };
  const registry = await startRegistry({ admin: ONE, tls });
  const list = await startPublisher(listOf({ [ONE]: registry.url }));
  const { used, ...scene } = await search({ sources: [{ url: list.url }], pinFile: pinFile() });
  await scene.search.run();
  expect([used(), scene.search.report().registries[0]!.problem]).toEqual([{}, expect.stringContaining("not trusted")]);
});

describe("pins", () => {
  test("hold over a restart, with the list away", async () => {
    const { registry, list, block } = await findOne();
    list.publish((response) => void response.writeHead(500).end());
    const { used, state, ...scene } = await search(block);
    expect(used()).toEqual({ [ONE]: [registry.url] });
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "pinned"]);
  });

  test("hold over a restart against a list that names an attacker's registry, which claims the same admin", async () => {
    const { registry, list, block } = await findOne();
    const attacker = await startRegistry({ admin: ONE });
    list.publish(listOf({ [ONE]: attacker.url }));
    const { used, state, ...scene } = await search(block);
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "waiting"]);
  });

  test("of a base that ends in /registry are read again, whatever else a list has", async () => {
    const registry = await startRegistry({ admin: ONE, basePath: "/registry" });
    const others = [`${registry.url}//api/scan`, `${registry.url}/${"x".repeat(2_048)}`];
    const list = await startPublisher(listOf({ [ONE]: [registry.url, ...others] }));
    const block = { sources: [{ url: list.url }], pinFile: pinFile() };
    const first = await search(block);
    await first.search.run();
    expect(first.used()).toEqual({ [ONE]: [registry.url] });
    const second = await search(block);
    expect([second.used(), second.search.report().pinFileError]).toEqual([first.used(), null]);
  });

  test("are in a file of this user alone, written as a whole", async () => {
    const { block, registry } = await findOne();
    expect((statSync(block.pinFile).mode & 0o777).toString(8)).toBe("600");
    expect(JSON.parse(readFileSync(block.pinFile, "utf8"))).toMatchObject({
      format: 1,
      pins: [{ admin: ONE, name: "one", version: 1, urls: [registry.url], source: "127.0.0.1" }],
    });
    expect(readdirSync(folder())).toEqual(["pins.json"]);
  });

  test("of a write that a crash cut short are those of before", async () => {
    const { block, registry } = await findOne();
    writeFileSync(`${block.pinFile}.11111111.tmp`, '{"format":1,"pins":[{"admin":"');
    expect((await search(block)).used()).toEqual({ [ONE]: [registry.url] });
  });

  test("in a broken file are not written over, and what is new waits until an operator decides", async () => {
    const { block, registry } = await findOne();
    const text = readFileSync(block.pinFile, "utf8");
    const broken = text.slice(0, text.length / 2);
    writeFileSync(block.pinFile, broken);
    const { used, state, lines, ...scene } = await search(block);
    await scene.search.run();
    expect([used(), state(ONE)]).toEqual([{}, "waiting"]);
    expect(lines.map(({ msg }) => msg)).toContain("pin file cannot be used");
    expect(scene.search.report().pinFileError).toContain("is broken");
    expect(await scene.metrics()).toContain("registry_gateway_discovery_pin_file_unusable 1");
    await scene.search.decide(ONE, true);
    expect(used()).toEqual({ [ONE]: [registry.url] });
    expect(readFileSync(block.pinFile, "utf8")).toBe(broken);
    rmSync(block.pinFile);
    await scene.search.run();
    expect(scene.search.report().pinFileError).toBeNull();
  });

  test("whose file is taken away are written anew, and it is said until the file is found there again", async () => {
    const { block, registry, list, used, lines, ...scene } = await findOne();
    const before = readFileSync(block.pinFile, "utf8");
    const attacker = await startRegistry({ admin: ONE });
    list.publish(listOf({ [ONE]: attacker.url }));
    rmSync(block.pinFile);
    await scene.search.run();
    expect(used()).toEqual({ [ONE]: [registry.url] });
    expect(readFileSync(block.pinFile, "utf8")).toBe(before);
    expect(scene.search.report().pinFileError).toContain("was taken away");
    expect(lines.filter(({ msg }) => msg === "pin file cannot be used")).toHaveLength(1);
    expect(await scene.metrics()).toContain("registry_gateway_discovery_pin_file_unusable 1");
    await scene.search.run();
    expect(scene.search.report().pinFileError).toBeNull();
    expect(await scene.metrics()).toContain("registry_gateway_discovery_pin_file_unusable 0");
  });

  test("that begin anew at a start, for want of a file, are warned of; with the file nothing is", async () => {
    const anew = ({ lines }: { readonly lines: readonly Record<string, unknown>[] }) =>
      lines.filter(({ msg }) => msg === "pin file is not there");
    const { block, ...first } = await findOne();
    expect(anew(first)).toMatchObject([{ fromRedis: 0 }]);
    expect(anew(await search(block))).toEqual([]);
    rmSync(block.pinFile);
    expect(anew(await search(block))).toHaveLength(1);
  });

  test("that cannot be written are used all the same, and it is said", async () => {
    const registry = await startRegistry({ admin: ONE });
    const list = await startPublisher(listOf({ [ONE]: registry.url }));
    // The name of a draft beside it is longer than a file system takes.
    const { used, lines, ...scene } = await search({
      sources: [{ url: list.url }],
      pinFile: join(folder(), "p".repeat(240)),
    });
    await scene.search.run();
    expect(lines.filter(({ msg }) => msg === "pin file cannot be used")).toHaveLength(1);
    expect(scene.search.report().pinFileError).toBe("cannot be written (ENAMETOOLONG)");
    expect(used()).toEqual({ [ONE]: [registry.url] });
  });

  test("that another process wrote into the file meanwhile are kept", async () => {
    const { block, list, registry, ...scene } = await findOne();
    const other = await startRegistry({ admin: TWO });
    const stranger = await search({ ...block, sources: [{ file: join(folder(), "other.json") }] });
    writeFileSync(join(folder(), "other.json"), listOf({ [TWO]: other.url }));
    await stranger.search.run();
    const third = partyOf("three");
    list.publish(listOf({ [ONE]: registry.url, [third]: (await startRegistry({ admin: third })).url }));
    await scene.search.run();
    const { pins } = JSON.parse(readFileSync(block.pinFile, "utf8")) as { pins: { admin: string }[] };
    expect(pins.map(({ admin }) => admin).toSorted()).toEqual([ONE, TWO, third].toSorted());
  });

  // Whoever wrote last left out what the other one had pinned, until that one was restarted and took whatever was listed.
  test("of two processes that write the same file at once are all in it, and a decision reaches the other process", async () => {
    const names = Array.from({ length: 12 }, (_, at) => partyOf(`registry-${at}`));
    const registries = await Promise.all(names.map((admin) => startRegistry({ admin })));
    const listed = registries.map(({ admin, url }) => [admin, url] as const);
    const half = (from: number) => Object.fromEntries(listed.slice(from, from + 6));
    const [list, otherList] = [await startPublisher(listOf(half(0))), await startPublisher(listOf(half(6)))];
    const one = await search({ sources: [{ url: list.url }], pinFile: pinFile() });
    const other = await search({ sources: [{ url: otherList.url }], pinFile: pinFile() });
    const inFile = () => (JSON.parse(readFileSync(pinFile(), "utf8")) as { pins: { admin: string }[] }).pins;
    for (let run = 0; run < 2; run += 1) await Promise.all([one.search.run(), other.search.run()]);
    await one.search.run();
    expect(
      inFile()
        .map(({ admin }) => admin)
        .toSorted(),
    ).toEqual(names.toSorted());
    await other.search.run();
    expect([one, other].map(({ used }) => Object.keys(used()).length)).toEqual([12, 12]);

    const moved = await startRegistry({ admin: names[0]! });
    list.publish(listOf({ ...half(0), [names[0]!]: moved.url }));
    await one.search.run();
    await one.search.decide(names[0]!, true);
    await other.search.run();
    expect([one.used()[names[0]!], other.used()[names[0]!]]).toEqual([[moved.url], [moved.url]]);
  });

  test("that could not be written are written when they can be", async () => {
    // A folder that is not mounted yet.
    symlinkSync(join(folder(), "volume"), join(folder(), "state"));
    const { registry, block, used, lines, ...scene } = await findOne({ pinFile: join(folder(), "state", "pins.json") });
    expect(used()).toEqual({ [ONE]: [registry.url] });
    expect(scene.search.report().pinFileError).toMatch(/cannot be written/);
    await scene.search.run();
    expect(lines.filter(({ msg }) => msg === "pin file cannot be used")).toHaveLength(1);
    mkdirSync(join(folder(), "volume"));
    await scene.search.run();
    expect(scene.search.report().pinFileError).toBeNull();
    expect(JSON.parse(readFileSync(block.pinFile, "utf8"))).toMatchObject({ pins: [{ urls: [registry.url] }] });
  });

  test("are put into a folder that is made for them", async () => {
    const file = join(folder(), "state", "gateway", "pins.json");
    await findOne({ pinFile: file });
    expect(existsSync(file)).toBe(true);
  });
});

test("a list with many URLs at one host asks it 64 times in a reading, one at a time, and the others later", async () => {
  let open = 0;
  let most = 0;
  const asked: string[] = [];
  const host = await startPublisher("");
  host.publish((response, path) => {
    asked.push(path);
    most = Math.max(most, (open += 1));
    setImmediate(() => {
      open -= 1;
      const name = path.split("/")[1]!;
      const adminId = name.startsWith("good") ? partyOf(name) : partyOf("stranger");
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ adminId, supportedApis: {} }));
    });
  });
  const names = [...Array.from({ length: 69 }, (_, at) => `bad${at}`), "good"];
  const list = await startPublisher(
    listOf(Object.fromEntries(names.map((name) => [partyOf(name), `${host.url}/${name}`]))),
  );
  const scene = await search({ sources: [{ url: list.url, network: "MainNet" }], pinFile: pinFile() });
  await scene.search.run();
  expect([asked.length, most]).toEqual([64, 1]);
  expect(scene.lines).toContainEqual(
    expect.objectContaining({ msg: "listed registries are asked later", urls: names.length - 64 }),
  );
  expect(scene.search.report().registries.find(({ admin }) => admin === partyOf("good"))).toMatchObject({
    state: "found",
    problem: expect.stringContaining("later reading"),
  });
  await scene.search.run();
  expect([asked.length, new Set(asked).size, most]).toEqual([128, names.length, 1]);
  expect(scene.state(partyOf("good"))).toBe("pinned");
});
