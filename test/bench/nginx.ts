import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startProgram, stop } from "./child.ts";
import { findProgram, NGINX } from "../support/programs.ts";
import { findFreePort } from "../support/ports.ts";
import { type BenchServer, untilListening } from "./server.ts";

export interface NginxOptions {
  /** Port of the server behind it. */
  readonly upstream: number;
  /** Keep answers (`proxy_cache`), or only pass requests on (`proxy_pass`). */
  readonly caches: boolean;
  /** A folder of its own. */
  readonly folder: string;
}

export const findNginx = () => findProgram(NGINX);

/** One nginx worker as its documentation tunes it, logging what the gateway logs: requests that are no hits. */
export async function startNginx(options: NginxOptions): Promise<BenchServer> {
  const { folder, caches } = options;
  const port = await findFreePort();
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "nginx.conf");
  const logFile = join(folder, "error.log");
  writeFileSync(file, configuration(options, port));
  const child = startProgram(findNginx()!, ["-c", file, "-p", folder, "-e", logFile], logFile);
  await untilListening(child, port, logFile);
  return {
    name: caches ? "nginx proxy_cache" : "nginx proxy_pass",
    pid: child.pid!,
    port,
    stop: () => stop(child),
  };
}

function configuration({ upstream, caches, folder }: NginxOptions, port: number): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (kind) => `${kind}_temp_path ${join(folder, kind)};`,
  );
  const cache = `
    proxy_cache bench;
    proxy_cache_lock on;
    proxy_cache_valid 200 1h;
    proxy_ignore_headers Cache-Control Expires X-Accel-Expires Set-Cookie Vary;`;
  return `
daemon off;
master_process off;
worker_processes 1;
pid ${join(folder, "nginx.pid")};
error_log ${join(folder, "error.log")} crit;
events { worker_connections 1024; }
http {
  ${temporary.join("\n  ")}
  proxy_cache_path ${join(folder, "cache")} levels=1:2 keys_zone=bench:16m max_size=256m inactive=1h use_temp_path=off;
  access_log ${caches ? "off" : join(folder, "access.log")};
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 72s;
  keepalive_requests 1000000000;
  upstream registry {
    server 127.0.0.1:${upstream};
    keepalive 128;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://registry;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffers 8 16k;${caches ? cache : ""}
    }
  }
}
`;
}
