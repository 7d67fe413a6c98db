import type { ClientsAnswer, ExplainAnswer, PurgeAnswer, RequestsAnswer, Status } from "../src/operations/types.ts";

/** A request that was not answered as hoped; `message` is for the operator. */
export class ApiError extends Error {}

/** The operations listener, as this page asks it: by paths of its own origin, with the browser's own sign-in. */
export const api = {
  status: () => ask<Status>("/status"),
  requests: () => ask<RequestsAnswer>("/requests"),
  clients: () => ask<ClientsAnswer>("/clients"),
  explain: (path: string) => ask<ExplainAnswer>(`/explain?path=${encodeURIComponent(path)}`),
  purge: (upstream: string | undefined) => ask<PurgeAnswer>("/purge", { ...(upstream !== undefined && { upstream }) }),
};

const TIMEOUT = 10_000;

/** The listener's root lies above `/console/`, whatever path a proxy puts before it. */
async function ask<Answer>(path: string, body?: object): Promise<Answer> {
  const url = new URL(`..${path}`, new URL("./", document.baseURI));
  let answer: Response;
  try {
    answer = await fetch(url, {
      signal: AbortSignal.timeout(TIMEOUT),
      ...(body !== undefined && {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    });
  } catch {
    throw new ApiError("The gateway does not answer.");
  }
  if (answer.status === 401) throw new ApiError("You are signed out. Load the page again to sign in.");
  const json = (await answer.json().catch(() => ({}))) as Answer & { readonly error?: string };
  if (answer.ok) return json;
  throw new ApiError(json.error?.replace(/^registry-gateway: /, "") ?? `The gateway answered ${answer.status}.`);
}
