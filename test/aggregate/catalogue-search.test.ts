import { describe, expect, test } from "vitest";
import { Abort } from "../../src/clock.ts";
import { buildLargeCatalogue } from "../support/large-catalogue.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/thorough.ts";

const EACH = runs(400, 2_000);

/** How often everything else had its turn meanwhile. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

test("all instruments of 50 registries are searched to the end, page by page, without loss or repetition", async () => {
  const { instruments, search } = await buildLargeCatalogue(50, EACH);
  expect(instruments).toBe(50 * EACH);
  const seen = new Set<string>();
  let pageToken: string | undefined;
  do {
    const page = await search("amulet gold", { pageSize: 1_000, pageToken });
    for (const text of page.instruments) {
      const { id, name, registry } = JSON.parse(text) as { id: string; name: string; registry: string };
      expect(`${id} ${name}`.toLowerCase()).toMatch(/amulet/);
      seen.add(`${registry} ${id}`);
    }
    expect(page.missing).toEqual([]);
    pageToken = page.nextPageToken;
  } while (pageToken !== undefined);
  // The share of three words out of four that hold both of 24.
  expect(seen.size).toBeGreaterThan(EACH / 2);
  const everything = await search("", { pageSize: 1_000 });
  expect(everything.instruments).toHaveLength(1_000);
});

test("a query of a few words is searched, however often it repeats them, and one of many is refused", async () => {
  const { search } = await buildLargeCatalogue(1, 10);
  const { instruments } = await search("amulet");
  expect((await search("amulet ".repeat(500))).instruments).toEqual(instruments);
  const many = Array.from({ length: 11 }, (_, i) => `e${i}`).join(" ");
  await expect(search(many)).rejects.toThrow(expect.objectContaining({ status: 400, code: "invalid_query" }));
});

test("a search goes on behind the instrument that it came to, wherever that is by now, and not without it", async () => {
  const { search, listFrom } = await buildLargeCatalogue(2, 10);
  const whole = await search("", { pageSize: 20 });
  const { nextPageToken: pageToken } = await search("", { pageSize: 6 });
  const rest = async () => (await search("", { pageSize: 20, pageToken })).instruments;
  expect(await rest()).toEqual(whole.instruments.slice(6));
  await listFrom(0, 5);
  expect(await rest()).toEqual(whole.instruments.slice(6));
  await listFrom(0, 6);
  await expect(rest()).rejects.toThrow(expect.objectContaining({ status: 400, code: "listing_changed" }));
});

test("a page token of an earlier form is refused as none of this catalogue", async () => {
  const { search } = await buildLargeCatalogue(1, 10);
  const page = await search("", { pageSize: 6 });
  const { id } = JSON.parse(page.instruments.at(-1)!) as { id: string };
  const fields = JSON.parse(Buffer.from(page.nextPageToken!, "base64url").toString()) as unknown[];
  const pageToken = Buffer.from(JSON.stringify([...fields.slice(0, 3), id])).toString("base64url");
  await expect(search("", { pageToken })).rejects.toThrow(
    expect.objectContaining({ status: 400, code: "invalid_page_token" }),
  );
});

// Looking whether there is any counted as if each had been looked at: the 33rd of those at once was refused.
test.each([40, 200])("%i searches at once find out that nothing has a word", async (count) => {
  const { search } = await buildLargeCatalogue(1, 10_000);
  const pages = await Promise.all(Array.from({ length: count }, () => search("zzzz")));
  for (const page of pages) expect(page).toMatchObject({ instruments: [], missing: [] });
});

describe("a search that looks at many instruments", () => {
  /** Each letter is in many of them, and no five words have them all. */
  const LETTERS = "e q v k w m f";

  // It held up everything else until it was over.
  test("gives way to everything else, and is of the catalogue as it was when it began", async () => {
    const { instruments, search, listFrom } = await buildLargeCatalogue(10, 2_000);
    const turns = await turnsOf(async () => expect((await search(LETTERS)).instruments).toEqual([]));
    expect(turns).toBeGreaterThanOrEqual(instruments / 4_000);
    const whole = await search("a", { pageSize: 20_000 });
    const running = search("a", { pageSize: 20_000 });
    for (let at = 0; at < 10; at += 1) await listFrom(at, 1_999);
    expect(await running).toEqual(whole);
    expect((await search("a", { pageSize: 20_000 })).instruments.length).toBeLessThanOrEqual(10);
  });

  // The first of them was looked for, and nothing else ran until all words were found.
  test("gives way while it finds out whether its words are there", async () => {
    const { search } = await buildLargeCatalogue(1, 20_000);
    const last = Array.from({ length: 10 }, (_, at) => 19_999 - at);
    const turns = await turnsOf(async () => expect((await search(last.join(" "))).instruments).toEqual([]));
    expect(turns).toBeGreaterThan(10);
  });

  // A page of 8 MiB was put together in one turn.
  test("gives way by how much is put onto its page", async () => {
    const { instruments, search } = await buildLargeCatalogue(1, 20_000);
    let characters = 0;
    const turns = await turnsOf(async () => {
      const page = await search("", { pageSize: instruments });
      characters = page.instruments.join("").length;
    });
    expect(characters).toBeGreaterThan(4_000_000);
    expect(turns).toBeGreaterThan(instruments / 2_000 + characters / 1_500_000);
  });

  test("waits while another does, and is refused where many wait; short ones never are", async () => {
    const { search } = await buildLargeCatalogue(2, 2_000);
    const many = Array.from({ length: 1 + 256 + 1 }, () => search(LETTERS));
    await expect(many.at(-1)).rejects.toMatchObject({ status: 503, code: "overloaded", retryAfter: 1 });
    expect((await search("")).instruments).toHaveLength(25);
    for (const page of await Promise.all(many.slice(0, -1))) expect(page.instruments).toEqual([]);
    expect((await search(LETTERS)).instruments).toEqual([]);
  });

  // They took turns among themselves: all came near their end, and none to it.
  test("is found in its time where those before it have come to their end, however busy the loop", async () => {
    const clock = new ManualClock();
    const { search } = await buildLargeCatalogue(2, 10_000, clock);
    let isOver = false;
    const work = (): void => {
      clock.advance(3);
      if (!isOver) setImmediate(work);
    };
    setImmediate(work);
    const begunAt = clock.now();
    await search(LETTERS);
    const deadline = clock.now() + 15 * (clock.now() - begunAt);
    const ends = await Promise.allSettled(Array.from({ length: 30 }, () => search(LETTERS, { deadline })));
    isOver = true;
    const found = ends.findIndex(({ status }) => status === "rejected");
    expect(found).toBeGreaterThan(10);
    for (const end of ends.slice(found)) expect(end).toMatchObject({ reason: { code: "queue_timeout" } });
  });

  test.each(["client_gone", "queue_timeout"])(
    "that ends as %s does so by its next turn, and lets the next begin",
    async (code) => {
      const clock = new ManualClock();
      const { search } = await buildLargeCatalogue(2, 2_000, clock);
      const gone = new Abort();
      const terms = code === "client_gone" ? { signal: gone } : { deadline: clock.now() + 1_000 };
      const those = Promise.allSettled([search(LETTERS, terms), search(LETTERS, terms)]);
      const next = search(LETTERS);
      gone.abort();
      clock.advance(1_000);
      expect(await those).toMatchObject([{ reason: { code } }, { reason: { code } }]);
      expect((await next).instruments).toEqual([]);
    },
  );
});
