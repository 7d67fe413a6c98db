import { parentPort, workerData } from "node:worker_threads";
import type { Config } from "../config/schema.ts";
import { checkText, type TextCheck } from "../config/text-check.ts";

/** What the thread is given: it says one thing about one text, and ends. */
export interface CheckOrder {
  readonly text: string;
  readonly current: Config;
}

/** What the thread says: that its modules are loaded, then what it found. */
export type CheckNews = { readonly kind: "begun" } | { readonly kind: "checked"; readonly check: TextCheck };

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
const tell = (news: CheckNews): void => parentPort!.postMessage(news);

const { text, current } = workerData as CheckOrder;
tell({ kind: "begun" });
tell({ kind: "checked", check: checkText(text, current) });
