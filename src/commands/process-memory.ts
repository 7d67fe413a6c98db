/** Memory of the process, in bytes; undefined where the system does not say, as without a free file descriptor. */
export function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}
