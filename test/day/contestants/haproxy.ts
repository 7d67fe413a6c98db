import { HAPROXY } from "../../support/programs.ts";
import { startConfigured } from "../../support/servers.ts";
import type { Contestant, Scene } from "../play.ts";

/** HAProxy with its small-object cache. It has no purge, serves nothing stale, and does not join requests. */
export const haproxy: Contestant = {
  name: "HAProxy",
  async start(scene) {
    const { port, pid, child, stop } = await startConfigured({
      name: "HAProxy",
      program: HAPROXY,
      folder: scene.folder,
      configuration: (own) => configuration(scene, own),
      args: (file) => ["-W", "-f", file],
    });
    return {
      bases: ({ number }) => [`http://127.0.0.1:${port}/r${number}`],
      pids: () => [pid],
      // Its master starts a new worker, and the old one finishes what it has.
      restart: async () => void child.kill("SIGUSR2"),
      stop,
    };
  },
};

function configuration({ registries }: Scene, port: number): string {
  // One node of several is left out when it fails; a sole one is asked again at once.
  const watched = " observe layer4 error-limit 1 on-error mark-down check inter 10s";
  const backends = registries.map(
    ({ number, ports, maxAge }) => `
backend r${number}
  http-request del-header authorization
  http-request cache-use infos if { path_end /info } METH_GET
  http-request cache-use lists if !{ path_end /info } METH_GET
  # After these: the key is the path as it is then, and would be the same for all registries.
  http-request replace-path /[^/]+(/.*) \\1
  http-response deny deny_status 502 if { status 200 } !{ res.hdr(content-type) -m sub json }
  ${maxAge === undefined ? 'http-response set-header cache-control "max-age=600"' : ""}
  http-response cache-store infos if { capture.req.uri -m end /info }
  http-response cache-store lists if !{ capture.req.uri -m end /info }
  ${ports.map((each, node) => `server n${node} 127.0.0.1:${each}${ports.length > 1 ? watched : ""}`).join("\n  ")}`,
  );
  return `
global
  maxconn 8000
cache infos
  total-max-size 16
  max-object-size 1000000
  max-age 600
cache lists
  total-max-size 64
  max-object-size 1000000
  max-age 30
defaults
  mode http
  balance roundrobin
  retries 2
  option redispatch 1
  retry-on conn-failure empty-response response-timeout 502 503
  timeout connect 1s
  timeout client 75s
  timeout server 5s
  http-reuse always
frontend wallets
  bind 127.0.0.1:${port}
  use_backend %[path,word(1,/)]
${backends.join("\n")}
`;
}
