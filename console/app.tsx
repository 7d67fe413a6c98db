import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Status } from "../src/operations/types.ts";
import { api } from "./api.ts";
import { sayTime } from "./format.ts";
import { ClientsPage } from "./pages/clients.tsx";
import { ExplainPage } from "./pages/explain.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { RegistriesPage } from "./pages/registries.tsx";
import { RegistryPage } from "./pages/registry.tsx";
import { RequestsPage } from "./pages/requests.tsx";
import { Problem } from "./parts.tsx";
import { type Polled, useNow, usePolling } from "./polling.ts";
import { addSample, type Samples } from "./samples.ts";

/** Each page shows the latest status, and what this page saw of it since it was opened. */
export interface PageProps {
  readonly status: Status;
  readonly samples: Samples;
  readonly now: number;
  /** Behind the page's name in the URL: a registry's alias, a path. */
  readonly argument: string;
}

interface Page {
  readonly title: string;
  readonly show: (props: PageProps) => JSX.Element | null;
}

const PAGES: Readonly<Record<string, Page>> = {
  overview: { title: "Overview", show: OverviewPage },
  registries: {
    title: "Registries",
    show: (props) => (props.argument === "" ? <RegistriesPage {...props} /> : <RegistryPage {...props} />),
  },
  requests: { title: "Requests", show: RequestsPage },
  clients: { title: "Clients", show: ClientsPage },
  explain: { title: "Explain", show: ExplainPage },
};

export function App() {
  const polled = usePolling(api.status);
  const samples = useSamples(polled.answer);
  const [name, argument] = useRoute();
  const now = useNow();
  const page = PAGES[name] ?? PAGES["overview"]!;
  useEffect(() => {
    document.title = `${argument === "" ? page.title : argument} · Registry Gateway`;
  }, [page, argument]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <Header polled={polled} current={name} />
      <main id="main" tabIndex={-1}>
        <Problem text={polled.problem} />
        {polled.answer === undefined ? (
          polled.problem === undefined && <p class="dim">Asking the gateway…</p>
        ) : (
          <page.show
            key={`${name}/${argument}`}
            status={polled.answer}
            samples={samples}
            now={now}
            argument={argument}
          />
        )}
      </main>
    </>
  );
}

function Header({ polled, current }: { readonly polled: Polled<Status>; readonly current: string }) {
  const { answer } = polled;
  return (
    <header>
      <b>Registry Gateway</b>
      <nav aria-label="Pages">
        {Object.entries(PAGES).map(([name, { title }]) => (
          <a key={name} href={`#/${name}`} aria-current={name === current ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      {answer !== undefined && (
        <span class="dim num" title="The replica, its version, and when it said what this page shows">
          <span class="rest">
            {answer.replica} · {answer.version} ·{" "}
          </span>
          {sayTime(answer.now)} UTC
        </span>
      )}
    </header>
  );
}

function useSamples(status: Status | undefined): Samples {
  const [samples, setSamples] = useState<Samples>([]);
  useEffect(() => {
    if (status !== undefined) setSamples((before) => addSample(before, status));
  }, [status]);
  return samples;
}

/** The page's name and argument: `#/registries/amulet`. */
function useRoute(): readonly [string, string] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const [, name = "overview", ...rest] = hash.split("/");
  return [name === "" ? "overview" : name, decode(rest.join("/"))];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
