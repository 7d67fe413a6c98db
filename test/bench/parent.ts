/** In a process of {@link startProcess}: the options it was given. Ends the process when the bench is gone. */
export function optionsOfParent(): unknown {
  process.on("disconnect", () => process.exit());
  return JSON.parse(process.argv[2] ?? "{}");
}

/** Tells the bench something. */
export function tellParent(message: object): void {
  process.send!(message);
}
