import { Agent, request } from "undici";
import { isPrintable } from "./terminal.ts";
import { isPrivateHost, lookUpPublic, PrivateAddress } from "./import-public-address.ts";

/** What a registry said about itself, or why it could not be asked; `problem` is safe to print. */
export type Verification = { readonly admin: string } | { readonly problem: string };

export interface VerifyOptions {
  readonly allowPrivate: boolean;
}

const DEADLINE = 10_000;
const MAX_BODY = 64 * 1024;

/**
 * Asks a registry for its admin. A list is a stranger's word: no redirect is followed, nothing is sent but the request,
 * and unless `allowPrivate`, no connection is made to an address that is not of the public internet.
 */
export async function verifyRegistry(url: string, { allowPrivate }: VerifyOptions): Promise<Verification> {
  if (!allowPrivate && isPrivateHost(new URL(url).hostname)) return { problem: new PrivateAddress().message };
  const agent = new Agent({
    pipelining: 0,
    connect: { timeout: DEADLINE, ...(allowPrivate ? {} : { lookup: lookUpPublic }) },
  });
  try {
    const { statusCode, body } = await request(`${url}/registry/metadata/v1/info`, {
      dispatcher: agent,
      headers: { accept: "application/json" },
      signal: AbortSignal.timeout(DEADLINE),
    });
    const text = await readText(body);
    return statusCode === 200 ? readAdmin(text) : { problem: `it answered ${statusCode} to info` };
  } catch (error) {
    return { problem: problemOf(error) };
  } finally {
    await agent.destroy();
  }
}

function readAdmin(text: string | undefined): Verification {
  if (text === undefined) return { problem: `its info is longer than ${MAX_BODY} bytes` };
  try {
    const { adminId } = JSON.parse(text) as { adminId?: unknown };
    if (typeof adminId !== "string") return { problem: "its info names no adminId" };
    return isPrintable(adminId) ? { admin: adminId } : { problem: "its info names an adminId that is no party id" };
  } catch {
    return { problem: "its info is not JSON" };
  }
}

/** The body, or undefined when it is too long. */
async function readText(body: AsyncIterable<Buffer>): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > MAX_BODY) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function problemOf(error: unknown): string {
  const { name, code, cause } = error as NodeJS.ErrnoException & { cause?: unknown };
  if (error instanceof PrivateAddress) return error.message;
  if (cause instanceof Error) return problemOf(cause);
  if (name === "TimeoutError") return `it did not answer within ${DEADLINE / 1000} s`;
  return `it cannot be asked: ${code ?? name}`;
}
