import { readFileSync } from "node:fs";

const ROOT = new URL("../fixtures/", import.meta.url);

/** The text of `test/fixtures/samples/{name}`. */
export function sampleText(name: string): string {
  return readFileSync(new URL(`samples/${name}`, ROOT), "utf8");
}

/** The same, parsed. */
export function sampleJson(name: string): unknown {
  return JSON.parse(sampleText(name));
}

/** A certificate or key of `test/fixtures/tls`. */
export function pem(name: string): string {
  return readFileSync(new URL(`tls/${name}.pem`, ROOT), "utf8");
}

/** The path of such a file. */
export function pemFile(name: string): string {
  return new URL(`tls/${name}.pem`, ROOT).pathname;
}

const IDS = sampleJson("00-README-ids.json") as Record<"DSO" | "utilityAdmin" | "alice" | "bob", string>;

/** The party ids that the samples use. */
export const { DSO, utilityAdmin: UTILITY_ADMIN, alice: ALICE, bob: BOB } = IDS;
