import type { MaybePromise } from "../clock.ts";
import type { IncomingHttpHeaders } from "node:http";
import type { Readable } from "node:stream";
import { AT_ONCE, type BodyReader, TooCostly } from "../bodies/body-reader.ts";
import { CollectedBody, collectOptionsOf } from "../bodies/collected-body.ts";
import { HeldBodies, type HeldBody } from "../bodies/held-bodies.ts";
import { readRequestBody, type RequestContent, type RequestForm } from "../bodies/request.ts";
import { refusedBody, Upload } from "../bodies/upload.ts";
import { readNoMore } from "../connections/refused-connections.ts";
import { GatewayError } from "../errors.ts";
import type { RequestContext } from "./context.ts";

/** What the bodies of requests may take in all. A body that comes in one piece with its head is not counted. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Called with a body, or why there is none. */
type BodyRead = (error: Error | null, body?: Buffer) => void;

/**
 * Reads bodies of requests, as bytes: what goes upstream is what came. They take memory until they are complete, and
 * from then on until their request is answered. When they are too much in all, the one that has been on its way longest
 * is given up.
 */
export class Uploads {
  private readonly bodies = new HeldBodies({ most: MAX_BYTES });
  private readonly refuse: (context: RequestContext) => void;

  /** @param refuse answers a request whose body is given up, and ends its connection */
  constructor(refuse: (context: RequestContext) => void) {
    this.refuse = refuse;
  }

  /**
   * Reads a body to its end; it has to be called in the turn that brought the request's head, or what comes is lost.
   * `done` gets a GatewayError, 413 or 400, for a body larger than `limits.requestBody`, or of another length than
   * the request said; or what the connection failed with.
   */
  read(context: RequestContext, body: Readable, done: BodyRead): void {
    const limit = context.snapshot.config.limits.requestBody;
    const announced = Number(context.request.headers["content-length"]);
    if (announced > limit) {
      done(refusedBody("too-large", limit));
      return;
    }
    const held = context.request.complete ? undefined : this.begin(context);
    const collected = new CollectedBody(limit, { ...collectOptionsOf(context.request), onHeld: held?.note });
    let isOver = false;
    const end = (error: Error | null) => {
      if (isOver) return;
      isOver = true;
      const content = collected.take();
      if (error !== null) held?.release();
      done(error, error === null ? content : undefined);
    };
    // It stays to the end: Node keeps each chunk that nobody listens for, which costs more than to bring it.
    const take = (chunk: Buffer) => {
      if (isOver) return;
      const fault = collected.add(chunk);
      if (fault === undefined) return;
      if (fault === "too-many-chunks") readNoMore(context.request);
      end(refusedBody(fault, limit));
    };
    const finish = () => {
      held?.complete();
      // NaN where the request says no length.
      const isCutOff = announced >= 0 && announced !== collected.length;
      end(isCutOff ? new GatewayError("malformed_body", "the body is not as long as its content-length says") : null);
    };
    body.on("data", take).on("end", finish).on("error", end);
  }

  /** A body that is streamed on. It takes memory as long as nobody reads it. As {@link read}, in the turn of the head. */
  stream(context: RequestContext, body: Readable): Upload {
    const { requestBody: most } = context.snapshot.config.limits;
    const held = this.begin(context, () => upload.destroy());
    const upload = new Upload(body, { most, onHeld: held.note, ...collectOptionsOf(context.request) });
    body.once("end", held.complete);
    upload.once("error", (error) => {
      held.release();
      if (error instanceof GatewayError && error.code === "malformed_body") readNoMore(context.request);
    });
    return upload;
  }

  /** `onAnswered` is called when there is no answer to come any more. */
  private begin(context: RequestContext, onAnswered: () => void = () => undefined): HeldBody {
    const held = this.bodies.begin({
      largest: context.snapshot.config.limits.requestBody,
      giveUp: () => {
        // What it has taken is needed at once.
        readNoMore(context.request);
        this.refuse(context);
      },
    });
    context.response.once("close", () => {
      held.release();
      onAnswered();
    });
    return held;
  }
}

/**
 * Checks that a body may be read as JSON at all, by its headers.
 *
 * @throws GatewayError 415 for a content coding, or a media type other than JSON in UTF-8
 */
export function checkBodyHeaders(headers: IncomingHttpHeaders): void {
  checkContentCoding(headers);
  const type = headers["content-type"];
  if (type === undefined || !JSON_TYPE.test(type)) {
    throw new GatewayError(
      "unsupported_media_type",
      "the body must be sent with the header content-type: application/json",
    );
  }
  if (!isUtf8ToAll(type)) {
    throw new GatewayError(
      "unsupported_media_type",
      "the body must be JSON in UTF-8, whatever charset the content-type names",
    );
  }
}

/** @throws GatewayError 415 when the body is compressed: an admin in it could not be checked */
export function checkContentCoding(headers: IncomingHttpHeaders): void {
  const coding = headers["content-encoding"];
  if (coding !== undefined && coding.trim().toLowerCase() !== "identity") {
    throw new GatewayError("unsupported_media_type", "the body must be sent without content-encoding");
  }
}

/**
 * What the body of a request says; at once where it is small.
 *
 * @throws GatewayError 400 when it is refused; 503 when too many large ones wait to be read (in the promise)
 */
export function readRequest(bodies: BodyReader, body: Buffer, form: RequestForm): MaybePromise<RequestContent> {
  return body.length <= AT_ONCE ? accepted(readRequestBody(body, form)) : readElsewhere(bodies, body, form);
}

async function readElsewhere(bodies: BodyReader, body: Buffer, form: RequestForm): Promise<RequestContent> {
  try {
    return accepted(await bodies.read({ kind: "request", form }, body, { source: undefined }));
  } catch (error) {
    throw error instanceof TooCostly ? new GatewayError("malformed_body", `the body ${error.message}`) : error;
  }
}

function accepted(content: RequestContent): RequestContent {
  if (content.refusal !== undefined) throw new GatewayError(content.refusal.code, content.refusal.text);
  return content;
}

const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;

/**
 * Whether every parser finds UTF-8 in a media type, or no charset: of two some take the first, some the last; some take a
 * `;` within quotes for the end of a parameter; some read `charset*` (RFC 2231 §4).
 */
function isUtf8ToAll(type: string): boolean {
  const [, ...parameters] = type.split(";");
  const charsets = parameters.filter((each) => CHARSET.test(each));
  return !parameters.some(isCutInQuotes) && charsets.length <= 1 && charsets.every((each) => UTF_8.test(each));
}

function isCutInQuotes(parameter: string): boolean {
  return parameter.split('"').length % 2 === 0;
}

const CHARSET = /^\s*charset\s*[*=]/i;
const UTF_8 = /^\s*charset\s*=\s*("?)utf-?8\1\s*$/i;
