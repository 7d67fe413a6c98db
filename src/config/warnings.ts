import { statSync } from "node:fs";
import { type Setting, settingsOf, upstreamSettingsOf } from "./diff.ts";
import type { Config, UpstreamConfig } from "./schema.ts";
import { hostGroupOf, isLoopback, isReadable, nodeAddressOf } from "./urls.ts";

/** Every key that has a value; upstreams are named, not numbered. */
function listSettings(config: Config): Map<string, Setting> {
  const settings = new Map(settingsOf(config));
  for (const upstream of config.upstreams) {
    for (const [path, setting] of upstreamSettingsOf(upstream)) {
      settings.set(`upstreams[${upstream.name}].${path}`, setting);
    }
  }
  return settings;
}

function warnOfOperations({ host, token, tokenFile, tokens }: Config["operations"]): string[] {
  if (isLoopback(host) || token !== undefined || tokenFile !== undefined || tokens.length > 0) return [];
  return [
    `operations.host ${host} can be reached from other machines and no operations.token, tokenFile or tokens is set: only probes and metrics are answered there`,
  ];
}

function warnOfProxies({ trustedProxies }: Config["listen"]): string[] {
  return trustedProxies
    .filter((range) => range.endsWith("/0"))
    .map(
      (range) => `listen.trustedProxies ${range}: every client may say which address it has, and so be any other one`,
    );
}

function warnOfPlainText({ name, auth, forwardAuthorization, urls }: UpstreamConfig): string[] {
  const warnings: string[] = [];
  if (
    (auth !== undefined || forwardAuthorization !== false) &&
    urls.some((node) => isReadable(nodeAddressOf(node).url))
  ) {
    const whose = auth === undefined ? "the clients' Authorization" : "its credentials";
    warnings.push(`upstreams[${name}].urls: ${whose} can be read on the way: use https:// beyond this machine`);
  }
  if (auth?.oauth2 !== undefined && isReadable(auth.oauth2.tokenUrl)) {
    warnings.push(
      `upstreams[${name}].auth.oauth2.tokenUrl: the client secret can be read on the way: use https:// beyond this machine`,
    );
  }
  return warnings;
}

/** Files with secrets that every user of this machine may read. */
function warnOfFiles(config: Config): string[] {
  return [...listSettings(config)]
    .filter(([, { value, isSecretFile }]) => isSecretFile && isWorldReadable(String(value)))
    .map(([path]) => `${path}: every user of this machine can read the file: take that right from others (chmod o-r)`);
}

function isWorldReadable(file: string): boolean {
  try {
    // On Windows the bits say nothing.
    return process.platform !== "win32" && (statSync(file).mode & 0o004) !== 0;
  } catch {
    return false;
  }
}

function warnOfUpstream(upstream: UpstreamConfig): string[] {
  const { name, auth, cache } = upstream;
  const warnings = warnOfPlainText(upstream);
  if (auth !== undefined) {
    warnings.push(`upstreams[${name}].auth: every client that reaches this gateway may use these credentials`);
  }
  if (cache.forwardRequestHeaders === "*") {
    warnings.push(
      `upstreams[${name}].cache.forwardRequestHeaders "*": answers differ by the upstream's Vary alone; use it only where clients are trusted`,
    );
  }
  return warnings;
}

function warnOfPlain({ routing: { plain }, upstreams }: Config): string[] {
  if (!upstreams.some(({ name, enabled }) => name === plain && !enabled)) return [];
  return [`routing.plain: the upstream ${plain} is not enabled: requests that name no registry are refused`];
}

function warnOfDiscovery({ discovery }: Config): string[] {
  if (discovery === undefined) return [];
  const { defaults, approve, allowPrivate } = discovery;
  return [
    ...(defaults.auth === undefined && defaults.forwardAuthorization === false && defaults.tls?.certFile === undefined
      ? []
      : ["discovery.defaults: credentials go to every registry that is found, whatever list names it"]),
    ...(approve === "all"
      ? ['discovery.approve "all": a party that can alter a list and claims an admin gets the requests to its registry']
      : []),
    ...(allowPrivate
      ? [
          "discovery.allowPrivate: a party that can alter a list can have machines of this network asked, and without TLS",
        ]
      : []),
  ];
}

/** Registries behind one host whose limits do not know of each other. */
function warnOfSharedHosts(config: Config): string[] {
  const byHost = new Map<string, string[]>();
  for (const { enabled, name, rateLimit, urls } of config.upstreams) {
    const host = hostGroupOf(urls);
    if (!enabled || rateLimit === undefined || rateLimit.group !== undefined || host === undefined) continue;
    byHost.set(host, [...(byHost.get(host) ?? []), name]);
  }
  return [...byHost.values()]
    .filter((names) => names.length > 1)
    .map(
      ([first, ...others]) =>
        `upstreams[${first}].rateLimit: ${others.join(", ")} is behind the same host and counts its calls by itself; where the host counts them together, give them one rateLimit.group`,
    );
}

/** What `check` says where an upstream's admin is not pinned: the first answer at its URLs teaches it. */
export function warnOfUnpinned(config: Config): string[] {
  return config.upstreams
    .filter(({ enabled, admin }) => enabled && admin === undefined)
    .map(
      ({ name }) =>
        `upstreams[${name}].admin is not set: whatever answers at its urls says which registry it is, and one node that says otherwise stops all of them; check --live prints the line to paste`,
    );
}

/** What an operator should know about a good configuration: what is safe only where clients are trusted. */
export function warnings(config: Config): string[] {
  return [
    ...warnOfOperations(config.operations),
    ...warnOfProxies(config.listen),
    ...config.upstreams.filter(({ enabled }) => enabled).flatMap(warnOfUpstream),
    ...warnOfPlain(config),
    ...warnOfDiscovery(config),
    ...warnOfSharedHosts(config),
    ...warnOfFiles(config),
  ];
}
