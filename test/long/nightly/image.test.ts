import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { systemClock } from "../../../src/clock.ts";
import { SampleRegistry } from "../../support/sample-registry.ts";
import { DSO } from "../../support/sample.ts";
import { Container } from "../../support/container.ts";
import { type BuiltImage, buildImage } from "../../support/image.ts";
import { findFreePort } from "../../support/ports.ts";
import { until } from "../../support/until.ts";

const ROOT = join(import.meta.dirname, "../../..");

/** Where the image looks for its configuration. */
const CONFIG = "/etc/registry-gateway";

describe("the image, built by a container engine", () => {
  let image: BuiltImage;
  let registry: SampleRegistry;
  let container: Container;
  let folder: string;
  let url: string;
  let operations: string;

  beforeAll(async () => {
    image = buildImage(ROOT);
    registry = new SampleRegistry({ admin: DSO, clock: systemClock() });
    await registry.start();
    const [port, operationsPort] = [await findFreePort(), await findFreePort()];
    url = `http://127.0.0.1:${port}`;
    operations = `http://127.0.0.1:${operationsPort}`;
    folder = mkdtempSync(join(tmpdir(), "container-"));
    const config = {
      listen: { host: "127.0.0.1", port },
      operations: { host: "127.0.0.1", port: operationsPort },
      shutdown: { grace: "0s" },
      upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
    };
    writeFileSync(join(folder, "gateway.yaml"), stringify(config), { mode: 0o644 });
    chmodSync(folder, 0o755);
    mkdirSync(join(image.root, CONFIG), { recursive: true });
    container = Container.start(image, { [folder]: CONFIG });
    await until(async () => (await fetch(`${operations}/readyz`).catch(() => undefined))?.ok === true, 60_000);
  }, 1_200_000);

  afterAll(async () => {
    await container?.kill();
    await registry?.stop();
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
    image?.remove();
  });

  test("answers, as a user without rights and on a read-only file system", async () => {
    const info = await fetch(`${url}/registry/metadata/v1/info`);
    expect(await info.json()).toMatchObject({ adminId: DSO });
    expect(statSync(`/proc/${container.pid}`)).toMatchObject({ uid: 1000, gid: 1000 });
    const write = container.run(["node", "-e", "require('fs').writeFileSync('/app/x', '')"]);
    expect(write.stderr).toContain("EROFS");
  });

  test("passes its own health check while it lives, and fails it where nothing answers", () => {
    const [kind, ...command] = image.config.Healthcheck.Test;
    expect(kind).toBe("CMD");
    const check = (OPERATIONS_PORT: string) => container.run(command, { OPERATIONS_PORT }).status;
    expect(check(new URL(operations).port)).toBe(0);
    expect(check("1")).toBe(1);
  });

  test("holds emitted JavaScript and production dependencies alone", () => {
    const app = join(image.root, image.config.WorkingDir);
    expect(readdirSync(app).sort()).toEqual(["dist", "node_modules", "package.json"]);
    for (const development of ["node", "typescript", "vitest", "oxlint", "@grafana"]) {
      expect(existsSync(join(app, "node_modules", development)), development).toBe(false);
    }
  });

  test("says on which ports it listens, and tells its version", () => {
    expect(Object.keys(image.config.ExposedPorts).toSorted()).toEqual(["8080/tcp", "9090/tcp"]);
    expect(container.run(["node", "dist/main.js", "--version"]).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test("has the sample registries that the compose file runs", () => {
    const { services } = parse(readFileSync(join(ROOT, "config/compose.yaml"), "utf8")) as {
      services: Record<string, { command?: string[] }>;
    };
    const commands = Object.values(services).flatMap(({ command }) => (command?.[0] === "sandbox" ? [command] : []));
    expect(commands).toHaveLength(3);
    for (const command of commands) {
      // All of it is understood, but the port that is added.
      const { status, stderr } = container.run([...image.config.Entrypoint, ...command, "--port", "none"]);
      expect([status, stderr]).toEqual([1, expect.stringContaining("--port takes a port")]);
    }
  });

  test("ends cleanly at the signal that stops a container", async () => {
    expect(image.config.StopSignal).toBe("SIGTERM");
    expect(await container.stop(image.config.StopSignal as NodeJS.Signals)).toBe(0);
  });
});
