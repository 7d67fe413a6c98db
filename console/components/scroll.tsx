import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface ScrollProps {
  readonly label: string;
  readonly look?: string;
  readonly children: ComponentChildren;
}

/** A place that scrolls where what is in it is wider, and says so then. */
export function Scroll({ label, look = "", children }: ScrollProps) {
  const place = useRef<HTMLDivElement>(null);
  const [isWider, setWider] = useState(false);
  useEffect(() => {
    const element = place.current!;
    const measure = () => setWider(element.scrollWidth > element.clientWidth + 1);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    // A table grows by what is loaded.
    if (element.firstElementChild !== null) observer.observe(element.firstElementChild);
    return () => observer.disconnect();
  }, []);
  return (
    <>
      {isWider && (
        <p class="hint more">
          More to the right: scroll <span aria-hidden="true">→</span>
        </p>
      )}
      <div class={`scroll ${look}`.trim()} ref={place} tabIndex={0} role="region" aria-label={label}>
        {children}
      </div>
    </>
  );
}
