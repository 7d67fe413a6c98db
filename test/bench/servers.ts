import { startModule, stop } from "../support/forks.ts";
import { NGINX, VARNISH } from "../support/programs.ts";
import { type Server, startConfigured } from "../support/servers.ts";
import type { NodeServer } from "./node-process.ts";

/** The servers beside the gateway. */

const NAMES = { bare: "bare node:http", "http-proxy": "stock @fastify/http-proxy", registry: "registry" };

export async function startNode(options: NodeServer): Promise<Server> {
  const { child, told } = await startModule(new URL("node-process.ts", import.meta.url), options);
  const { port } = told as { port: number };
  return { name: NAMES[options.kind], pid: child.pid!, port, stop: () => stop(child) };
}

/** The port of the server behind, and a folder of its own. */
type Before = Record<"upstream", number> & Record<"folder", string>;

/** One nginx worker as its documentation tunes it, which logs what the gateway logs: requests that are no hits. */
export async function startNginx({ upstream, folder, caches }: Before & { caches: boolean }): Promise<Server> {
  const cache = `proxy_cache bench; proxy_cache_lock on; proxy_cache_valid 200 1h;
      proxy_ignore_headers Cache-Control Expires X-Accel-Expires Set-Cookie Vary;`;
  const configuration = (port: number): string => `daemon off; master_process off; worker_processes 1;
pid ${folder}/nginx.pid; error_log ${folder}/log crit; events { worker_connections 1024; }
http {
  ${nginxFolders(folder)}
  proxy_cache_path ${folder}/cache levels=1:2 keys_zone=bench:16m max_size=256m inactive=1h use_temp_path=off;
  access_log ${caches ? "off" : `${folder}/access.log`};
  sendfile on; tcp_nopush on; keepalive_timeout 72s; keepalive_requests 1000000000;
  upstream registry { server 127.0.0.1:${upstream}; keepalive 128; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://registry; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffers 8 16k;
      ${caches ? cache : ""}
    }
  }
}
`;
  const name = caches ? "nginx proxy_cache" : "nginx proxy_pass";
  const args = (file: string): string[] => ["-c", file, "-p", folder, "-e", `${folder}/log`];
  return startConfigured({ name, program: NGINX, folder, configuration, args });
}

/** Where nginx may write. */
export function nginxFolders(folder: string): string {
  const kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join("\n  ");
}

/** Varnish with its default settings, in memory. */
export async function startVarnish({ upstream, folder }: Before): Promise<Server> {
  const configuration = (): string => `vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "${upstream}"; }
sub vcl_backend_response { set beresp.ttl = 1h; return (deliver); }
`;
  const args = (file: string, port: number): string[] => [
    "-F",
    "-j",
    "none",
    "-n",
    `${folder}/work`,
    "-a",
    `127.0.0.1:${port}`,
    "-f",
    file,
    "-s",
    "malloc,256m",
    "-T",
    "none",
  ];
  return startConfigured({ name: "Varnish", program: VARNISH, folder, configuration, args });
}
