import type { ServerResponse } from "node:http";
import { Socket } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { TLSSocket } from "node:tls";
import { gzipSync } from "node:zlib";
import { type Answer, htmlAnswer, jsonAnswer, textAnswer, tooManyRequestsAnswer } from "./answer.ts";
import type { BrokenAnswer, SpoiledAnswer } from "./faults.ts";

/** The admin that a node with the fault `wrong-admin` claims unless given another. */
export const WRONG_ADMIN = `someone-else::1220${"ab".repeat(32)}`;

/** What the fault makes of the registry's answer; `answerAs` gives that answer, as its own or as another admin's. */
export function spoilAnswer(fault: SpoiledAnswer, answerAs: (admin?: string) => Answer): Answer {
  switch (fault.kind) {
    case "status": {
      const answer =
        fault.body === undefined
          ? jsonAnswer(fault.status, { error: `sample fault ${fault.status}` })
          : textAnswer(fault.status, fault.body, fault.contentType ?? "application/json");
      if (fault.contentType !== undefined) answer.headers["content-type"] = fault.contentType;
      if (fault.retryAfter !== undefined) answer.headers["retry-after"] = fault.retryAfter;
      return answer;
    }
    case "html-404":
      return htmlAnswer(404, "Not Found");
    case "html-502":
      return htmlAnswer(502, "Bad Gateway");
    case "429":
      return tooManyRequestsAnswer(fault.retryAfter);
    case "not-json":
      return textAnswer(200, "Everything is fine, thank you.", "application/json");
    case "wrong-type":
      return withHeader(answerAs(), "content-type", "text/plain");
    case "redirect":
      return withHeader(textAnswer(302, ""), "location", fault.location ?? "/elsewhere");
    case "gzip": {
      const answer = answerAs();
      return withHeader({ ...answer, body: gzipSync(answer.body) }, "content-encoding", "gzip");
    }
    case "bad-coding":
      return withHeader(answerAs(), "content-encoding", "sample-coding");
    case "wrong-admin":
      break;
  }
  return answerAs(fault.admin ?? WRONG_ADMIN);
}

function withHeader(answer: Answer, name: string, value: string): Answer {
  return { ...answer, headers: { ...answer.headers, [name]: value } };
}

const CHUNK = 64 * 1024;

function resetConnection(response: ServerResponse): void {
  const { socket } = response;
  // A TLS socket has no reset of its own; destroying it ends the connection without a TLS closure alert.
  if (socket instanceof TLSSocket || !(socket instanceof Socket)) socket?.destroy();
  else socket.resetAndDestroy();
}

function* oversizeBody(bytes: number): Generator<Buffer> {
  const [head, tail] = [Buffer.from('{"padding":"'), Buffer.from('"}')];
  const padding = Buffer.alloc(CHUNK, "x");
  yield head;
  for (let left = bytes - head.length - tail.length; left > 0; left -= CHUNK) {
    yield padding.subarray(0, Math.min(left, CHUNK));
  }
  yield tail;
}

async function sendOversize(response: ServerResponse, bytes: number, isAnnounced: boolean): Promise<void> {
  const headers = { "content-type": "application/json", ...(isAnnounced ? { "content-length": bytes } : {}) };
  response.writeHead(200, headers);
  await pipeline(Readable.from(oversizeBody(bytes)), response);
}

function truncate(response: ServerResponse, answer: Answer, framing: "content-length" | "chunked"): void {
  const body = Buffer.from(answer.body);
  const length = framing === "content-length" ? { "content-length": body.length } : {};
  response.writeHead(answer.status, { ...answer.headers, ...length });
  response.write(body.subarray(0, Math.ceil(body.length / 2)), () => response.socket?.end());
}

/** Does to the connection what the fault says; `answer` gives what the registry would have answered. */
export async function breakAnswer(fault: BrokenAnswer, response: ServerResponse, answer: () => Answer): Promise<void> {
  switch (fault.kind) {
    case "hang":
      return;
    case "reset":
      resetConnection(response);
      return;
    case "hang-body": {
      const { status, headers, body } = answer();
      response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(body) });
      response.flushHeaders();
      return;
    }
    case "truncate":
      truncate(response, answer(), fault.framing ?? "content-length");
      return;
    case "garbage":
      response.socket?.end("\u0000\u0001 this is not HTTP\r\n\r\n");
      return;
    case "oversize":
      await sendOversize(response, fault.bytes, fault.announced ?? false);
  }
}
