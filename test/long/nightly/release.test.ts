import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
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
import { notesOf } from "../../../tools/release-artefacts.ts";
import { Container } from "../../support/container.ts";
import { type BuiltImage, ImageStore, THIS } from "../../support/image.ts";
import { findFreePort } from "../../support/ports.ts";
import { until } from "../../support/until.ts";

const ROOT = join(import.meta.dirname, "../../..");
const git = (...args: string[]) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();
const REVISION = git("rev-parse", "HEAD");
const { version } = JSON.parse(git("show", "HEAD:package.json")) as { version: string };
const NAME = `registry-gateway-${version}`;

/** What a release has, by the end of its name. */
const FILES = {
  package: `${NAME}.tgz`,
  chart: `registry-gateway-chart-${version}.tgz`,
  bill: `${NAME}.cdx.json`,
  notes: `${NAME}.md`,
  image: `${NAME}.oci.tar`,
  provenance: `${NAME}.provenance.json`,
};

let store: ImageStore;
let folder: string;
/** Two releases of the same commit. */
let releases: readonly string[];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "released-"));
  store = new ImageStore();
  store.addBase(ROOT, ["amd64", "arm64"]);
  releases = ["one", "other"].map((name) => {
    const out = join(folder, name);
    execFileSync(process.execPath, ["tools/release.ts", "--out", out], {
      cwd: ROOT,
      env: { ...process.env, ...store.env },
      stdio: ["ignore", "ignore", "inherit"],
      timeout: 900_000,
    });
    return out;
  });
}, 1_800_000);

afterAll(() => {
  store?.remove();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
}, 600_000);

const pathOf = (file: keyof typeof FILES) => join(releases[0]!, FILES[file]);
const read = (file: keyof typeof FILES) => readFileSync(pathOf(file), "utf8");

function unpack(archive: string): string {
  const to = mkdtempSync(join(folder, "unpacked-"));
  execFileSync("tar", ["--extract", "--directory", to, "--file", archive]);
  return to;
}

const sha256 = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");

test("a release of the same commit has the same bytes", () => {
  const [one, other] = releases.map((out) => readdirSync(out).map((file) => [file, sha256(join(out, file))]));
  expect(one).toEqual(other);
  expect(new Set(one!.map(([file]) => file))).toEqual(new Set(["SHA256SUMS", ...Object.values(FILES)]));
});

test("its checksums are those of all its files", () => {
  const checked = execFileSync("sha256sum", ["--check", "SHA256SUMS"], { cwd: releases[0], encoding: "utf8" });
  expect(checked.match(/: OK$/gm)).toHaveLength(Object.keys(FILES).length);
});

test("the package has the program, built of that commit, the configuration and the chart", () => {
  const unpacked = join(unpack(pathOf("package")), "package");
  expect(JSON.parse(readFileSync(join(unpacked, "package.json"), "utf8"))).toMatchObject({ version });
  for (const file of ["dist/main.js", "dist/console/index.html", "config/gateway.yaml", "config/helm/Chart.yaml"]) {
    expect(existsSync(join(unpacked, file)), file).toBe(true);
  }
  const program = readdirSync(join(unpacked, "dist")).filter((file) => file.endsWith(".js"));
  const texts = program.map((file) => readFileSync(join(unpacked, "dist", file), "utf8"));
  expect(texts.join("")).toContain(`"${REVISION.slice(0, 12)}"`);
  expect(texts.join("")).not.toContain(tmpdir());
});

test("the chart is one folder of that version", () => {
  const unpacked = unpack(pathOf("chart"));
  expect(readdirSync(unpacked)).toEqual(["registry-gateway"]);
  const chart: unknown = parse(readFileSync(join(unpacked, "registry-gateway/Chart.yaml"), "utf8"));
  expect(chart).toMatchObject({ version, appVersion: version });
});

test("the bill of materials lists what is installed with the package, and nothing that only builds it", () => {
  const lock = JSON.parse(git("show", "HEAD:package-lock.json")) as {
    packages: Record<string, { version: string; dev?: boolean; optional?: boolean }>;
  };
  const installed = Object.entries(lock.packages).filter(([path, { dev }]) => path !== "" && dev !== true);
  const { components, metadata, serialNumber } = JSON.parse(read("bill")) as {
    components: { purl: string }[];
    metadata: { timestamp: string };
    serialNumber: string;
  };
  const listed = new Set(components.map(({ purl }) => decodeURIComponent(purl.replace("pkg:npm/", ""))));
  for (const [path, { version: of, optional }] of installed) {
    const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
    if (optional !== true) expect(listed).toContain(`${name}@${of}`);
  }
  expect([...listed].filter((each) => /^(vitest|typescript|oxlint)@/.test(each))).toEqual([]);
  expect(new Date(metadata.timestamp).getTime()).toBe(Number(git("log", "-1", "--format=%ct")) * 1_000);
  expect(serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("the notes are what the changelog says of that version", () => {
  expect(read("notes")).toBe(notesOf(version, `${git("show", "HEAD:CHANGELOG.md")}\n`));
  expect(read("notes")).toContain("### What you must do");
});

test("the provenance names every file by its digest, the commit, the lock file, the bases and the tools", () => {
  const { subject, predicate, ...statement } = JSON.parse(read("provenance")) as {
    subject: { name: string; digest: { sha256: string } }[];
    predicate: {
      buildDefinition: { resolvedDependencies: { uri?: string; name?: string; digest: Record<string, string> }[] };
      runDetails: { builder: { version: Record<string, string> } };
    };
  };
  expect(statement).toEqual({
    _type: "https://in-toto.io/Statement/v1",
    predicateType: "https://slsa.dev/provenance/v1",
  });
  const digests = new Map(subject.map(({ name, digest }) => [name, digest.sha256]));
  for (const file of Object.values(FILES)) {
    if (file !== FILES.provenance) expect(digests.get(file), file).toBe(sha256(join(releases[0]!, file)));
  }
  const { resolvedDependencies } = predicate.buildDefinition;
  expect(resolvedDependencies).toContainEqual(expect.objectContaining({ digest: { gitCommit: REVISION } }));
  const lock = createHash("sha256").update(execFileSync("git", ["show", "HEAD:package-lock.json"], { cwd: ROOT }));
  expect(resolvedDependencies).toContainEqual({ name: "package-lock.json", digest: { sha256: lock.digest("hex") } });
  const bases = resolvedDependencies.filter(({ uri }) => uri?.startsWith("pkg:docker/node@"));
  expect(bases.map(({ uri }) => uri!.split("platform=")[1])).toEqual(["linux/amd64", "linux/arm64"]);
  for (const { digest } of bases) expect(digest["sha256"]).toMatch(/^[0-9a-f]{64}$/);
  expect(predicate.runDetails.builder.version).toMatchObject({ node: process.versions.node, npm: expect.any(String) });
});

describe("the image", () => {
  const images: Partial<Record<"amd64" | "arm64", BuiltImage>> = {};

  beforeAll(() => {
    for (const architecture of ["amd64", "arm64"] as const) {
      const source = `oci-archive:${pathOf("image")}`;
      const id = store.buildah("pull", "--quiet", "--platform", `linux/${architecture}`, source).split("\n").at(-1)!;
      store.buildah("tag", id, `localhost/released-${architecture}`);
      images[architecture] = store.open(`localhost/released-${architecture}`, "OCIv1");
    }
  }, 300_000);

  test("is there for both kinds of processor, with the same program", () => {
    // e_machine of an ELF file.
    const machines = { amd64: 0x3e, arm64: 0xb7 };
    const programs = Object.entries(machines).map(([architecture, machine]) => {
      const { root } = images[architecture as "amd64" | "arm64"]!;
      const node = readFileSync(join(root, "usr/local/bin/node"));
      expect(node.readUInt16LE(18), architecture).toBe(machine);
      return execFileSync("/bin/sh", ["-c", "find . -type f -exec sha256sum {} + | sort -k 2"], {
        cwd: join(root, "app"),
        encoding: "utf8",
      });
    });
    expect(programs[0]).toBe(programs[1]);
    expect(programs[0]).toContain("dist/main.js");
    // Nothing of it was compiled for a processor.
    expect(programs[0]).not.toMatch(/\.node$/m);
  });

  test("has the program that the package has", () => {
    const unpacked = join(unpack(pathOf("package")), "package/dist");
    const { root } = images[THIS]!;
    for (const file of readdirSync(unpacked).filter((each) => each.endsWith(".js"))) {
      expect(sha256(join(root, "app/dist", file)), file).toBe(sha256(join(unpacked, file)));
    }
  });

  test("says which version and commit it is, and is dated by it", () => {
    for (const { config } of Object.values(images)) {
      expect(config.Labels).toMatchObject({
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.revision": REVISION,
      });
    }
    const { mtimeMs } = statSync(join(images.arm64!.root, "app/dist/main.js"));
    expect(mtimeMs).toBe(Number(git("log", "-1", "--format=%ct")) * 1_000);
  });

  test("starts as a user without rights on a read-only root, and says its version and commit", async () => {
    const image = images[THIS]!;
    const port = await findFreePort();
    const config = join(folder, "config");
    mkdirSync(config, { mode: 0o755 });
    const keys = {
      listen: { host: "127.0.0.1", port: 0 },
      operations: { host: "127.0.0.1", port },
      upstreams: [{ name: "amulet", urls: ["http://127.0.0.1:9"] }],
    };
    writeFileSync(join(config, "gateway.yaml"), stringify(keys), { mode: 0o644 });
    mkdirSync(join(image.root, "etc/registry-gateway"), { recursive: true });
    const container = Container.start(image, { [config]: "/etc/registry-gateway" });
    try {
      const ask = async (path: string) =>
        (await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined))?.text();
      await until(async () => (await ask("/livez")) !== undefined, 60_000);
      expect(statSync(`/proc/${container.pid}`)).toMatchObject({ uid: 1000, gid: 1000 });
      expect(container.run(["node", "-e", "require('fs').writeFileSync('/app/x', '')"]).stderr).toContain("EROFS");
      const said = container.run(["registry-gateway", "--version"]).stdout;
      expect(said).toBe(`${version} (${REVISION.slice(0, 12)})\n`);
      const labels = `version="${version}",revision="${REVISION.slice(0, 12)}"`;
      expect(await ask("/metrics")).toContain(labels);
      expect(await container.stop("SIGTERM")).toBe(0);
    } finally {
      await container.kill();
    }
  });
});
