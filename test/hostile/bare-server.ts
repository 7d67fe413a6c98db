import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A server of Node's that reads bodies and looks at nothing: run as a process, to know what the parser alone costs. */
const server = createServer((request) => request.on("data", () => undefined).on("error", () => undefined));
server.listen(0, "127.0.0.1", () => process.send!((server.address() as AddressInfo).port));
