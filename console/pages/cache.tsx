import { useEffect, useState } from "preact/hooks";
import type { CacheContents, ExplainAnswer, StatusAnswer } from "../../src/operations/answers.ts";
import { forEachCached } from "../../src/spec/operations.ts";
import { sayCount, sayDuration } from "../../src/words/quantity.ts";
import { describeEntry, describeOutlook, type ShownEntry } from "../../src/words/explanation.ts";
import { messageOf } from "../api.ts";
import { DataTable } from "../components/data-table.tsx";
import { Badge, Bar, Blank, Section, Tile } from "../components/parts.tsx";
import { NOTHING, sayBytes, sayNumber } from "../format.ts";
import type { Tone } from "../health.ts";
import { usePoll } from "../polling.ts";
import { formatRoute } from "../route.ts";
import { store, useStore } from "../store.ts";
import { pathOf, timeLine } from "../time-line.ts";

/** What is stored, how old against what was promised, and why a URL is answered as it is. */
export function CachePage({ query }: { readonly query: Readonly<Record<string, string>> }) {
  const status = useStore((state) => state.status);
  const { value, problem } = usePoll<CacheContents>({
    load: (signal) => store.ask("cache", { signal }),
    every: 10_000,
  });
  return (
    <>
      <Explain path={query["path"] ?? ""} />
      {value === undefined || status === undefined ? (
        <Blank problem={problem}>Asking the gateway…</Blank>
      ) : (
        <>
          <Tiers status={status} cache={value} />
          <Groups cache={value} />
        </>
      )}
    </>
  );
}

function Tiers({ status, cache }: { readonly status: StatusAnswer; readonly cache: CacheContents }) {
  const { entries, bytes, maxBytes } = status.cache.memory;
  const { redis } = status;
  return (
    <dl class="tiles">
      <Tile
        label="Memory"
        value={sayBytes(bytes)}
        metric="registry_gateway_cache_bytes"
        hint={`of ${sayBytes(maxBytes)}`}
        tone={bytes > maxBytes * 0.95 ? "warn" : "good"}
      />
      <Tile label="Entries" value={sayNumber(entries)} metric="registry_gateway_cache_entries" hint="in memory" />
      <Tile
        label="Purged, not gone yet"
        value={sayNumber(cache.purged.entries)}
        metric="registry_gateway_cache_entries"
        hint={`${sayBytes(cache.purged.bytes)}, never served`}
      />
      <Tile
        label="Redis"
        value={redis.configured ? redis.state : "none"}
        metric="registry_gateway_redis_up"
        hint={redis.configured ? sayCount(redis.replicas, "replica") : "memory only"}
        tone={redis.configured && redis.state !== "up" ? "bad" : "good"}
      />
    </dl>
  );
}

type Group = CacheContents["groups"][number];

const KINDS: Readonly<Record<Group["kind"], string>> = {
  ...forEachCached(({ entries }) => entries),
  extra_path: "extra paths",
  notFound: "not found, errors",
};

function Groups({ cache }: { readonly cache: CacheContents }) {
  return (
    <Section title="By registry and kind">
      <DataTable
        caption="Entries in memory by registry and kind"
        rows={cache.groups}
        keyOf={({ upstream, kind }) => `${upstream} ${kind}`}
        textOf={({ upstream, kind }) => `${upstream} ${KINDS[kind]}`}
        empty="Nothing is stored."
        columns={[
          {
            title: "Registry",
            cell: ({ upstream }) =>
              upstream === null ? (
                "configured no more"
              ) : (
                <a href={formatRoute({ page: "registries", name: upstream })}>{upstream}</a>
              ),
            sort: ({ upstream }) => upstream ?? "",
          },
          { title: "Kind", cell: ({ kind }) => KINDS[kind] ?? kind, sort: ({ kind }) => kind },
          {
            title: "Entries",
            isNumber: true,
            metric: "registry_gateway_cache_entries",
            cell: ({ entries }) => sayNumber(entries),
            sort: ({ entries }) => entries,
          },
          {
            title: "Bytes",
            isNumber: true,
            metric: "registry_gateway_cache_bytes",
            cell: ({ bytes }) => sayBytes(bytes),
            sort: ({ bytes }) => bytes,
          },
          {
            title: "Stale",
            isNumber: true,
            metric: "registry_gateway_cache_entries",
            cell: ({ stale }) => sayNumber(stale),
            sort: ({ stale }) => stale,
          },
          {
            title: "Oldest: age of promise",
            metric: "registry_gateway_cache_served_age_seconds",
            cell: ({ oldest }) => <Oldest oldest={oldest} />,
            sort: ({ oldest }) => (oldest === null ? -1 : oldest.ageMs / Math.max(1, oldest.lifetimeMs)),
          },
        ]}
      />
    </Section>
  );
}

function Oldest({ oldest }: Pick<Group, "oldest">) {
  if (oldest === null) return <>{NOTHING}</>;
  const { ageMs, lifetimeMs, usableForMs } = oldest;
  const tone: Tone = ageMs <= lifetimeMs ? "good" : usableForMs > 0 ? "warn" : "bad";
  const label = `${sayDuration(ageMs)} of ${sayDuration(lifetimeMs)}${tone === "good" ? "" : ", stale"}`;
  return <Bar share={lifetimeMs === 0 ? 1 : ageMs / lifetimeMs} label={label} tone={tone} />;
}

/** Why a URL is answered as it is, in words and as a time line. */
function Explain({ path }: { readonly path: string }) {
  const [text, setText] = useState(path);
  const [asked, setAsked] = useState(path === "" ? undefined : { path: pathOf(path) });
  return (
    <Section title="Why is a URL answered as it is?" metric="registry_gateway_cache_served_age_seconds">
      <form
        class="ask"
        onSubmit={(event) => {
          event.preventDefault();
          setAsked({ path: pathOf(text) });
        }}
      >
        <label class="grow">
          URL or path of the public listener
          <input
            type="text"
            required
            spellcheck={false}
            placeholder="/api/token-standard/v0/registrars/…/registry/metadata/v1/instruments"
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Explain
        </button>
      </form>
      {asked !== undefined && <Explanation asked={asked} />}
    </Section>
  );
}

function Explanation({ asked }: { readonly asked: { readonly path: string } }) {
  const [answer, setAnswer] = useState<ExplainAnswer | undefined>();
  const [problem, setProblem] = useState<string | undefined>();
  useEffect(() => {
    const controller = new AbortController();
    setAnswer(undefined);
    setProblem(undefined);
    store
      .ask<ExplainAnswer>("explain", { query: { path: asked.path }, signal: controller.signal })
      .then(setAnswer, (error) => {
        if (!controller.signal.aborted) setProblem(messageOf(error));
      });
    return () => controller.abort();
  }, [asked]);
  if (answer === undefined) return <Blank problem={problem}>Asking…</Blank>;
  const { upstream, admin, operation, tiers, reason, explanation } = answer;
  return (
    <div class="explained" role="status">
      <p>
        Registry <a href={formatRoute({ page: "registries", name: upstream })}>{upstream}</a>
        {admin !== undefined && (
          <>
            {" "}
            of admin <code class="long">{admin}</code>
          </>
        )}
        , operation <code>{operation}</code>.
        {tiers !== undefined && ` Clients of these tiers may ask: ${tiers.join(", ") || "none"}.`}
      </p>
      {explanation === undefined ? (
        <p>Never answered from the cache: {reason ?? "no reason given"}.</p>
      ) : (
        <>
          {describeOutlook(explanation as Parameters<typeof describeOutlook>[0]).map((line, i) => (
            <p key={line} class={i === 0 ? "sentence" : undefined}>
              {line}
            </p>
          ))}
          {(explanation.entries as readonly ShownEntry[]).map((entry, i) => (
            <Entry key={`${i} ${entry.variant}`} entry={entry} number={i + 1} />
          ))}
        </>
      )}
    </div>
  );
}

function Entry({ entry, number }: { readonly entry: ShownEntry; readonly number: number }) {
  const [first, ...rest] = describeEntry(entry, number);
  const { parts, now } = timeLine(entry);
  const tone: Tone = entry.purged ? "off" : entry.freshFor > 0 ? "good" : entry.usableFor > 0 ? "warn" : "bad";
  return (
    <div class="entry">
      <p>
        <Badge tone={tone}>
          {entry.purged ? "purged" : entry.freshFor > 0 ? "fresh" : entry.usableFor > 0 ? "stale" : "too old"}
        </Badge>{" "}
        {first}
      </p>
      <svg class="time-line" viewBox="0 0 1000 26" preserveAspectRatio="none" aria-hidden="true">
        {parts.map(({ name, from, to }) => (
          <rect key={name} class={name} x={from * 1_000} width={Math.max(0, (to - from) * 1_000)} y="6" height="14" />
        ))}
        <rect class="now" x={now * 1_000 - 1.5} width="3" y="0" height="26" />
      </svg>
      <ul class="legend">
        {parts.map(({ name, text }) => (
          <li key={name}>
            <span class={`swatch ${name}`} aria-hidden="true" /> {text}
          </li>
        ))}
        <li>
          <span class="swatch now" aria-hidden="true" /> now, {sayDuration(entry.age)} after it was made
        </li>
      </ul>
      {rest.map((line) => (
        <p key={line} class="hint">
          {line}
        </p>
      ))}
    </div>
  );
}
