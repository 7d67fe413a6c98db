import { parseArgs } from "node:util";
import { writeSection } from "../bench/report.ts";
import { gateway, gatewayWithRedis } from "./contestants/gateway.ts";
import { haproxy } from "./contestants/haproxy.ts";
import { nginx } from "./contestants/nginx.ts";
import { noProxy, stockProxy } from "./contestants/proxies.ts";
import { varnish } from "./contestants/varnish.ts";
import { planDay } from "./plan.ts";
import { type Contestant, playDay } from "./play.ts";
import { formatReport, keep } from "./report.ts";

/** In the order of the table. */
const CONTESTANTS: readonly Contestant[] = [gateway, gatewayWithRedis, nginx, varnish, haproxy, noProxy, stockProxy];

const USAGE = `npm run day -- [--quick | --minutes N] [--only NAME] … [--report] [--write]

A day of wallets, with faults, through this gateway and through other servers, one after the other.

  --minutes N  of real time into which each contestant's day is squeezed (10)
  --quick      the same as --minutes 2
  --only NAME  ${CONTESTANTS.map(({ name }) => name).join("; ")}
  --report     play nothing: the tables of what was played before
  --write      put the tables into docs/performance.md: medians of the last three days of each contestant`;

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    minutes: { type: "string" },
    only: { type: "string", multiple: true },
    report: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

async function main(): Promise<void> {
  if (values.help) return console.log(USAGE);
  const unknown = values.only?.find((each) => !CONTESTANTS.some(({ name }) => name === each));
  const minutes = Number(values.minutes ?? (values.quick ? 2 : 10));
  if (unknown !== undefined || !(minutes >= 0.1 && minutes <= 60)) throw new Error(USAGE);
  for (const contestant of values.report ? [] : CONTESTANTS) {
    if (values.only?.includes(contestant.name) === false) continue;
    try {
      const result = await playDay(contestant, planDay(minutes));
      keep(result);
      console.error([contestant.name, ...result.wallets.troubles].join("\n  "));
    } catch (error) {
      console.error(contestant.name, error);
      process.exitCode = 1;
    }
  }
  const names = CONTESTANTS.map(({ name }) => name);
  const report = formatReport(names, minutes);
  console.log(report);
  if (values.write) writeSection("day", report);
}

// Signals end the day as errors do: what it started ends with the process.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
await main();
