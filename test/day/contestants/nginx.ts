import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { findFreePort } from "../../support/ports.ts";
import { NGINX, provideProgram } from "../../support/programs.ts";
import { until } from "../../support/until.ts";
import { type Contestant, type PlacedRegistry, type Scene, writeConfiguration } from "../contestant.ts";
import { pagesOf, pathOf, type Question } from "../truth.ts";

/** nginx with proxy_cache: one fetch at a time for each key, refreshed in the background, stale on errors. */
export const nginx: Contestant = {
  name: "nginx",
  async start(scene) {
    const program = provideProgram(NGINX);
    const port = await findFreePort();
    mkdirSync(join(scene.folder, "cache"));
    const file = writeConfiguration(scene, "nginx.conf", configuration(scene, port));
    const pidFile = join(scene.folder, "nginx.pid");
    const pidIn = (path: string) => (existsSync(path) ? Number(readFileSync(path, "utf8")) : 0);
    // It is a daemon: only such a one can be replaced while it runs.
    execFileSync(program, ["-c", file, "-p", scene.folder, "-e", join(scene.folder, "error.log")]);
    const kill = () => pidIn(pidFile) > 0 && process.kill(pidIn(pidFile), "SIGTERM");
    process.once("exit", kill);
    const base = ({ number }: PlacedRegistry) => `http://127.0.0.1:${port}/r${number}`;
    return {
      bases: (registry) => [base(registry)],
      pids: () => [pidIn(pidFile)],
      // The free nginx has no purge; what it has is a request that goes past the cache and is stored.
      async purge(registry) {
        const fetchAnew = (question: Question) =>
          fetch(base(registry) + pathOf(registry, question), { headers: { "x-refresh": "1" } });
        // A worker that quits may close the connection.
        const ask = (question: Question) => fetchAnew(question).catch(() => fetchAnew(question));
        await ask({ kind: "info" });
        for (let page = 0; page < pagesOf(registry); page += 1) await ask({ kind: "page", page });
      },
      // "Upgrading an executable on the fly": a new master beside the old one, then the old one quits.
      async restart() {
        const old = pidIn(pidFile);
        process.kill(old, "SIGUSR2");
        await until(() => ![0, old].includes(pidIn(pidFile)));
        process.kill(old, "SIGQUIT");
      },
      async stop() {
        process.off("exit", kill);
        kill();
        await until(() => !existsSync(pidFile));
      },
    };
  },
};

function configuration({ registries, folder }: Scene, port: number): string {
  const upstreams = registries.map(
    ({ number, ports }) => `
  upstream r${number} {
    ${ports.map((each) => `server 127.0.0.1:${each} max_fails=1 fail_timeout=10s;`).join(" ")}
    keepalive 16;
  }`,
  );
  const locations = registries.map(
    ({ number }) => `
    location = /r${number}/registry/metadata/v1/info {
      proxy_cache infos;
      proxy_cache_valid 200 10m;
      proxy_pass http://r${number}/registry/metadata/v1/info;
    }
    location /r${number}/registry/metadata/ {
      proxy_cache lists;
      proxy_cache_valid 200 30s;
      proxy_pass http://r${number}/registry/metadata/;
    }
    location /r${number}/ {
      proxy_next_upstream error timeout http_502 http_503 non_idempotent;
      proxy_pass http://r${number}/;
    }`,
  );
  // Root's nginx gives its workers to a user who may not write here.
  const user = process.getuid?.() === 0 ? "user root;" : "";
  return `
${user}
worker_processes auto;
pid ${join(folder, "nginx.pid")};
error_log ${join(folder, "error.log")} crit;
events { worker_connections 8192; }
http {
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => `${kind}_temp_path ${join(folder, kind)};`).join("\n  ")}
  # inactive bounds how stale an answer may be that is refreshed in the background: 30 s beyond its lifetime. Infos last.
  proxy_cache_path ${join(folder, "cache/lists")} levels=1:2 keys_zone=lists:8m max_size=64m inactive=30s use_temp_path=off;
  proxy_cache_path ${join(folder, "cache/infos")} levels=1:2 keys_zone=infos:8m max_size=64m inactive=11m use_temp_path=off;
  map $upstream_cache_status $is_logged { HIT 0; default 1; }
  map $upstream_http_content_type $is_unreadable { default 1; "~json" 0; }
  access_log ${join(folder, "access.log")} combined if=$is_logged buffer=32k flush=1s;
  keepalive_timeout 75s;
  keepalive_requests 1000000;
  ${upstreams.join("")}
  server {
    listen 127.0.0.1:${port} backlog=4096;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Authorization "";
    proxy_buffers 8 16k;
    proxy_connect_timeout 1s;
    proxy_read_timeout 5s;
    proxy_next_upstream error timeout http_502 http_503;
    proxy_cache_key $uri$is_args$args;
    proxy_cache_lock on;
    proxy_cache_background_update on;
    proxy_cache_revalidate on;
    proxy_cache_use_stale error timeout invalid_header updating http_500 http_502 http_503 http_504 http_429;
    proxy_cache_bypass $http_x_refresh;
    proxy_no_cache $is_unreadable;
    ${locations.join("")}
  }
}
`;
}
