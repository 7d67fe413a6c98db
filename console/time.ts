/** Now, in milliseconds since the Unix epoch. A browser has no `Clock`; what is tested takes the time as an argument. */
export function now(): number {
  return Date.now();
}
