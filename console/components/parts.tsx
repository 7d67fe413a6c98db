import type { ComponentChildren } from "preact";
import { NOTHING, sayDate, sayRelative } from "../format.ts";
import type { Tone } from "../health.ts";
import { MetricLink } from "./metric-link.tsx";
import { now } from "../time.ts";

/** A state: a word, with a shape and a colour that say the same. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

interface TileProps {
  readonly label: string;
  readonly value: string;
  readonly metric: string;
  readonly hint?: string;
  readonly tone?: Tone;
}

/** One number, large. */
export function Tile({ label, value, metric, hint, tone = "good" }: TileProps) {
  return (
    <div class={tone === "good" ? "tile" : `tile ${tone}`}>
      <dt>
        {label} <MetricLink name={metric} />
      </dt>
      <dd>
        <span class="value">{value}</span>
        {hint !== undefined && <span class="hint">{hint}</span>}
      </dd>
    </div>
  );
}

interface FactProps {
  readonly label: string;
  /** Undefined: it is nothing that is counted or measured. */
  readonly metric?: string;
  readonly children: ComponentChildren;
}

/** One thing that is known, in a list of them. */
export function Fact({ label, metric, children }: FactProps) {
  return (
    <>
      <dt>
        {label} {metric !== undefined && <MetricLink name={metric} />}
      </dt>
      <dd>{children}</dd>
    </>
  );
}

interface SectionProps {
  readonly title: string;
  /** The metric of the numbers in it that are in no table. */
  readonly metric?: string;
  /** Beside the title: buttons, a count. */
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Section({ title, metric, aside, children }: SectionProps) {
  const id = `section-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return (
    <section class="card" aria-labelledby={id}>
      <header>
        <div>
          <h2 id={id}>{title}</h2> {metric !== undefined && <MetricLink name={metric} />}
        </div>
        {aside !== undefined && <div class="aside">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

/** When something was or will be; the date is in its title. */
export function When({ at }: { readonly at: string | null }) {
  if (at === null) return <>{NOTHING}</>;
  const instant = Date.parse(at);
  if (Number.isNaN(instant)) return <>{at}</>;
  return (
    <time dateTime={at} title={sayDate(instant)}>
      {sayRelative(instant, now())}
    </time>
  );
}

/** A share as a bar, with the number beside it. */
export function Bar({
  share,
  label,
  tone = "good",
}: {
  readonly share: number;
  readonly label: string;
  readonly tone?: Tone;
}) {
  return (
    <span class="bar">
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" class={tone}>
        <rect class="track" width="100" height="8" rx="2" />
        <rect class="fill" width={Math.max(0, Math.min(100, share * 100))} height="8" rx="2" />
      </svg>
      <span>{label}</span>
    </span>
  );
}

/** What stands where there is nothing to list, or where it could not be read. */
export function Blank({
  problem,
  children,
}: {
  readonly problem?: string | undefined;
  readonly children: ComponentChildren;
}) {
  return problem === undefined ? (
    <p class="blank">{children}</p>
  ) : (
    <p class="blank bad" role="alert">
      {problem}
    </p>
  );
}
