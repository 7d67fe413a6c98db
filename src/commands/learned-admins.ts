import { isLoopback } from "../config/urls.ts";
import type { Config } from "../config/schema.ts";

/** For a gateway that was started with flags alone: tells people which registries it found, and how to address them. */
export class LearnedAdmins {
  private readonly config: Config;
  private readonly print: (line: string) => void;
  private readonly early: (readonly [upstream: string, admin: string])[] = [];
  private port: number | undefined;

  /** @param print called with each line */
  constructor(config: Config, print: (line: string) => void) {
    this.config = config;
    this.print = print;
  }

  /** An upstream's admin is known. */
  learn(upstream: string, admin: string): void {
    if (this.port === undefined) this.early.push([upstream, admin]);
    else this.tell(upstream, admin);
  }

  /** The gateway can be reached at `port` from now on. */
  listening(port: number): void {
    this.port = port;
    for (const [upstream, admin] of this.early.splice(0)) this.tell(upstream, admin);
  }

  private tell(upstream: string, admin: string): void {
    const { listen, routing } = this.config;
    const host =
      isLoopback(listen.host) || listen.host === "0.0.0.0" || listen.host === "::" ? "localhost" : listen.host;
    const base = `http://${host}:${this.port}${routing.prefix}/${encodeURIComponent(admin)}`;
    this.print(`${upstream}: instrument admin ${admin}`);
    this.print(`  base URL ${base}`);
  }
}
