import { execFileSync } from "node:child_process";
import { VARNISH } from "../../support/programs.ts";
import { startConfigured } from "../../support/servers.ts";
import type { Contestant, Scene } from "../play.ts";

/** Varnish: grace while a refresh runs, grace on errors by a restart, bans as purges. */
export const varnish: Contestant = {
  name: "Varnish",
  async start(scene) {
    const { folder } = scene;
    const work = `${folder}/work`;
    const start = (port?: number) =>
      startConfigured({
        name: "Varnish",
        program: VARNISH,
        folder,
        configuration: () => configuration(scene),
        args: (file, own) => ["-F", "-j", "none", "-n", work, "-a", `127.0.0.1:${own}`, "-f", file, "-s", "malloc,64m"],
        ...(port !== undefined && { port }),
      });
    let running = await start();
    return {
      bases: ({ number }) => [`http://127.0.0.1:${running.port}/r${number}`],
      pids: () => [running.pid],
      async purge({ number }) {
        execFileSync("varnishadm", ["-n", work, "ban", "obj.http.x-registry", "==", `r${number}`]);
      },
      async restart() {
        await running.stop();
        running = await start(running.port);
      },
      stop: () => running.stop(),
    };
  },
};

function configuration({ registries }: Scene): string {
  const patience = ".connect_timeout = 1s; .first_byte_timeout = 5s; .between_bytes_timeout = 5s;";
  const backends = registries.flatMap(({ number, ports }) =>
    ports.map((port, node) => `backend r${number}_${node} { .host = "127.0.0.1"; .port = "${port}"; ${patience} }`),
  );
  const directors = registries.flatMap(({ number, ports }) => [
    `  new r${number} = directors.round_robin();`,
    ...ports.map((_port, node) => `  r${number}.add_backend(r${number}_${node});`),
  ]);
  const routes = registries.map(
    ({ number }) => `if (req.url ~ "^/r${number}/") { set req.backend_hint = r${number}.backend(); }`,
  );
  // Stale on errors: looked up once more, with all the grace that the entry has.
  const again = `req.restarts == 0 && req.method == "GET") {
    set req.url = "/" + req.http.x-registry + req.url;
    return (restart);
  }`;
  return `vcl 4.1;
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
sub vcl_hash { hash_data(req.http.x-registry); hash_data(req.url); return (lookup); }
sub vcl_backend_fetch { unset bereq.http.Authorization; }
sub vcl_backend_response {
  set beresp.http.x-registry = bereq.http.x-registry;
  if (beresp.status != 200 && beresp.status != 304) {
    # A refresh that failed leaves what is there; else another node is asked, where there is one.
    if (bereq.is_bgfetch) { return (abandon); }
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
  if ((resp.status >= 500 || resp.status == 429) && ${again}
  unset resp.http.x-registry;
}
sub vcl_synth { if (resp.status >= 500 && ${again} }
`;
}
