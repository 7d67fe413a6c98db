import { counter, gauge } from "./definition.ts";
import { CLIENT, CLIENT_KEYS, CLIENT_REFUSAL, OPERATION, OUTCOME } from "./labels.ts";

/** Who asked, and whom the gateway sent away; nothing where `clients` is not configured. */
export const CLIENTS = {
  clientRequests: counter("client_requests", {
    help: "Requests answered, by client. Of tokens beyond 200 names, by issuer and tier; anonymous: those without a credential; none: not known who.",
    labels: { client: CLIENT, operation: OPERATION, outcome: OUTCOME },
  }),
  clientRefusals: counter("client_refusals", {
    help: "Requests refused because of who sent them, by client and code of the error.",
    labels: { client: CLIENT, reason: CLIENT_REFUSAL },
  }),
  clientSpared: counter("client_spared", {
    help: "Requests let in although they are over a limit of their client's tier, which has enforce: false.",
    labels: { client: CLIENT, reason: CLIENT_REFUSAL },
  }),
  clientKeysUnusable: gauge("client_keys_unusable", {
    help: "1 while the keys file, or the keys of an issuer of tokens, are no good: the last good ones are used.",
    labels: { source: CLIENT_KEYS },
  }),
} as const;
