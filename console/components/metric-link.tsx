/**
 * Names the metric that a number is, and leads to it in `/metrics`: browsers scroll to the text behind `:~:text=`.
 */
export function MetricLink({ name }: { readonly name: string }) {
  return (
    <a
      class="metric"
      href={`../metrics#:~:text=${name}`}
      target="_blank"
      rel="noopener"
      title={`${name} in /metrics`}
      aria-label={`metric ${name}`}
    >
      <span aria-hidden="true">∿</span>
    </a>
  );
}
