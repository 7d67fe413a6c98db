import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { SampleRegistry } from "../../src/sandbox/registry.ts";
import { DSO } from "../sandbox/sample.ts";
import { type BuiltImage, buildImage } from "../support/dockerfile.ts";
import { GatewayProcess } from "../support/gateway-process.ts";

/** The user that the image runs as, who owns nothing in it. */
const USER = 1000;

describe("the image, its steps run on this machine", () => {
  let image: BuiltImage;
  let registry: SampleRegistry;
  let gateway: GatewayProcess;

  beforeAll(async () => {
    image = buildImage(join(import.meta.dirname, "../.."));
    chmodSync(image.root, 0o755);
    execFileSync("chmod", ["-R", "a-w,a+rX", image.root]);
    registry = new SampleRegistry({ admin: DSO, clock: systemClock() });
    await registry.start();
    const [program, ...args] = image.entrypoint;
    expect(program).toBe("node");
    const command = [process.execPath, ...args.map((arg) => join(image.root, image.workdir, arg))];
    gateway = await GatewayProcess.start(
      { upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] },
      command,
      process.getuid?.() === 0 ? { uid: USER, gid: USER } : {},
    );
  }, 600_000);

  afterAll(async () => {
    await gateway?.stop();
    await registry?.stop();
    if (image !== undefined) {
      execFileSync("chmod", ["-R", "u+w", image.root]);
      rmSync(image.root, { recursive: true });
    }
  });

  test("answers, as a user without rights and with nothing it may write", async () => {
    expect((await fetch(`${gateway.operations}/livez`)).status).toBe(200);
    const info = await fetch(`${gateway.url}/registry/metadata/v1/info`);
    expect(await info.json()).toMatchObject({ adminId: DSO });
  });

  test("passes its own health check while it lives, and fails it where nothing answers", () => {
    const [program, ...args] = image.healthcheck;
    expect(program).toBe("node");
    const port = new URL(gateway.operations).port;
    const check = (OPERATIONS_PORT: string) =>
      spawnSync(process.execPath, args, { env: { OPERATIONS_PORT }, timeout: 20_000 }).status;
    expect(check(port)).toBe(0);
    expect(check("1")).toBe(1);
  });

  test("holds emitted JavaScript and production dependencies alone", () => {
    const app = join(image.root, image.workdir);
    expect(readdirSync(app).sort()).toEqual(["dist", "node_modules", "package.json"]);
    for (const development of ["typescript", "vitest", "oxlint", "@grafana"]) {
      expect(existsSync(join(app, "node_modules", development)), development).toBe(false);
    }
  });
});
