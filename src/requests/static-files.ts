import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { extname, join, relative, sep } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { prefersGzip } from "../cache/compression.ts";

const MAX_FILES = 200;
const MAX_BYTES = 4 * 1024 * 1024;

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".json": "application/json",
  ".webmanifest": "application/manifest+json",
  ".txt": "text/plain; charset=utf-8",
};

const compress = promisify(gzip);

/** A file as browsers get it. */
export interface StaticFile {
  readonly type: string;
  readonly body: Buffer;
  readonly etag: string;
  /** Where it is smaller. */
  readonly gzipped: Buffer | undefined;
}

type Files = ReadonlyMap<string, StaticFile>;

/** The files of a folder that the build made, in memory from the first request on. */
export class StaticFiles {
  private readonly folder: string;
  private files: Promise<Files | undefined> | undefined;

  constructor(folder: string) {
    this.folder = folder;
  }

  /** By their names in the folder; undefined: it is not built. */
  async read(): Promise<Files | undefined> {
    this.files ??= readFiles(this.folder);
    let files: Files | undefined;
    try {
      files = await this.files;
    } finally {
      // It may be built while the gateway runs, or could not be read for a moment.
      if (files === undefined) this.files = undefined;
    }
    return files;
  }
}

async function readFiles(folder: string): Promise<Files | undefined> {
  try {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    const files = new Map<string, StaticFile>();
    let bytes = 0;
    for (const path of paths) {
      const type = TYPES[extname(path)];
      if (type === undefined) continue;
      const body = await readFile(path);
      bytes += body.length;
      if (files.size >= MAX_FILES || bytes > MAX_BYTES) {
        throw new Error(`${folder} holds more than ${MAX_FILES} files or ${MAX_BYTES} bytes`);
      }
      files.set(relative(folder, path).split(sep).join("/"), await fileOf(type, body));
    }
    return files.size > 0 ? files : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

async function fileOf(type: string, body: Buffer): Promise<StaticFile> {
  const gzipped = type === "image/png" ? undefined : await compress(body, { level: 9 });
  const etag = createHash("sha256").update(body).digest("base64url").slice(0, 27);
  return { type, body, etag, gzipped: gzipped !== undefined && gzipped.length < body.length ? gzipped : undefined };
}

/** What an answer with a file says of it, and its bytes: coded where that is accepted; none where the client has it. */
export function answerFile(
  { type, body, etag, gzipped }: StaticFile,
  headers: Pick<IncomingHttpHeaders, "accept-encoding" | "if-none-match">,
): { readonly status: 200 | 304; readonly fields: Record<string, string>; readonly body: Buffer | undefined } {
  const accepted = headers["accept-encoding"];
  const isGzip = gzipped !== undefined && typeof accepted === "string" && prefersGzip(accepted);
  const tag = isGzip ? `"${etag}-gzip"` : `"${etag}"`;
  const fields: Record<string, string> = { etag: tag, ...(gzipped === undefined ? {} : { vary: "accept-encoding" }) };
  const known = new Set((headers["if-none-match"] ?? "").split(",").map((each) => each.trim().replace(/^W\//, "")));
  if (known.has(tag) || known.has("*")) return { status: 304, fields, body: undefined };
  fields["content-type"] = type;
  if (isGzip) fields["content-encoding"] = "gzip";
  return { status: 200, fields, body: isGzip ? gzipped : body };
}
