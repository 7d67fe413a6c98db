import type { Contestant } from "../contestant.ts";

/** Wallets ask registries themselves, each from an address of its own, one node at random. */
export const noProxy: Contestant = {
  name: "no proxy",
  start: async () => ({
    bases: ({ ports }) => ports.map((port) => `http://127.0.0.1:${port}`),
    hasAddresses: true,
    pids: () => [],
    stop: async () => {},
  }),
};
