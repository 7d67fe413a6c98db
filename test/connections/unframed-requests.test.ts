import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";
import { SampleRegistry } from "../support/sample-registry.ts";

const ADMIN = `registry::1220${"ab".repeat(32)}`;
const CONTRACT = `00${"cd".repeat(68)}`;

/** One request of these lines, without any framing, and its whole answer. */
async function ask(port: string, line: string, fields: readonly string[]): Promise<string> {
  const socket = connect(Number(port), "127.0.0.1");
  let answer = "";
  socket.setEncoding("utf8").on("data", (text: string) => (answer += text));
  socket.write(`${[line, "host: x", "connection: close", ...fields].join("\r\n")}\r\n\r\n`);
  await once(socket, "close");
  return answer;
}

describe("requests without content-length and transfer-encoding", () => {
  let gateway: GatewayUnderTest;
  let registry: SampleRegistry;
  let port: string;

  beforeAll(async () => {
    registry = new SampleRegistry({ admin: ADMIN, clock: systemClock() });
    await registry.start();
    gateway = await startGateway({ upstreams: [{ name: "one", admin: ADMIN, urls: [registry.url] }] });
    ({ port } = new URL(gateway.url));
  });

  afterAll(async () => {
    await gateway.stop();
    await registry.stop();
  });

  const json = ["content-type: application/json"];
  const accept = `/registry/transfer-instruction/v1/${CONTRACT}/choice-contexts/accept`;
  const cases: readonly (readonly [what: string, line: string, fields: readonly string[], answer: string])[] = [
    ["a choice context", `POST ${accept} HTTP/1.1`, json, "HTTP/1.1 200 "],
    ["a choice context without a type", `POST ${accept} HTTP/1.1`, [], "HTTP/1.1 200 "],
    ["a factory", "POST /registry/transfer-instruction/v1/transfer-factory HTTP/1.1", json, "the body is empty"],
    ["a passed-through POST", "POST /registry/drafts/v9/echo HTTP/1.1", json, "HTTP/1.1 200 "],
    ["a passed-through GET", "GET /registry/drafts/v9/echo HTTP/1.1", json, "HTTP/1.1 200 "],
    ["a method that is not allowed", `PUT ${accept} HTTP/1.1`, json, "HTTP/1.1 405 "],
    ["a preflight", `OPTIONS ${accept} HTTP/1.1`, [], "HTTP/1.1 204 "],
  ];

  test.each(cases)("%s has an empty body", async (_what, line, fields, answer) => {
    expect(await ask(port, line, fields)).toContain(answer);
  });
});
