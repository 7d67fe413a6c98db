import { readFileSync } from "node:fs";
import { redactUrl } from "../config/urls.ts";
import { EXIT, UsageError } from "./command-line.ts";
import { printLine, printLines } from "./terminal.ts";

const ANSWER_DEADLINE = 5_000;

/** `explain URL`: asks a running gateway's operations listener about a URL of its public listener. */
export async function explain(
  url: string,
  options: { readonly operations: unknown; readonly tokenFile: unknown },
): Promise<number> {
  const operations = typeof options.operations === "string" ? options.operations : "http://127.0.0.1:9090";
  if (!URL.canParse(operations)) throw new UsageError("--operations takes the URL of the operations listener");
  const path = URL.canParse(url) ? url.slice(new URL(url).origin.length) : url;
  if (!path.startsWith("/")) throw new UsageError("explain takes a URL or a path of the gateway");
  const endpoint = new URL("/explain", operations);
  endpoint.searchParams.set("path", path);
  const headers = new Headers();
  if (typeof options.tokenFile === "string") {
    headers.set("authorization", `Bearer ${readFileSync(options.tokenFile, "utf8").trim()}`);
  }
  try {
    const response = await fetch(endpoint, { headers, signal: AbortSignal.timeout(ANSWER_DEADLINE) });
    printLines(JSON.stringify(await response.json(), undefined, 2));
    return response.ok ? EXIT.ok : EXIT.failure;
  } catch (error) {
    printLine(
      `registry-gateway: ${redactUrl(operations)} does not answer: ${(error as Error).message}`,
      process.stderr,
    );
    return EXIT.failure;
  }
}
