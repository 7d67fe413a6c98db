/**
 * Loaded before a program (`--import`): measures how long work holds its event loop, and tells it over HTTP on
 * `HELD_LOOP_PORT`, each time since the time before, as JSON in milliseconds: `held`, of CPU between two looks at the
 * loop, which other processes of a busy machine take no part in; and `delay`, of the clock.
 */
import { createServer } from "node:http";
import { monitorEventLoopDelay } from "node:perf_hooks";

const histogram = monitorEventLoopDelay({ resolution: 1 });
histogram.enable();

let held = 0;
let last = process.threadCpuUsage();
function look(): void {
  const now = process.threadCpuUsage();
  held = Math.max(held, now.user + now.system - last.user - last.system);
  last = now;
  setTimeout(look, 1).unref();
}
look();

createServer((_request, response) => {
  response.end(JSON.stringify({ held: Math.round(held / 1_000), delay: Math.round(histogram.max / 1e6) }));
  held = 0;
  histogram.reset();
})
  .listen(Number(process.env["HELD_LOOP_PORT"]), "127.0.0.1")
  .unref();
