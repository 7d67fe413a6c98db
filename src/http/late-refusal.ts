import { GatewayError } from "../errors.ts";
import { exchangeOf } from "./exchange.ts";
import type { Surroundings } from "./context.ts";
import { commonFieldsOf, errorAnswer, sendAnswer } from "./send.ts";
import type { RunningRequest } from "./in-flight.ts";

/** Answers a request for which there is no time left; one whose answer has begun can only be cut off. */
export function refuseLate({ request, response }: RunningRequest, surroundings: Surroundings): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const exchange = exchangeOf(request, surroundings);
  exchange.outcome = "refused";
  exchange.error = new GatewayError(
    "stopping",
    "the gateway is being stopped and could not wait any longer; try again",
    {
      retryAfter: 1,
    },
  );
  sendAnswer(request, response, errorAnswer(exchange.error), commonFieldsOf(exchange, request, true));
}
