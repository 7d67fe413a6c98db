import { scalar, off } from "./keys.ts";

/** Files for TLS to an upstream or to Redis. */
export const tlsKeys = {
  caFile: off(
    scalar("certificateFile", {
      examples: ["/etc/ssl/registry-ca.pem"],
      description: "Certificates of the authorities to trust instead of the system's (PEM).",
    }),
  ),
  certFile: off(
    scalar("certificateFile", {
      examples: ["/etc/ssl/client.pem"],
      description: "Client certificate (PEM); needs keyFile.",
    }),
  ),
  keyFile: off(
    scalar("keyFile", {
      examples: ["/etc/ssl/client.key"],
      description: "Key of the client certificate (PEM); needs certFile.",
    }),
  ),
};
