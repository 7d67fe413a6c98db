import type { FastifyInstance } from "fastify";
import { GatewayError } from "../errors.ts";
import { answerFile, StaticFiles } from "../requests/static-files.ts";

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

/** What a browser gets without credentials: the page, which holds no data. */
export const PAGES = ["/", "/console", "/console/*"] as const;

/** `GET /console/` and what it loads; `/` and `/console` lead there. */
export function addConsole(app: FastifyInstance, folder: string): void {
  const console = new StaticFiles(folder);
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
    const { status, fields, body } = answerFile(file, request.headers);
    reply.headers({
      "content-security-policy": POLICY,
      "referrer-policy": "no-referrer",
      "cross-origin-resource-policy": "same-origin",
      "cache-control": HASHED.test(name) ? "public, max-age=31536000, immutable" : "no-cache",
      ...fields,
    });
    return reply.code(status).send(body);
  });
}
