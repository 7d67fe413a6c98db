/** What the process exits with: 0 stopped cleanly or all is well, 78 (EX_CONFIG) bad config, 1 anything else. */
export const EXIT = { ok: 0, failure: 1, badConfig: 78 } as const;
