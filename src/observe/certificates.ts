import { firstEnd } from "../config/certificates.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { TlsFiles } from "../config/schema.ts";

/** End of a certificate of the configuration. */
export interface CertificateEnd {
  /** `listener`: clients see it. `client`: a registry or Redis sees it. `authority`: it signs those that they show. */
  readonly role: "listener" | "client" | "authority";
  /** Whose connections it is for: an upstream's name, `redis`, or `clients`. */
  readonly peer: string;
  /** Unix ms; of a file with several, the first that ends. */
  readonly endsAt: number;
}

const known = new WeakMap<LoadedConfig, readonly CertificateEnd[]>();

/** The certificates that a configuration names. Read once for each configuration. */
export function certificateEnds(loaded: LoadedConfig): readonly CertificateEnd[] {
  let ends = known.get(loaded);
  if (ends === undefined) known.set(loaded, (ends = readEnds(loaded)));
  return ends;
}

function readEnds({ config, texts }: LoadedConfig): CertificateEnd[] {
  const { listen, redis, upstreams } = config;
  const endsOf = (role: CertificateEnd["role"], peer: string, file: string | undefined): CertificateEnd[] => {
    const endsAt = file === undefined ? undefined : firstEnd(texts.get(file) ?? "");
    return endsAt === undefined ? [] : [{ role, peer, endsAt }];
  };
  const towards = (peer: string, tls: TlsFiles | undefined): CertificateEnd[] => [
    ...endsOf("client", peer, tls?.certFile),
    ...endsOf("authority", peer, tls?.caFile),
  ];
  return [
    ...endsOf("listener", "clients", listen.tls?.certFile),
    ...towards("redis", redis?.tls),
    ...upstreams.filter(({ enabled }) => enabled).flatMap(({ name, tls }) => towards(name, tls)),
  ];
}
