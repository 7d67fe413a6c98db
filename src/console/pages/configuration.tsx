import { useMemo, useState } from "preact/hooks";
import type { ConfigAnswer, ConfigCheckAnswer } from "../../operations/answers.ts";
import { sayCount } from "../../words/quantity.ts";
import { messageOf } from "../api.ts";
import { DataTable } from "../components/data-table.tsx";
import { Badge, Blank, Section, When } from "../components/parts.tsx";
import { type ConfigLine, configLines } from "../config-lines.ts";
import { usePoll } from "../polling.ts";
import { store } from "../store.ts";

/** What is in use, the last reload, and what another file would change. */
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
      <Check />
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

function Problems({ problems }: { readonly problems: ConfigCheckAnswer["problems"] }) {
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

/** Long configurations are looked through, not read: so many lines are drawn until more are asked for. */
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
      <div class="scroll yaml" tabIndex={0} role="region" aria-label="Configuration in use">
        {found.slice(0, most).map((line) => (
          <YamlLine key={`${line.path} ${line.key}`} line={line} />
        ))}
      </div>
      {found.length > most && (
        <button type="button" class="small" onClick={() => setMost(most + MOST_LINES)}>
          Show more
        </button>
      )}
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

/** As much as the listener reads. */
const MOST_BYTES = 1024 * 1024;

/** What a file would change; nothing is applied. */
function Check() {
  const [yaml, setYaml] = useState("");
  const [answer, setAnswer] = useState<ConfigCheckAnswer | undefined>();
  const [problem, setProblem] = useState<string | undefined>();
  const [isOver, setOver] = useState(false);
  async function check(text: string): Promise<void> {
    setProblem(undefined);
    try {
      setAnswer(await store.ask<ConfigCheckAnswer>("config/check", { method: "POST", body: { yaml: text } }));
    } catch (error) {
      setAnswer(undefined);
      setProblem(messageOf(error));
    }
  }
  async function take(file: File | undefined): Promise<void> {
    if (file === undefined) return;
    if (file.size > MOST_BYTES) {
      setProblem(`${file.name} is too large for a configuration`);
      return;
    }
    const text = await file.text();
    setYaml(text);
    await check(text);
  }
  return (
    <Section title="What would another file change?">
      <form
        class={isOver ? "drop over" : "drop"}
        onSubmit={(event) => {
          event.preventDefault();
          void check(yaml);
        }}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          void take(event.dataTransfer?.files[0]);
        }}
      >
        <label>
          Paste a configuration, or drop a file here. Nothing is applied; variables and files that it names are not
          looked at.
          <textarea
            rows={8}
            spellcheck={false}
            required
            value={yaml}
            onInput={({ currentTarget }) => setYaml(currentTarget.value)}
          />
        </label>
        <div class="actions">
          <button type="submit" class="primary">
            Check
          </button>
          <label class="file">
            Or choose a file
            <input
              type="file"
              accept=".yaml,.yml,.json,text/yaml"
              onChange={({ currentTarget }) => void take(currentTarget.files?.[0])}
            />
          </label>
        </div>
      </form>
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {answer !== undefined && <Checked answer={answer} />}
    </Section>
  );
}

function Checked({
  answer: { good, problems, warnings, changes, notLookedAt },
}: {
  readonly answer: ConfigCheckAnswer;
}) {
  return (
    <div role="status">
      <p class="sentence">
        <Badge tone={good ? "good" : "bad"}>{good ? "good" : "bad"}</Badge>{" "}
        {good
          ? `Nothing is wrong with it. ${changes.length === 0 ? "It changes nothing." : `It would change ${sayCount(changes.length, "key")}.`}`
          : `It would be refused: ${sayCount(problems.length, "problem")}.`}
      </p>
      <Problems problems={problems} />
      {warnings.length > 0 && (
        <ul class="list">
          {warnings.map((warning) => (
            <li key={warning}>
              <Badge tone="warn">warning</Badge> {warning}
            </li>
          ))}
        </ul>
      )}
      {changes.length > 0 && (
        <DataTable
          caption="What it would change"
          rows={changes}
          keyOf={({ path }) => path}
          empty=""
          columns={[
            { title: "Key", cell: ({ path }) => <code>{path}</code>, sort: ({ path }) => path },
            { title: "Now", cell: ({ before }) => <Text text={before} /> },
            { title: "Then", cell: ({ after }) => <Text text={after} /> },
            {
              title: "Takes effect",
              cell: ({ effect }) => (effect === "restart" ? <Badge tone="warn">at the next start</Badge> : "at once"),
            },
          ]}
        />
      )}
      {notLookedAt.length > 0 && (
        <p class="hint">
          Not looked at, for it comes from the environment, from files, or is secret:{" "}
          {notLookedAt.map(({ path }) => path).join(", ")}.
        </p>
      )}
    </div>
  );
}

function Text({ text }: { readonly text: string | undefined }) {
  return text === undefined ? <span class="hint">not there</span> : <code class="long">{text}</code>;
}
