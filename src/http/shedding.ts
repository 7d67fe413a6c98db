import type { FastifyInstance } from "fastify";
import { PASS_THROUGH } from "./pass-through.ts";
import type { Overload } from "./overload.ts";

/**
 * Refuses what is passed on to registries while the process has too much to do: before the body is read, since reading
 * and checking it is most of what it costs.
 */
export function shedCalls(listener: FastifyInstance, overload: Overload): void {
  listener.addHook("onRequest", (request, _reply, done) => {
    if (request.method === "POST" || request.url.startsWith(PASS_THROUGH)) overload.refuseWork("call");
    done();
  });
}
