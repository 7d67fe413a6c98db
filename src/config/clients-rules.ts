import { checkKeyPair, checkTwice } from "./common-rules.ts";
import type { Draft } from "./dependent-defaults.ts";
import { checkKeysFile, describeProblems } from "./keys-file.ts";
import type { Reading } from "./reading.ts";
import { suggest } from "./problem.ts";

type ClientsDraft = NonNullable<Draft["clients"]>;

function checkListenTls(reading: Reading, tls: NonNullable<Draft["listen"]>["tls"]): void {
  if (tls === undefined) return;
  const { certFile, keyFile, clientAuth } = tls;
  checkKeyPair(reading, "listen.tls", { certFile, keyFile });
  if (clientAuth !== undefined && clientAuth !== "none" && !reading.isGiven("listen.tls.clientCaFile")) {
    reading.report("listen.tls.clientAuth", "needs clientCaFile: the authorities whose certificates are trusted");
  }
}

/** Reports what names a tier that is not there. */
function checkTierNames(reading: Reading, { anonymous, jwt, certificates, tiers }: ClientsDraft): void {
  const known = Object.keys(tiers ?? {});
  const named: (readonly [path: string, name: string | false | undefined])[] = [
    ["clients.anonymous", anonymous],
    ["clients.certificates.tier", certificates?.tier],
    ...(jwt ?? []).map((issuer, index) => [`clients.jwt[${index}].tier`, issuer?.tier] as const),
  ];
  for (const [path, name] of named) {
    if (name === undefined || name === false || known.includes(name)) continue;
    const list = known.length === 0 ? "clients.tiers has none" : `clients.tiers has ${known.join(", ")}`;
    reading.report(path, `${reading.speak(path)} is no tier: ${list}${suggest(name, known)}`);
  }
}

function checkTier(reading: Reading, path: string, upstreams: readonly (string | undefined)[], known: string[]): void {
  if (reading.isGiven(`${path}.per`) && !reading.isGiven(`${path}.requests`)) {
    reading.report(`${path}.per`, "needs requests");
  }
  for (const [index, name] of upstreams.entries()) {
    const place = `${path}.upstreams[${index}]`;
    if (name === undefined) continue;
    if (name === "*") {
      if (upstreams.length > 1) reading.report(place, '"*" stands alone: it means all upstreams');
    } else if (!known.includes(name) && !reading.isGiven("discovery")) {
      reading.report(place, `${reading.speak(place)} is the name of no upstream${suggest(name, known)}`);
    }
  }
}

function checkCertificates(reading: Reading, { listen, clients }: Draft): void {
  if (clients?.certificates === undefined) return;
  const { tls } = listen ?? {};
  if (tls?.clientAuth === "none" || (tls === undefined && !reading.hasProblem("listen.tls"))) {
    reading.report("clients.certificates", "needs listen.tls with clientAuth request or require, and clientCaFile");
  }
}

function checkKeys(reading: Reading, { keysFile, tiers }: ClientsDraft): void {
  const path = "clients.keysFile";
  if (keysFile === undefined || reading.hasProblem(path)) return;
  const { problems } = checkKeysFile(keysFile, Object.keys(tiers ?? {}));
  const name = reading.isReplaced(path) ? "the file that the environment names" : keysFile;
  for (const each of describeProblems(problems)) reading.reportFile(path, `${name} ${each}`);
}

/** Reports what is wrong between the keys that say who may call. */
export function checkClients(reading: Reading, draft: Draft): void {
  const { listen, clients } = draft;
  checkListenTls(reading, listen?.tls);
  if (clients === undefined) return;
  const { anonymous, jwt, tiers } = clients;
  checkTierNames(reading, clients);
  checkKeys(reading, clients);
  const upstreams = (draft.upstreams ?? []).flatMap((upstream) => upstream?.name ?? []);
  for (const [name, tier] of Object.entries(tiers ?? {})) {
    checkTier(reading, `clients.tiers.${name}`, tier?.upstreams ?? [], upstreams);
  }
  checkTwice(
    reading,
    "issuer",
    (jwt ?? []).map((issuer, index) => [`clients.jwt[${index}].issuer`, issuer?.issuer]),
  );
  checkCertificates(reading, draft);
  const adminHeader = draft.routing?.adminHeader;
  if (adminHeader === "authorization" || adminHeader === "x-api-key") {
    reading.report("routing.adminHeader", `${adminHeader} holds the credential of a client: take another header`);
  }
  const isGiven = (key: string) => reading.isGiven(`clients.${key}`);
  const hasCredentials = isGiven("keysFile") || isGiven("certificates") || jwt?.length !== 0;
  if (anonymous === false && !hasCredentials) {
    reading.report("clients", "no client could call: give keysFile, jwt or certificates, or a tier as anonymous");
  }
}
