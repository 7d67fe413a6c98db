import type { Duration } from "../clock.ts";
import { findAlgorithmFault, findCidrFault, findDigestFault, findJwksFault, findTimeFault } from "./client-faults.ts";
import { findSealKeyFault, findSecretFault, findTokenFault } from "./secret.ts";
import { findCertificateFault, findKeyFault } from "./certificates.ts";
import { DURATION_PATTERN, formatDuration, formatSize, parseDuration, parseSize, SIZE_PATTERN } from "../units.ts";
import type { Size } from "../units.ts";
import {
  findEndpointFault,
  findJwksUrlFault,
  findNodeUrlFault,
  findProxyFault,
  findRedisFault,
  findUrlPathFault,
  normaliseNodeUrl,
  redactPath,
  redactQuery,
  redactUrl,
  URL_PATH_PATTERN,
} from "./urls.ts";
import type { NodeUrl } from "./urls.ts";

/** What each text in a notation becomes when it is parsed. */
export interface NotationValues {
  duration: Duration;
  size: Size;
  nodeUrl: NodeUrl;
  endpointUrl: string;
  /** Of a published list. */
  listUrl: string;
  proxyUrl: string;
  redisUrl: string;
  jwksUrl: string;
  hostPort: string;
  /** A path of a URL: without a query, and one that no server resolves or decodes to another. */
  urlPath: string;
  /** Lower case, without the dot at its end that stands for the root. */
  hostName: string;
  origin: string;
  /** An address, with or without the length of a prefix: `10.0.0.0/8`, `::1`. */
  cidr: string;
  /** Of a signature with a key pair. */
  algorithm: string;
  /** Of an API key: SHA-256 in lower-case hex. */
  digest: string;
  /** Milliseconds since the Unix epoch. */
  time: number;
  fieldName: string;
  secret: string;
  /** A secret that is sent in a header field. */
  token: string;
  // Files are absolute once parsed; relative ones are relative to the folder of the configuration file.
  /** It need not be there. */
  path: string;
  secretFile: string;
  tokenFile: string;
  redisUrlFile: string;
  sealKeyFile: string;
  certificateFile: string;
  keyFile: string;
  jwksFile: string;
  keysFile: string;
}

export type NotationName = keyof NotationValues;

/** How text in a notation is checked, parsed and written again. */
export interface Notation<Value> {
  /** For the JSON schema; a looser check than `findFault` where a regular expression cannot say it all. */
  readonly pattern: string;
  /** What is wrong with `text`, as the rest of a sentence that begins with it; undefined when it is good. */
  findFault(text: string): string | undefined;
  /** The value of a text without fault. */
  parse(text: string): Value;
  /** The value as text again, with secrets in it replaced by `***`. */
  format(value: Value): string;
  /** Of a file, whose path is the value. */
  readonly content?: FileContent;
  /** The value is a path, of a file that may come later. */
  readonly isPath?: true;
}

/** What a file that a key names has to hold. */
export interface FileContent {
  /** What is wrong with it, as the rest of a sentence that begins with the file; undefined when it is good. */
  findFault(text: string): string | undefined;
  /** Others than the gateway must not read it. */
  readonly isSecret: boolean;
}

interface TextForm {
  pattern: string;
  findFault?: (text: string) => string | undefined;
  expected?: string;
  parse?: (text: string) => string;
  format?: (value: string) => string;
}

function textNotation({
  pattern,
  findFault,
  expected = "",
  parse = String,
  format = String,
}: TextForm): Notation<string> {
  const regExp = new RegExp(pattern);
  return {
    pattern,
    findFault: findFault ?? ((text) => (regExp.test(text) ? undefined : `is not ${expected}`)),
    parse,
    format,
  };
}

function fileForm(content: FileContent): Notation<string> {
  return { ...textNotation({ pattern: "^.+$", expected: "the path of a file" }), content };
}

const HOST = String.raw`([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])`;

const HOST_PORT = new RegExp(`^${HOST}:[0-9]{1,5}$`);

export const notations: { readonly [Name in NotationName]: Notation<NotationValues[Name]> } = {
  duration: {
    pattern: DURATION_PATTERN,
    findFault: (text) =>
      parseDuration(text) === undefined ? "is not a duration such as 250ms, 30s, 10m, 1h or 0s" : undefined,
    parse: (text) => parseDuration(text) ?? 0,
    format: formatDuration,
  },
  size: {
    pattern: SIZE_PATTERN,
    findFault: (text) => (parseSize(text) === undefined ? "is not a size such as 512B, 64KiB or 1MiB" : undefined),
    parse: (text) => parseSize(text) ?? 0,
    format: formatSize,
  },
  nodeUrl: textNotation({ pattern: "^https?://", findFault: findNodeUrlFault, parse: normaliseNodeUrl }),
  endpointUrl: textNotation({ pattern: "^https?://", findFault: findEndpointFault, format: redactPath }),
  listUrl: textNotation({ pattern: "^https?://", findFault: findEndpointFault, format: redactQuery }),
  proxyUrl: textNotation({ pattern: "^https?://", findFault: findProxyFault, format: redactUrl }),
  redisUrl: textNotation({ pattern: "^rediss?://", findFault: findRedisFault, format: redactUrl }),
  jwksUrl: textNotation({ pattern: "^https?://", findFault: findJwksUrlFault, format: redactQuery }),
  hostPort: textNotation({
    pattern: HOST_PORT.source,
    findFault: (text) =>
      HOST_PORT.test(text) && URL.canParse(`redis://${text}`) ? undefined : "is not of the form host:port",
  }),
  urlPath: textNotation({ pattern: URL_PATH_PATTERN, findFault: findUrlPathFault }),
  hostName: textNotation({
    pattern: "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*\\.?$",
    expected: "a host name, without a port",
    parse: (text) => text.toLowerCase().replace(/\.$/, ""),
  }),
  origin: textNotation({
    pattern: String.raw`^(\*|https?://${HOST}(:[0-9]{1,5})?)$`,
    expected: 'an origin such as https://wallet.example, or "*"',
  }),
  cidr: textNotation({ pattern: "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$", findFault: findCidrFault }),
  algorithm: textNotation({ pattern: "^([RPE]S(256|384|512)|EdDSA)$", findFault: findAlgorithmFault }),
  digest: textNotation({
    pattern: "^sha256:[0-9A-Fa-f]{64}$",
    findFault: findDigestFault,
    parse: (text) => text.slice("sha256:".length).toLowerCase(),
  }),
  time: {
    pattern: String.raw`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$`,
    findFault: findTimeFault,
    parse: Date.parse,
    format: (value) => new Date(value).toISOString().replace(".000Z", "Z"),
  },
  fieldName: textNotation({
    pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$",
    expected: "the name of a header field",
    parse: (text) => text.toLowerCase(),
  }),
  secret: textNotation({ pattern: "^[^\\r\\n]+$", findFault: findSecretFault, format: () => "***" }),
  token: textNotation({ pattern: "^[ -~]+$", findFault: findTokenFault, format: () => "***" }),
  path: { ...textNotation({ pattern: "^.+$", expected: "the path of a file" }), isPath: true },
  secretFile: fileForm({ findFault: (text) => findSecretFault(text.trim()), isSecret: true }),
  tokenFile: fileForm({ findFault: (text) => findTokenFault(text.trim()), isSecret: true }),
  redisUrlFile: fileForm({
    findFault: (text) => findSecretFault(text.trim()) ?? findRedisFault(text.trim()),
    isSecret: true,
  }),
  sealKeyFile: fileForm({ findFault: findSealKeyFault, isSecret: true }),
  certificateFile: fileForm({ findFault: findCertificateFault, isSecret: false }),
  keyFile: fileForm({ findFault: findKeyFault, isSecret: true }),
  jwksFile: fileForm({ findFault: findJwksFault, isSecret: false }),
  // Its content is checked with the tiers.
  keysFile: fileForm({ findFault: () => undefined, isSecret: false }),
};
