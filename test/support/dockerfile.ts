import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

/** One instruction of a Dockerfile. */
export interface Instruction {
  readonly name: string;
  readonly args: string;
}

/** The instructions of a Dockerfile, continued lines joined. */
export function parseDockerfile(text: string): Instruction[] {
  return text
    .replaceAll(/\\\n/g, " ")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [name, ...args] = line.split(/\s+/);
      return { name: name!.toUpperCase(), args: args.join(" ") };
    });
}

/** What the last stage leaves: a folder that stands for the root of the image, and how it is run. */
export interface BuiltImage {
  readonly root: string;
  /** Within the root. */
  readonly workdir: string;
  readonly entrypoint: readonly string[];
  readonly healthcheck: readonly string[];
  readonly user: string;
  readonly env: Readonly<Record<string, string>>;
}

interface Stage {
  readonly root: string;
  workdir: string;
  entrypoint: readonly string[];
  healthcheck: readonly string[];
  user: string;
  env: Record<string, string>;
}

/**
 * Runs the steps of a Dockerfile without a container engine: each stage is a folder, RUN runs in its working directory
 * with this machine's Node. Knows the instructions that ours uses, and refuses others.
 *
 * @param context the folder that COPY takes files from
 */
export function buildImage(context: string): BuiltImage {
  const stages = new Map<string, Stage>();
  const roots: string[] = [];
  let stage: Stage | undefined;
  for (const { name, args } of parseDockerfile(readFileSync(join(context, "Dockerfile"), "utf8"))) {
    if (name === "FROM") {
      stage = createStage();
      roots.push(stage.root);
      const alias = / AS (\S+)$/i.exec(args)?.[1];
      if (alias !== undefined) stages.set(alias, stage);
      continue;
    }
    if (stage === undefined) throw new Error(`${name} stands before FROM`);
    apply(stage, { name, args }, { context, stages });
  }
  for (const root of roots) if (root !== stage!.root) rmSync(root, { recursive: true });
  return stage!;
}

function createStage(): Stage {
  const root = mkdtempSync(join(tmpdir(), "image-"));
  return { root, workdir: "/", entrypoint: [], healthcheck: [], user: "0:0", env: {} };
}

function apply(
  stage: Stage,
  { name, args }: Instruction,
  { context, stages }: { context: string; stages: ReadonlyMap<string, Stage> },
): void {
  const folder = join(stage.root, stage.workdir);
  switch (name) {
    case "WORKDIR":
      stage.workdir = args;
      mkdirSync(join(stage.root, args), { recursive: true });
      return;
    case "COPY":
      copy(args, { context, stages, folder });
      return;
    case "RUN":
      execFileSync("/bin/sh", ["-c", args], {
        cwd: folder,
        env: { ...process.env, ...stage.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` },
        stdio: ["ignore", "ignore", "inherit"],
        timeout: 300_000,
      });
      return;
    case "ENV": {
      const [key, value] = args.split("=");
      stage.env[key!] = value!;
      return;
    }
    case "USER":
      stage.user = args;
      return;
    case "ENTRYPOINT":
      stage.entrypoint = JSON.parse(args) as string[];
      return;
    case "HEALTHCHECK":
      stage.healthcheck = JSON.parse(args.slice(args.indexOf("["))) as string[];
      return;
    case "CMD":
    case "EXPOSE":
    case "LABEL":
    case "STOPSIGNAL":
      return;
    default:
      throw new Error(`the Dockerfile has an instruction that this does not know: ${name}`);
  }
}

function copy(
  args: string,
  { context, stages, folder }: { context: string; stages: ReadonlyMap<string, Stage>; folder: string },
): void {
  const words = args.split(" ");
  const from = words[0]!.startsWith("--from=") ? words.shift()!.slice("--from=".length) : undefined;
  const target = join(folder, words.pop()!);
  const source = from === undefined ? context : stages.get(from)!.root;
  for (const word of words) {
    const file = join(source, word);
    if (!existsSync(file)) throw new Error(`COPY: there is no ${word}`);
    // A folder's contents are copied, a file goes into a folder that the target names with a slash.
    const isInto = !statSync(file).isDirectory() && args.endsWith("/");
    cpSync(file, isInto ? join(target, basename(file)) : target, { recursive: true, verbatimSymlinks: true });
  }
}
