import { constants } from "node:crypto";
import type { RequestListener, Server, ServerOptions } from "node:http";
import { createServer, type Server as TlsServer } from "node:https";
import type { SecureContextOptions } from "node:tls";
import type { Duration } from "../clock.ts";
import {
  certificatesOf,
  type CertificateStatus,
  findTimeFault,
  readTls,
  type TlsMaterial,
  validityOf,
} from "../config/certificates.ts";
import type { Config } from "../config/schema.ts";
import { FileFault } from "../config/text-file.ts";
import { type FileWatcher, WatchedFiles } from "../config/watched-files.ts";

/** From the first byte of a connection to the end of its handshake. */
const HANDSHAKE_TIMEOUT: Duration = 10_000;

/** Why no connection came out of a TLS handshake: `http`, the client does not know that it is to speak TLS. */
export type HandshakeFailure = "certificate" | "http" | "timeout" | "other";

export interface TlsServerOptions {
  readonly certificate: ListenerCertificate;
  readonly onHandshakeFailed: (reason: HandshakeFailure) => void;
}

/**
 * An HTTPS server. Its connections are counted from their first byte, as those of any server. Node refuses clients that
 * offer other protocols than HTTP/1.1 alone (ALPN).
 */
export function createTlsServer(
  http: ServerOptions,
  answer: RequestListener,
  { certificate, onHandshakeFailed }: TlsServerOptions,
): Server {
  const server = createServer(
    {
      ...http,
      ...certificate.context(),
      requestCert: certificate.clientAuth !== "none",
      rejectUnauthorized: certificate.clientAuth === "require",
      ALPNProtocols: ["http/1.1"],
      handshakeTimeout: HANDSHAKE_TIMEOUT,
    },
    answer,
  );
  // Node gives the same to `clientError`, where the connection is closed.
  server.on("tlsClientError", (error: NodeJS.ErrnoException) => onHandshakeFailed(failureOf(error)));
  certificate.follow(server);
  return server;
}

function failureOf({ code = "" }: NodeJS.ErrnoException): HandshakeFailure {
  if (code === "ERR_SSL_HTTP_REQUEST") return "http";
  if (code === "ERR_TLS_HANDSHAKE_TIMEOUT") return "timeout";
  // Node closes connections whose client showed a bad certificate as if the client had gone.
  return code === "ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE" ? "certificate" : "other";
}

export type ListenTls = NonNullable<Config["listen"]["tls"]>;

export interface ListenerCertificateOptions {
  readonly tls: ListenTls;
  readonly files: FileWatcher;
  /** Called at each reading of the files: why they are no good, or undefined. */
  readonly onLook: (fault: string | undefined) => void;
  /** Called for files that took the place of others. */
  readonly onReplaced: (now: readonly CertificateStatus[]) => void;
  /** Called at a start with a certificate that has ended, or is still to begin, and is used all the same. */
  readonly onOutOfTime: (fault: string) => void;
}

/**
 * What the listener shows to clients, and by which authorities it knows them: read again when the files change. A
 * connection keeps what its handshake was made with; what is no good, or has
 * ended, leaves the last good one in use.
 */
export class ListenerCertificate {
  readonly clientAuth: ListenTls["clientAuth"];
  private readonly options: ListenerCertificateOptions;
  private readonly files: WatchedFiles<TlsMaterial>;
  private readonly servers: Pick<TlsServer, "setSecureContext">[] = [];
  private inUse: TlsMaterial | undefined;

  /** @throws Error when the files hold nothing good */
  constructor(options: ListenerCertificateOptions) {
    const { certFile, keyFile, clientCaFile, clientAuth } = options.tls;
    this.options = options;
    this.clientAuth = clientAuth;
    let fault: string | undefined;
    this.files = new WatchedFiles<TlsMaterial>({
      watcher: options.files,
      files: [certFile, keyFile, clientCaFile].filter((file) => file !== undefined),
      read: () => this.checkTime(readTls({ certFile, keyFile, caFile: clientCaFile })),
      onRead: (found) => {
        fault = found;
        options.onLook(found);
        if (this.inUse !== undefined) this.replace();
      },
    });
    const read = this.files.current;
    if (read === undefined) throw new Error(`listen.tls cannot be used: ${fault}`);
    this.inUse = read;
  }

  /** For handshakes from now on. */
  context(): SecureContextOptions {
    const { cert, key, ca } = this.inUse!;
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
  follow(server: Pick<TlsServer, "setSecureContext">): void {
    this.servers.push(server);
  }

  /** Looks for changes no more. */
  close(): void {
    this.files.close();
  }

  /** When what is in use ends. */
  certificates(): readonly CertificateStatus[] {
    return certificatesOf(this.inUse!, "listener", "client_authority");
  }

  /**
   * Lets a certificate that has ended, or is still to begin, take the place of none that is better: one that is valid, or
   * ended later. At a start it is used all the same.
   *
   * @throws FileFault for such a one
   */
  private checkTime(read: TlsMaterial): TlsMaterial {
    const now = this.options.files.clock.wallNow();
    const validity = validityOf(read.cert!);
    const fault = findTimeFault(validity, now);
    if (fault === undefined) return read;
    if (this.inUse === undefined) {
      this.options.onOutOfTime(fault);
      return read;
    }
    const before = validityOf(this.inUse.cert!);
    const isBetter = findTimeFault(before, now) === undefined || (now >= validity.ends && before.ends > validity.ends);
    if (isBetter) throw new FileFault(this.options.tls.certFile, `${fault}, and the last one is better`);
    return read;
  }

  private replace(): void {
    const read = this.files.current!;
    if (isSame(read, this.inUse!)) return;
    this.inUse = read;
    const context = this.context();
    for (const server of this.servers) server.setSecureContext(context);
    this.options.onReplaced(this.certificates());
  }
}

function isSame(one: TlsMaterial, other: TlsMaterial): boolean {
  return one.cert === other.cert && one.key === other.key && one.ca === other.ca;
}
