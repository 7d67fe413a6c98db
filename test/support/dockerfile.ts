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
