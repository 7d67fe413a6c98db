/** A command line that cannot be understood; `message` says why. */
export class UsageError extends Error {}
