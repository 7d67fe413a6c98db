import { LRUCache } from "lru-cache";
import type { MaybePromise } from "../coordination/coordinator.ts";
import { AT_ONCE, type BodyReader, TooCostly } from "./body-reader.ts";
import { ListedPage, type PageParts, readPage } from "./page.ts";

/** Bytes of pages, and of what was made of them, that are kept at hand: hot pages are merged many times. */
const KEPT_BYTES = 16 * 1024 * 1024;

/** What an instrument's id, name and symbol take besides their characters. */
const PER_INSTRUMENT = 150;

/** Pages of listings taken apart, each once for all who need it. */
export class ListedPages {
  private readonly reader: BodyReader;
  private readonly kept = new LRUCache<Buffer, ListedPage>({
    maxSize: KEPT_BYTES,
    sizeCalculation: ({ ids }, body) => 2 * body.length + PER_INSTRUMENT * ids.length + 1,
  });

  constructor(reader: BodyReader) {
    this.reader = reader;
  }

  /**
   * The page that `body` is, or what is wrong with it; at once where it is known or small.
   * @param source the upstream whose page it is
   * @throws GatewayError 503 (in the promise) when too many bodies wait to be read
   */
  read(body: Buffer, source: string): MaybePromise<ListedPage | string> {
    const known = this.kept.get(body);
    if (known !== undefined) return known;
    if (body.length <= AT_ONCE) return this.take(body, readPage(body));
    return this.reader.read({ kind: "page" }, body, { source }).then(
      (parts) => this.take(body, parts),
      (error: unknown) => {
        if (error instanceof TooCostly) return `it ${error.message}`;
        throw error;
      },
    );
  }

  /** Notes what was found out about `body` when it was received. */
  take(body: Buffer, parts: PageParts | string): ListedPage | string {
    return typeof parts === "string" ? parts : this.keep(new ListedPage(body, parts));
  }

  /** Notes that an equal body stands for the page as well. */
  keep(page: ListedPage): ListedPage {
    this.kept.set(page.body, page);
    return page;
  }
}
