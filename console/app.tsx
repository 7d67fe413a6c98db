import { useEffect, useRef, useState } from "preact/hooks";
import { ActionDialog } from "./components/action-dialog.tsx";
import { Replicas } from "./components/replicas.tsx";
import { sayDate } from "./format.ts";
import { AuditPage } from "./pages/audit.tsx";
import { CachePage } from "./pages/cache.tsx";
import { ClientsPage } from "./pages/clients.tsx";
import { ConfigurationPage } from "./pages/configuration.tsx";
import { DiscoveryPage } from "./pages/discovery.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { RegistriesPage } from "./pages/registries.tsx";
import { RegistryPage } from "./pages/registry.tsx";
import { RequestsPage } from "./pages/requests.tsx";
import { SignIn } from "./pages/sign-in.tsx";
import { usePoll } from "./polling.ts";
import { formatRoute, PAGES, parseRoute, type Page, type Route } from "./route.ts";
import { store, useStore } from "./store.ts";
import { useTheme } from "./theme.ts";
import { now } from "./time.ts";
import { sayDuration } from "../src/words/quantity.ts";

const TITLES: Readonly<Record<Page, string>> = {
  overview: "Overview",
  registries: "Registries",
  cache: "Cache",
  requests: "Requests",
  clients: "Clients",
  discovery: "Discovery",
  audit: "Audit",
  configuration: "Configuration",
};

/** How often the gateway is asked how it is. */
const EVERY = 5_000;

export function App() {
  const session = useStore((state) => state.session);
  const route = useRoute();
  const isIn = session?.signedIn === true;
  // The form was there: the page behind it is not the first thing that is shown.
  const wasAsked = useRef(false);
  if (session !== undefined && !isIn) wasAsked.current = true;
  return (
    <>
      <a class="skip" href="#content" onClick={skipToContent}>
        Skip to the content
      </a>
      <Top isIn={isIn} />
      {session === undefined && <Waiting />}
      {session !== undefined && !isIn && <SignIn />}
      {isIn && <Pages route={route} hasSignedIn={wasAsked.current} />}
      <Notice />
    </>
  );
}

/** Not by the address: what is behind `#` says which page is shown. */
function skipToContent(event: Event): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const read = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  return route;
}

/** Until the gateway has answered for the first time; what was asked as the page began is asked again once that failed. */
function Waiting() {
  const lost = useStore((state) => state.lost);
  usePoll({ load: () => store.readSession(), every: EVERY, isPaused: lost === undefined });
  return (
    <main id="content" tabIndex={-1} class="narrow">
      <p role="status">
        {lost === undefined ? "Asking the gateway…" : `The gateway does not answer: ${lost.why}. Asking again…`}
      </p>
    </main>
  );
}

function Pages({ route, hasSignedIn }: { readonly route: Route; readonly hasSignedIn: boolean }) {
  usePoll({ load: (signal) => store.readStatus(signal), every: EVERY });
  const isLost = useStore((state) => state.lost !== undefined);
  const title = route.name === undefined ? TITLES[route.page] : route.name;
  const heading = useRef<HTMLHeadingElement>(null);
  const isFirst = useRef(!hasSignedIn);
  useFocusKept(heading);
  useEffect(() => {
    document.title = `${title} · Registry Gateway`;
    // An operator who follows a link or signs in learns where it led; one who opens the page begins at its top.
    if (isFirst.current) isFirst.current = false;
    else heading.current?.focus();
    // On a narrow screen the pages stand in a row that scrolls.
    document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [title]);
  return (
    <div class="frame">
      <nav class="side" aria-label="Pages">
        <ul>
          {PAGES.map((page) => (
            <li key={page}>
              <a href={formatRoute({ page })} aria-current={page === route.page ? "page" : undefined}>
                {TITLES[page]}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="content" tabIndex={-1} class={isLost ? "lost" : undefined}>
        <LostBanner />
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        <CurrentPage route={route} />
      </main>
      <ActionDialog />
    </div>
  );
}

/** The element with the focus may go, as a button that undoes something does: the page's heading gets the focus then. */
function useFocusKept(heading: { readonly current: HTMLElement | null }): void {
  useEffect(() => {
    let last: Node | undefined;
    const note = ({ target }: FocusEvent) => (last = target instanceof Node ? target : undefined);
    const observer = new MutationObserver(() => {
      if (last?.isConnected !== false || document.activeElement !== document.body) return;
      last = undefined;
      heading.current?.focus();
    });
    addEventListener("focusin", note);
    observer.observe(document.body, { childList: true, subtree: true });
    return () => {
      removeEventListener("focusin", note);
      observer.disconnect();
    };
  }, []);
}

function CurrentPage({ route }: { readonly route: Route }) {
  switch (route.page) {
    case "overview":
      return <OverviewPage />;
    case "registries":
      return route.name === undefined ? <RegistriesPage /> : <RegistryPage key={route.name} name={route.name} />;
    case "cache":
      return <CachePage query={route.query} />;
    case "requests":
      return <RequestsPage query={route.query} />;
    case "clients":
      return <ClientsPage />;
    case "discovery":
      return <DiscoveryPage />;
    case "audit":
      return <AuditPage />;
    case "configuration":
      return <ConfigurationPage />;
  }
}

/** Says that what is shown is old, how old, and that the page goes on by itself. */
function LostBanner() {
  const lost = useStore((state) => state.lost);
  useSeconds(lost !== undefined);
  return (
    <div role="alert" class="banner-place">
      {lost !== undefined && (
        <p class="banner">
          <b>The gateway does not answer</b> ({lost.why}). What you see is from {sayDate(lost.since)},{" "}
          {sayDuration(Math.max(1_000, Math.floor((now() - lost.since) / 1_000) * 1_000))} old. This page asks again by
          itself.
        </p>
      )}
    </div>
  );
}

/** Draws the component anew each second. */
function useSeconds(isOn: boolean): void {
  const [, setCount] = useState(0);
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => setCount((count) => count + 1), 1_000);
    return () => clearInterval(timer);
  }, [isOn]);
}

function Top({ isIn }: { readonly isIn: boolean }) {
  const session = useStore((state) => state.session);
  const { shown, toggle } = useTheme();
  const other = shown === "dark" ? "light" : "dark";
  return (
    <header class="top">
      <a class="brand" href={formatRoute({ page: "overview" })}>
        Registry Gateway
      </a>
      {session !== undefined && <span class="version">{session.version}</span>}
      {isIn && <Replicas />}
      {isIn && session?.readonly === true && (
        <span class="version" title="operations.readonly is true, or your token is one that only reads">
          read only
        </span>
      )}
      {isIn && typeof session?.operator === "string" && <span class="version">{session.operator}</span>}
      <span class="space" />
      {isIn && <Freshness />}
      <button type="button" class="quiet" onClick={toggle} aria-label={`Show in ${other}`} title={`Show in ${other}`}>
        <span aria-hidden="true">{shown === "dark" ? "☀" : "☾"}</span>
      </button>
      {isIn && session?.tokenNeeded === true && (
        <button type="button" class="quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      )}
    </header>
  );
}

async function signOut(): Promise<void> {
  try {
    await store.ask("session", { method: "DELETE" });
  } finally {
    store.set({ status: undefined, history: undefined });
    await store.readSession();
  }
}

/** How old what is shown is. */
function Freshness() {
  const answeredAt = useStore((state) => state.answeredAt);
  const isLost = useStore((state) => state.lost !== undefined);
  useSeconds(true);
  const age = Math.max(0, Math.round((now() - answeredAt) / 1_000));
  return <span class={isLost ? "freshness bad" : "freshness good"}>{isLost ? "not connected" : `${age} s ago`}</span>;
}

/** What was done last, said to those who do not see it and shown for a while to those who do. */
function Notice() {
  const notice = useStore((state) => state.notice);
  useEffect(() => {
    if (notice === "") return undefined;
    const timer = setTimeout(() => store.set({ notice: "" }), 6_000);
    return () => clearTimeout(timer);
  }, [notice]);
  return (
    <div role="status" class={notice === "" ? "unseen" : "notice"}>
      {notice}
    </div>
  );
}
