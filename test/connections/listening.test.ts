import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { fastify } from "fastify";
import { expect, test, onTestFinished } from "vitest";
import { openListener } from "../../src/connections/listening.ts";

test("a port that another process has is named, and so is the listener that wanted it", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void other.close());
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  const app = fastify();
  onTestFinished(() => app.close());
  await expect(openListener(app, { host: "127.0.0.1", port }, "operations")).rejects.toMatchObject({
    message: `the operations listener cannot have port ${port}, another process has it`,
    code: "EADDRINUSE",
    port,
  });
});

test("an open listener tells its port", async () => {
  const app = fastify();
  onTestFinished(() => app.close());
  const port = await openListener(app, { host: "127.0.0.1", port: 0 }, "public");
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(404);
});

test("processes that both say so share a port, and one that does not say so is refused with what to set", async () => {
  const [one, other, third] = [fastify(), fastify(), fastify()];
  onTestFinished(async () => {
    await Promise.all([one, other, third].map((app) => app.close()));
  });
  one.get("/", async () => "one");
  other.get("/", async () => "other");
  const address = { host: "127.0.0.1", reusePort: true };
  const port = await openListener(one, { ...address, port: 0 }, "public");
  await expect(openListener(third, { ...address, port, reusePort: false }, "public")).rejects.toThrow(
    `the public listener cannot have port ${port}, another process has it`,
  );
  expect(await openListener(other, { ...address, port }, "public")).toBe(port);
  const answers = new Set<string>();
  // The kernel deals new connections out by their ports.
  for (let i = 0; i < 200 && answers.size < 2; i += 1) {
    const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: "close" } });
    answers.add(await answer.text());
  }
  expect([...answers].toSorted()).toEqual(["one", "other"]);
});

test("a port that another process has without sharing it is refused with what both have to set", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void other.close());
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  const app = fastify();
  onTestFinished(() => app.close());
  await expect(openListener(app, { host: "127.0.0.1", port, reusePort: true }, "public")).rejects.toThrow(
    "each has to set listen.reusePort and run as the same user",
  );
});

test("a system that cannot share ports is told which key to leave out", async () => {
  const app = fastify({
    serverFactory(handler) {
      // As Node does it on macOS and Windows.
      const server = createHttpServer(handler);
      server.listen = () => {
        setImmediate(() => server.emit("error", Object.assign(new Error("listen ENOTSUP"), { code: "ENOTSUP" })));
        return server;
      };
      return server;
    },
  });
  onTestFinished(() => app.close());
  await expect(openListener(app, { host: "127.0.0.1", port: 8080, reusePort: true }, "public")).rejects.toThrow(
    "this system cannot share ports: leave out listen.reusePort",
  );
});
