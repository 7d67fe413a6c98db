import { expect, test } from "vitest";
import { buildLargeCatalogue } from "../support/large-catalogue.ts";
import { runs } from "../support/thorough.ts";

const EACH = runs(400, 2_000);

test("all instruments of 50 registries are searched to the end, page by page, without loss or repetition", async () => {
  const { instruments, search } = await buildLargeCatalogue(50, EACH);
  expect(instruments).toBe(50 * EACH);
  const seen = new Set<string>();
  let pageToken: string | undefined;
  do {
    const page = search("amulet gold", { pageSize: 1_000, pageToken });
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
  const everything = search("", { pageSize: 1_000 });
  expect(everything.instruments).toHaveLength(1_000);
});

test("a query of a few words is searched, however often it repeats them, and one of many is refused", async () => {
  const { search } = await buildLargeCatalogue(1, 10);
  expect(search("amulet ".repeat(500)).instruments).toHaveLength(search("amulet").instruments.length);
  const many = Array.from({ length: 11 }, (_, i) => `e${i}`).join(" ");
  expect(() => search(many)).toThrow(expect.objectContaining({ status: 400, code: "invalid_query" }));
});

test("a search goes on behind the instrument that it came to, wherever that is by now, and not without it", async () => {
  const { search, listFrom } = await buildLargeCatalogue(2, 10);
  const whole = search("", { pageSize: 20 }).instruments;
  const { nextPageToken: pageToken } = search("", { pageSize: 6 });
  const rest = () => search("", { pageSize: 20, pageToken }).instruments;
  expect(rest()).toEqual(whole.slice(6));
  await listFrom(0, 5);
  expect(rest()).toEqual(whole.slice(6));
  await listFrom(0, 6);
  expect(rest).toThrow(expect.objectContaining({ status: 400, code: "listing_changed" }));
});

test("a page token of an earlier form is refused as none of this catalogue", async () => {
  const { search } = await buildLargeCatalogue(1, 10);
  const page = search("", { pageSize: 6 });
  const { id } = JSON.parse(page.instruments.at(-1)!) as { id: string };
  const fields = JSON.parse(Buffer.from(page.nextPageToken!, "base64url").toString()) as unknown[];
  const pageToken = Buffer.from(JSON.stringify([...fields.slice(0, 3), id])).toString("base64url");
  expect(() => search("", { pageToken })).toThrow(expect.objectContaining({ status: 400, code: "invalid_page_token" }));
});
