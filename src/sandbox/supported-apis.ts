const API = "splice-api-token";

/** The APIs that every sample registry serves, with the minor version that clients look for. */
const VERSION_1 = {
  [`${API}-metadata-v1`]: 1,
  [`${API}-transfer-instruction-v1`]: 1,
  [`${API}-allocation-v1`]: 1,
  [`${API}-allocation-instruction-v1`]: 1,
};

const VERSION_2 = {
  [`${API}-transfer-instruction-v2`]: 1,
  [`${API}-allocation-v2`]: 1,
  [`${API}-allocation-instruction-v2`]: 1,
};

/** `supportedApis` of the info and of each generated instrument: exactly what is served. */
export function supportedApis(supportsV2: boolean): Record<string, number> {
  return supportsV2 ? { ...VERSION_1, ...VERSION_2 } : { ...VERSION_1 };
}
