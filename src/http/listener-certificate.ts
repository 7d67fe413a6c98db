import { constants } from "node:crypto";
import type { Server } from "node:https";
import type { SecureContextOptions } from "node:tls";
import type { CancelTimer, Clock, Duration } from "../clock.ts";
import { type CertificateStatus, certificatesOf } from "../config/certificates.ts";
import type { Config } from "../config/schema.ts";
import { readTls, type TlsMaterial } from "../config/tls-files.ts";
import { WatchedFiles } from "../config/watched-files.ts";

/** How often the files are looked at. */
const LOOK_EVERY: Duration = 5_000;

export type ListenTls = NonNullable<Config["listen"]["tls"]>;

export interface ListenerCertificateOptions {
  readonly tls: ListenTls;
  readonly clock: Clock;
  /** Told of each look at the files: why they are no good, or undefined. */
  readonly onLook: (fault: string | undefined) => void;
  /** Told of files that took the place of others. */
  readonly onReplaced: (now: readonly CertificateStatus[]) => void;
}

/**
 * What the listener shows to clients, and by which authorities it knows them: read again when the files change. A
 * connection keeps what its handshake was made with; what is no good leaves the last good one in use.
 */
export class ListenerCertificate {
  readonly clientAuth: ListenTls["clientAuth"];
  readonly offersHttp2: boolean;
  private readonly options: ListenerCertificateOptions;
  private readonly files: WatchedFiles<TlsMaterial>;
  private readonly servers: Pick<Server, "setSecureContext">[] = [];
  private inUse: TlsMaterial;
  private cancelLook: CancelTimer = () => {};

  /** @throws Error when the files hold nothing good */
  constructor(options: ListenerCertificateOptions) {
    const { certFile, keyFile, clientCaFile, clientAuth } = options.tls;
    this.options = options;
    this.clientAuth = clientAuth;
    this.offersHttp2 = options.tls.http2;
    let fault: string | undefined;
    this.files = new WatchedFiles<TlsMaterial>({
      clock: options.clock,
      files: [certFile, keyFile, clientCaFile].filter((file) => file !== undefined),
      read: () => readTls({ certFile, keyFile, caFile: clientCaFile }),
      onLook(found) {
        fault = found;
        options.onLook(found);
      },
    });
    const read = this.files.latest();
    if (read === undefined) throw new Error(`listen.tls cannot be used: ${fault}`);
    this.inUse = read;
  }

  /** For handshakes from now on. */
  context(): SecureContextOptions {
    const { cert, key, ca } = this.inUse;
    return {
      cert: cert!,
      key: key!,
      // Else the system's authorities would vouch for clients.
      ca: ca ?? [],
      minVersion: "TLSv1.2",
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    };
  }

  /** Gives a server what takes the place of what it has. */
  follow(server: Pick<Server, "setSecureContext">): void {
    this.servers.push(server);
  }

  /** Looks at the files from now on. */
  start(): void {
    this.cancelLook = this.options.clock.after(LOOK_EVERY, () => {
      void this.look().then(() => this.start());
    });
  }

  stop(): void {
    this.cancelLook();
    this.start = () => {};
  }

  /** When what is in use ends. */
  certificates(): readonly CertificateStatus[] {
    return certificatesOf(this.inUse, "listener", "client_authority");
  }

  private async look(): Promise<void> {
    const read = await this.files.current();
    if (read === undefined || isSame(read, this.inUse)) return;
    this.inUse = read;
    const context = this.context();
    for (const server of this.servers) server.setSecureContext(context);
    this.options.onReplaced(this.certificates());
  }
}

function isSame(one: TlsMaterial, other: TlsMaterial): boolean {
  return one.cert === other.cert && one.key === other.key && one.ca === other.ca;
}
