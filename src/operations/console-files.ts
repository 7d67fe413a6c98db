import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { extname, join, relative, sep } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { prefersGzip } from "../cache/compression.ts";
import { GatewayError } from "../errors.ts";

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

/** Nothing from elsewhere, nothing inline, no form, in no frame. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Its name changes with its content. */
const HASHED = /^assets\/.*-[\w-]{8,}\.\w+$/;

const compress = promisify(gzip);

interface File {
  readonly type: string;
  readonly body: Buffer;
  readonly etag: string;
  /** Where it is smaller. */
  readonly gzipped: Buffer | undefined;
}

type Files = ReadonlyMap<string, File>;

/** The console's files, in memory from the first request on. */
class ConsoleFiles {
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
    const files = new Map<string, File>();
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
    return files.has("index.html") ? files : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

async function fileOf(type: string, body: Buffer): Promise<File> {
  const gzipped = type === "image/png" ? undefined : await compress(body, { level: 9 });
  const etag = createHash("sha256").update(body).digest("base64url").slice(0, 27);
  return { type, body, etag, gzipped: gzipped !== undefined && gzipped.length < body.length ? gzipped : undefined };
}

/** What a browser gets without credentials: the page, which holds no data. */
export const PAGES = ["/", "/console", "/console/*"] as const;

/** `GET /console/` and what it loads; `/` and `/console` lead there. */
export function addConsole(app: FastifyInstance, folder: string): void {
  const console = new ConsoleFiles(folder);
  const [root, page, files] = PAGES;
  app.get(root, async (_request, reply) => reply.redirect("/console/", 302));
  app.get(page, async (_request, reply) => reply.redirect("/console/", 308));
  app.get(files, async (request, reply) => {
    const found = await console.read();
    if (found === undefined) {
      throw new GatewayError("no_such_path", "the console is not built: run npm run build, then load this page anew");
    }
    const { "*": path } = request.params as { readonly "*": string };
    const name = path === "" ? "index.html" : path;
    const file = found.get(name);
    if (file === undefined) throw new GatewayError("no_such_path", "the console has no such file");
    return sendFile(request, reply, { file, isHashed: HASHED.test(name) });
  });
}

function sendFile(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  { file, isHashed }: { readonly file: File; readonly isHashed: boolean },
): FastifyReply {
  const accepted = headers["accept-encoding"];
  const isGzip = file.gzipped !== undefined && typeof accepted === "string" && prefersGzip(accepted);
  const etag = isGzip ? `"${file.etag}-gzip"` : `"${file.etag}"`;
  reply.headers({
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": isHashed ? "public, max-age=31536000, immutable" : "no-cache",
    etag,
  });
  if (file.gzipped !== undefined) reply.header("vary", "accept-encoding");
  const known = new Set((headers["if-none-match"] ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, "")));
  if (known.has(etag) || known.has("*")) return reply.code(304).send();
  if (isGzip) reply.header("content-encoding", "gzip");
  return reply.type(file.type).send(isGzip ? file.gzipped : file.body);
}
