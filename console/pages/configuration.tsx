import { useMemo, useState } from "preact/hooks";
import type { ConfigAnswer } from "../../src/operations/answers.ts";
import { sayCount } from "../../src/words/quantity.ts";
import { Badge, Blank, Section, When } from "../components/parts.tsx";
import { Scroll } from "../components/scroll.tsx";
import { type ConfigLine, configLines } from "../config-lines.ts";
import { usePoll } from "../polling.ts";
import { store } from "../store.ts";

/** What is in use, and the last reload. */
export function ConfigurationPage() {
  const { value, problem } = usePoll<ConfigAnswer>({
    load: (signal) => store.ask("config", { signal }),
    every: 10_000,
  });
  return (
    <>
      {value === undefined ? (
        <Blank problem={problem}>Asking the gateway…</Blank>
      ) : (
        <>
          <LastReload reload={value.lastReload} />
          <Effective answer={value} />
        </>
      )}
    </>
  );
}

const RESULTS = { applied: "good", unchanged: "good", refused: "bad" } as const;

function LastReload({ reload }: { readonly reload: ConfigAnswer["lastReload"] }) {
  return (
    <Section title="Last reload" metric="registry_gateway_config_last_reload_successful">
      {reload === null ? (
        <Blank>None since this gateway started.</Blank>
      ) : (
        <>
          <p>
            <Badge tone={RESULTS[reload.result]}>{reload.result}</Badge> <When at={reload.at} />, because of{" "}
            {reload.cause === "file" ? "a change of the file" : "a signal"}.
          </p>
          <Paths title="It changed" paths={reload.changed} />
          <Paths title="It needs a restart for" paths={reload.needRestart} />
          <Problems problems={reload.problems} />
        </>
      )}
    </Section>
  );
}

function Paths({ title, paths }: { readonly title: string; readonly paths: readonly string[] }) {
  if (paths.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="list">
        {paths.map((path) => (
          <li key={path}>
            <code>{path}</code>
          </li>
        ))}
      </ul>
    </>
  );
}

function Problems({ problems }: { readonly problems: NonNullable<ConfigAnswer["lastReload"]>["problems"] }) {
  if (problems.length === 0) return null;
  return (
    <ul class="list">
      {problems.map(({ line, path, message }) => (
        <li key={`${line} ${path} ${message}`}>
          <Badge tone="bad">{line === undefined ? "problem" : `line ${line}`}</Badge> <code>{path}</code> {message}
        </li>
      ))}
    </ul>
  );
}

/** Long configurations are looked through, not read: this number of lines is drawn until more are asked for. */
const MOST_LINES = 400;

function Effective({ answer }: { readonly answer: ConfigAnswer }) {
  const [wanted, setWanted] = useState("");
  const [isChangedOnly, setChangedOnly] = useState(false);
  const [most, setMost] = useState(MOST_LINES);
  const lines = useMemo(() => configLines(answer.config, answer.defaults), [answer]);
  const found = useMemo(() => {
    const text = wanted.toLowerCase();
    return lines.filter(
      (line) =>
        (!isChangedOnly || !line.isDefault) &&
        (text === "" || line.path.toLowerCase().includes(text) || line.value?.toLowerCase().includes(text) === true),
    );
  }, [lines, wanted, isChangedOnly]);
  return (
    <Section title="In use" aside={<span class="hint">defaults are greyed, secrets are ***</span>}>
      <div class="filters">
        <label>
          Search
          <input type="search" value={wanted} onInput={({ currentTarget }) => setWanted(currentTarget.value)} />
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={isChangedOnly}
            onChange={({ currentTarget }) => setChangedOnly(currentTarget.checked)}
          />
          Without defaults
        </label>
        <span class="hint" role="status">
          {sayCount(found.length, "line")}
        </span>
      </div>
      <Scroll look="yaml" label="Configuration in use">
        {found.slice(0, most).map((line) => (
          <YamlLine key={`${line.path} ${line.key}`} line={line} />
        ))}
      </Scroll>
      {found.length > most && (
        <button type="button" class="small" onClick={() => setMost(most + MOST_LINES)}>
          Show more
        </button>
      )}
      <p class="hint">
        What another file would change: <code>registry-gateway check --diff OLD --config NEW</code>.
      </p>
    </Section>
  );
}

function YamlLine({ line: { depth, path, isItem, key, value, isDefault } }: { readonly line: ConfigLine }) {
  const indent = "  ".repeat(isItem ? Math.max(0, depth - 1) : depth);
  return (
    <div class={isDefault ? "default" : undefined} title={isDefault ? `${path}: as if the file did not say it` : path}>
      {indent}
      {isItem && "- "}
      {key !== undefined && <b>{key}:</b>} {value}
      {isDefault && value !== undefined && <span class="unseen"> (default)</span>}
    </div>
  );
}
