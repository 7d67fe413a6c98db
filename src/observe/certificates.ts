import { endsOf } from "../config/certificates.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { TlsFiles } from "../config/schema.ts";

/** End of a certificate of the configuration. */
export interface CertificateEnd {
  /** `listener`: clients see it. `client`: a registry or Redis sees it. `authority`: it signs those that they show. */
  readonly role: "listener" | "client" | "authority";
  /** Whose connections it is for: an upstream's name, `redis`, or `clients`. */
  readonly peer: string;
  /** Unix ms; of a file with several, the first that ends, but the listener's own: clients need no other of its file. */
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
  const endOf = (role: CertificateEnd["role"], peer: string, file: string | undefined): CertificateEnd[] => {
    const ends = file === undefined ? undefined : endsOf(texts.get(file) ?? "");
    return ends === undefined ? [] : [{ role, peer, endsAt: role === "listener" ? ends[0] : Math.min(...ends) }];
  };
  const towards = (peer: string, tls: TlsFiles | undefined): CertificateEnd[] => [
    ...endOf("client", peer, tls?.certFile),
    ...endOf("authority", peer, tls?.caFile),
  ];
  return [
    ...endOf("listener", "clients", listen.tls?.certFile),
    ...towards("redis", redis?.tls),
    ...upstreams.filter(({ enabled }) => enabled).flatMap(({ name, tls }) => towards(name, tls)),
  ];
}
