import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { startProgram, stop } from "../../bench/child.ts";
import { untilListening } from "../../bench/server.ts";
import { findFreePort } from "../../support/ports.ts";
import { provideProgram, VARNISH } from "../../support/programs.ts";
import { type Contestant, type Scene, writeConfiguration } from "../contestant.ts";

/**
 * Varnish: grace while a refresh runs, grace on errors by a restart, bans as purges. Debian's package has no saint mode
 * (`vmod_saintmode` is in varnish-modules); what it does for a sole backend, to serve what is stale, the restart does.
 */
export const varnish: Contestant = {
  name: "Varnish",
  async start(scene) {
    const program = provideProgram(VARNISH);
    const port = await findFreePort();
    const file = writeConfiguration(scene, "day.vcl", configuration(scene));
    const log = join(scene.folder, "varnishd.log");
    const work = join(scene.folder, "work");
    const begin = async () => {
      const args = ["-F", "-j", "none", "-n", work, "-a", `127.0.0.1:${port}`, "-f", file, "-s", "malloc,64m"];
      const child = startProgram(program, args, log);
      await untilListening(child, port, log);
      return child;
    };
    let child = await begin();
    return {
      bases: ({ number }) => [`http://127.0.0.1:${port}/r${number}`],
      pids: () => [child.pid!],
      purge: async ({ number }) => {
        execFileSync("varnishadm", ["-n", work, "ban", "obj.http.x-registry", "==", `r${number}`]);
      },
      async restart() {
        await stop(child);
        child = await begin();
      },
      stop: () => stop(child),
    };
  },
};

function configuration({ registries }: Scene): string {
  const backends = registries.flatMap(({ number, ports }) =>
    ports.map(
      (port, node) => `backend r${number}_${node} {
  .host = "127.0.0.1"; .port = "${port}";
  .connect_timeout = 1s; .first_byte_timeout = 5s; .between_bytes_timeout = 5s;
}`,
    ),
  );
  const directors = registries.flatMap(({ number, ports }) => [
    `  new r${number} = directors.round_robin();`,
    ...ports.map((_, node) => `  r${number}.add_backend(r${number}_${node});`),
  ]);
  const routes = registries.map(
    ({ number }) => `if (req.url ~ "^/r${number}/") { set req.backend_hint = r${number}.backend(); }`,
  );
  return `
vcl 4.1;
import directors;
${backends.join("\n")}
sub vcl_init {
${directors.join("\n")}
}
sub vcl_recv {
  ${routes.join("\n  else ")}
  set req.http.x-registry = regsub(req.url, "^/(r[0-9]+)/.*", "\\1");
  set req.url = regsub(req.url, "^/r[0-9]+", "");
  if (req.restarts > 0) { set req.grace = 10m; } else { set req.grace = 30s; }
  if (req.method != "GET" && req.method != "HEAD") { return (pass); }
  unset req.http.Authorization;
  unset req.http.Cookie;
  return (hash);
}
sub vcl_hash {
  hash_data(req.http.x-registry);
  hash_data(req.url);
  return (lookup);
}
sub vcl_backend_fetch {
  unset bereq.http.Authorization;
}
sub vcl_backend_response {
  set beresp.http.x-registry = bereq.http.x-registry;
  if (beresp.status != 200 && beresp.status != 304 || beresp.http.content-type !~ "json") {
    # A refresh that failed leaves what is there; another answer is an error that vcl_deliver looks at.
    if (bereq.is_bgfetch) { return (abandon); }
    if (beresp.status == 200) { return (error(502, "Not JSON")); }
    # Another node, where there is one.
    if (beresp.status >= 502 && bereq.retries < 1) { return (retry); }
    set beresp.uncacheable = true;
    set beresp.ttl = 0s;
    return (deliver);
  }
  if (!beresp.http.Cache-Control) {
    if (bereq.url ~ "/info$") { set beresp.ttl = 10m; } else { set beresp.ttl = 30s; }
  }
  set beresp.grace = 10m;
  set beresp.keep = 10m;
  return (deliver);
}
sub vcl_backend_error {
  if (bereq.is_bgfetch) { return (abandon); }
  if (bereq.retries < 1) { return (retry); }
}
sub vcl_deliver {
  # Stale on errors: looked up once more, with all the grace that the entry has.
  if ((resp.status >= 500 || resp.status == 429) && req.restarts == 0 && req.method == "GET") {
    set req.url = "/" + req.http.x-registry + req.url;
    return (restart);
  }
  unset resp.http.x-registry;
}
sub vcl_synth {
  if (resp.status >= 500 && req.restarts == 0 && req.method == "GET") {
    set req.url = "/" + req.http.x-registry + req.url;
    return (restart);
  }
}
`;
}
