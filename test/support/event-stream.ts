import { type ClientRequest, get } from "node:http";
import { until } from "./until.ts";

/** An event of a stream as it came. */
export interface StreamEvent {
  readonly event: string;
  readonly id: string | undefined;
  readonly data: Record<string, unknown>;
}

/** A client that follows changes, and never reconnects by itself. */
export interface Subscriber {
  readonly events: readonly StreamEvent[];
  /** As an `EventSource` would send it. */
  readonly lastId: string | undefined;
  readonly status: number | undefined;
  readonly fields: Readonly<Record<string, unknown>>;
  /** All of its bytes. */
  readonly text: string;
  readonly hasEnded: boolean;
  /** The next events of this name, beyond those that were there. */
  next(event: string, count?: number): Promise<StreamEvent[]>;
  close(): void;
}

/** Opens `/catalog/v1/changes` below `url`, and resolves once the head of the answer is there. */
export async function subscribe(
  url: string,
  {
    lastId,
    headers = {},
    keepsText = true,
  }: { lastId?: string; headers?: Record<string, string>; keepsText?: boolean } = {},
): Promise<Subscriber> {
  const events: StreamEvent[] = [];
  const state = { lastId, text: "", hasEnded: false, seen: 0 };
  let rest = "";
  const take = (frame: string): void => {
    const fields = new Map(
      frame.split("\n").map((line) => {
        const [name, value] = line.split(/: (.*)/s);
        return [name!, value ?? ""] as const;
      }),
    );
    const id = fields.get("id");
    if (id !== undefined) state.lastId = id;
    const data = fields.get("data");
    if (data !== undefined) events.push({ event: fields.get("event")!, id, data: JSON.parse(data) });
  };
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const sent = lastId === undefined ? headers : { ...headers, "last-event-id": lastId };
  const fields: Record<string, unknown> = {};
  let status: number | undefined;
  const request: ClientRequest = get(`${url}/catalog/v1/changes`, { headers: sent, agent: false }, (answer) => {
    status = answer.statusCode;
    Object.assign(fields, answer.headers);
    resolve();
    answer.setEncoding("utf8");
    answer.on("data", (chunk: string) => {
      if (keepsText) state.text += chunk;
      const frames = (rest + chunk).split("\n\n");
      rest = frames.pop()!;
      for (const frame of frames) take(frame);
    });
    answer.on("error", () => undefined);
    answer.on("close", () => {
      state.hasEnded = true;
    });
  });
  request.on("error", (error) => {
    state.hasEnded = true;
    reject(error);
  });
  await promise;
  return {
    events,
    get lastId() {
      return state.lastId;
    },
    get status() {
      return status;
    },
    fields,
    get text() {
      return state.text;
    },
    get hasEnded() {
      return state.hasEnded;
    },
    async next(event, count = 1) {
      const of = () => events.slice(state.seen).filter((each) => each.event === event);
      await until(() => of().length >= count);
      const found = of().slice(0, count);
      state.seen = events.indexOf(found.at(-1)!) + 1;
      return found;
    },
    close: () => void request.destroy(),
  };
}
