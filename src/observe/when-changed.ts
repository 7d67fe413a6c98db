/**
 * Hands on a value that is another than the one before: what goes wrong is logged once, and once that it is over.
 *
 * @param first what is so at the start, and is no change
 */
export function whenChanged<Value>(first: Value, report: (value: Value) => void): (value: Value) => void {
  let last = first;
  return (value) => {
    if (value === last) return;
    last = value;
    report(value);
  };
}
