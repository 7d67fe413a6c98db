import { nginxFolders } from "../../bench/servers.ts";
import { NGINX } from "../../support/programs.ts";
import { startConfigured } from "../../support/servers.ts";
import type { Contestant, Scene } from "../play.ts";

/** nginx with proxy_cache: one fetch at a time for each key, refreshed in the background, stale on errors. It has no purge. */
export const nginx: Contestant = {
  name: "nginx",
  async start(scene) {
    const { folder } = scene;
    const { port, pid, child, stop } = await startConfigured({
      name: "nginx",
      program: NGINX,
      folder,
      configuration: (own) => configuration(scene, own),
      args: (file) => ["-c", file, "-p", folder, "-e", `${folder}/error.log`],
    });
    return {
      bases: ({ number }) => [`http://127.0.0.1:${port}/r${number}`],
      pids: () => [pid],
      // New workers, while the old ones finish what they have.
      restart: async () => void child.kill("SIGHUP"),
      stop,
    };
  },
};

function configuration({ registries, folder }: Scene, port: number): string {
  const upstreams = registries.map(({ number, ports }) => {
    const servers = ports.map((each) => `server 127.0.0.1:${each} max_fails=1 fail_timeout=10s;`);
    return `  upstream r${number} { ${servers.join(" ")} keepalive 16; }`;
  });
  const locations = registries.map(({ number }) => {
    const metadata = "registry/metadata/";
    const info = `${metadata}v1/info`;
    return `
    location = /r${number}/${info} { proxy_cache infos; proxy_cache_valid 200 10m; proxy_pass http://r${number}/${info}; }
    location /r${number}/${metadata} {
      proxy_cache lists; proxy_cache_valid 200 30s; proxy_pass http://r${number}/${metadata};
    }
    location /r${number}/ {
      proxy_next_upstream error timeout http_502 http_503 non_idempotent; proxy_pass http://r${number}/;
    }`;
  });
  // Root's nginx gives its workers to a user who may not write here.
  return `${process.getuid?.() === 0 ? "user root;" : ""}
daemon off; worker_processes auto; pid ${folder}/nginx.pid; error_log ${folder}/error.log crit;
events { worker_connections 8192; }
http {
  ${nginxFolders(folder)}
  # inactive bounds how stale an answer may be that is refreshed in the background: 30 s beyond its lifetime. Infos last.
  proxy_cache_path ${folder}/lists levels=1:2 keys_zone=lists:8m max_size=64m inactive=30s use_temp_path=off;
  proxy_cache_path ${folder}/infos levels=1:2 keys_zone=infos:8m max_size=64m inactive=11m use_temp_path=off;
  map $upstream_cache_status $is_logged { HIT 0; default 1; }
  map $upstream_http_content_type $is_unreadable { default 1; "~json" 0; }
  access_log ${folder}/access.log combined if=$is_logged buffer=32k flush=1s;
  keepalive_timeout 75s; keepalive_requests 1000000;
${upstreams.join("\n")}
  server {
    listen 127.0.0.1:${port} backlog=4096;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Authorization ""; proxy_buffers 8 16k;
    proxy_connect_timeout 1s; proxy_read_timeout 5s; proxy_next_upstream error timeout http_502 http_503;
    proxy_cache_key $uri$is_args$args; proxy_cache_lock on; proxy_cache_background_update on; proxy_cache_revalidate on;
    proxy_cache_use_stale error timeout invalid_header updating http_500 http_502 http_503 http_504 http_429;
    proxy_no_cache $is_unreadable;${locations.join("")}
  }
}
`;
}
