import { expect, test } from "vitest";
import { findCertificateFault, validityOf } from "../../src/config/certificates.ts";
import { pem } from "../support/sample.ts";

const PARAMETERS = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";

test.each([
  ["its key behind it", pem("server") + pem("server-key")],
  ["its key before it", pem("server-key") + pem("server")],
  ["parameters and text", `subject=CN = a-b\n${PARAMETERS}${pem("server")}`],
])("a file that is taken as a certificate, with %s, is valid as long as that is", (_what, text) => {
  expect(findCertificateFault(text)).toBeUndefined();
  expect(validityOf(text)).toEqual(validityOf(pem("server")));
});

test("of several certificates the one that begins last and the one that ends first count", () => {
  const [server, ended] = [validityOf(pem("server")), validityOf(pem("ended"))];
  expect(validityOf(pem("server") + pem("ended"))).toEqual({
    begins: Math.max(server.begins, ended.begins),
    ends: Math.min(server.ends, ended.ends),
  });
});
