import type { Asked } from "./registry-client.ts";

/** `good`: as it should be; `note`: as it is; `warning`: some clients stumble; `error`: it breaks the standard, or clients. */
export type Severity = "good" | "note" | "warning" | "error";

/** What was seen of one registry, in one respect. */
export interface Finding {
  readonly about: string;
  readonly severity: Severity;
  readonly text: string;
  /** The line of the standard, or of an RFC, that it is held to. */
  readonly source: string;
}

/** Findings of one respect, as they are made. */
export class Findings {
  readonly list: Finding[] = [];
  private readonly about: string;
  private readonly source: string;

  constructor(about: string, source: string) {
    this.about = about;
    this.source = source;
  }

  add(severity: Severity, text: string, source = this.source): void {
    this.list.push({ about: this.about, severity, text, source });
  }
}

/** How an answer is named in a finding: its status and its type. */
export function nameOf({ status, headers }: Asked): string {
  return `${status}, ${headers.get("content-type") ?? "without a content type"}`;
}

export function isJsonType({ headers }: Asked): boolean {
  return /^application\/(.+\+)?json\b/i.test(headers.get("content-type") ?? "");
}

/** Whether it is an error in the form of the standard. */
export function isErrorBody(asked: Asked): boolean {
  const { error } = (asked.json ?? {}) as { readonly error?: unknown };
  return isJsonType(asked) && typeof error === "string";
}
