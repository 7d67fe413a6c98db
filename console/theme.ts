import { useEffect, useState } from "preact/hooks";

type Theme = "light" | "dark";

const KEPT_AS = "registry-gateway-theme";

const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let chosen: Theme | undefined = readChosen();

/** What the operator chose here before. Storage may be forbidden: then a choice lasts as long as the page. */
function readChosen(): Theme | undefined {
  try {
    const kept = localStorage.getItem(KEPT_AS);
    return kept === "light" || kept === "dark" ? kept : undefined;
  } catch {
    return undefined;
  }
}

function shownTheme(): Theme {
  return chosen ?? (system.matches ? "dark" : "light");
}

/** Takes over what was chosen; the system's theme needs nothing. */
export function applyTheme(): void {
  if (chosen !== undefined) document.documentElement.dataset["theme"] = chosen;
}

function choose(theme: Theme): void {
  chosen = theme;
  applyTheme();
  try {
    localStorage.setItem(KEPT_AS, theme);
  } catch {
    // It lasts as long as the page.
  }
  for (const listener of listeners) listener();
}

/** The theme that is shown, and what changes it to the other. */
export function useTheme(): { readonly shown: Theme; readonly toggle: () => void } {
  const [shown, setShown] = useState(shownTheme);
  useEffect(() => {
    const update = () => setShown(shownTheme());
    listeners.add(update);
    system.addEventListener("change", update);
    return () => {
      listeners.delete(update);
      system.removeEventListener("change", update);
    };
  }, []);
  return { shown, toggle: () => choose(shown === "dark" ? "light" : "dark") };
}
