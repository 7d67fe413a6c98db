import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { fastify } from "fastify";
import { expect, test, onTestFinished } from "vitest";
import { openListener } from "../../src/http/listening.ts";

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
