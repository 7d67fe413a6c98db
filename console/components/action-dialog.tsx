import { useEffect, useRef, useState } from "preact/hooks";
import type { ActAnswer, CacheContents } from "../../src/operations/answers.ts";
import { CACHED_OPERATIONS, cachedRecord } from "../../src/spec/operations.ts";
import { messageOf, Refusal } from "../api.ts";
import { sayBytes } from "../format.ts";
import {
  type Answers,
  doneText,
  explainIntent,
  type Intent,
  purgeSelection,
  type PurgeScope,
  requestOf,
} from "../intent.ts";
import { sayCount } from "../../src/words/quantity.ts";
import { store, useStore } from "../store.ts";

/** Asks the operator to confirm; nothing is done before. */
export function ActionDialog() {
  const intent = useStore((state) => state.intent);
  return intent === undefined ? null : <OpenDialog key={JSON.stringify(intent)} intent={intent} />;
}

const LASTS = [
  ["15m", "15 minutes"],
  ["30m", "30 minutes"],
  ["1h", "1 hour"],
  ["4h", "4 hours"],
  ["24h", "1 day"],
  ["", "Until it is undone"],
] as const;

function close(): void {
  store.set({ intent: undefined });
}

function OpenDialog({ intent }: { readonly intent: Intent }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current!.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  const { title, effects, button, lasts, isDangerous } = explainIntent(intent);
  const [answers, setAnswers] = useState<Answers>({
    lasts: "30m",
    reason: "",
    weight: intent.kind === "weigh" ? String(intent.weight ?? 1) : "",
    force: false,
    scope: { endpoint: "", instrument: "" },
  });
  const change = (part: Partial<Answers>) => setAnswers((before) => ({ ...before, ...part }));
  const { isRunning, problem, run } = useAction(intent, answers);
  const isLast = problem instanceof Refusal && problem.code === "last_node";
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <h2 id="dialog-title">{title}</h2>
        {effects.map((effect) => (
          <p key={effect}>{effect}</p>
        ))}
        {intent.kind === "weigh" && <WeightField answers={answers} onChange={change} />}
        {intent.kind === "purge" && <ScopeFields intent={intent} scope={answers.scope} onChange={change} />}
        {lasts && <TermsFields answers={answers} onChange={change} />}
        {(isLast || answers.force) && (
          <label class="check">
            <input
              type="checkbox"
              checked={answers.force}
              onChange={({ currentTarget }) => change({ force: currentTarget.checked })}
            />
            Cordon it all the same: the registry has no node left, and clients get 503 with the reason.
          </label>
        )}
        {problem !== undefined && (
          <p class="problem" role="alert">
            {messageOf(problem)}
          </p>
        )}
        <div class="buttons">
          <button type="button" onClick={() => dialog.current!.close()}>
            Cancel
          </button>
          <button type="submit" class={isDangerous ? "danger" : "primary"} disabled={isRunning}>
            {isRunning ? "Working…" : button}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface FieldsProps {
  readonly answers: Answers;
  readonly onChange: (part: Partial<Answers>) => void;
}

function WeightField({ answers, onChange }: FieldsProps) {
  return (
    <label>
      Weight, 0 to 100
      <input
        type="number"
        min="0"
        max="100"
        step="1"
        required
        value={answers.weight}
        onInput={({ currentTarget }) => onChange({ weight: currentTarget.value })}
      />
    </label>
  );
}

function TermsFields({ answers, onChange }: FieldsProps) {
  return (
    <>
      <label>
        For how long
        <select value={answers.lasts} onChange={({ currentTarget }) => onChange({ lasts: currentTarget.value })}>
          {LASTS.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label>
        Reason, shown in the log, the audit, and to clients that get a 503 for it
        <input
          type="text"
          maxLength={200}
          value={answers.reason}
          onInput={({ currentTarget }) => onChange({ reason: currentTarget.value })}
        />
      </label>
    </>
  );
}

interface ScopeProps {
  readonly intent: Extract<Intent, { kind: "purge" }>;
  readonly scope: PurgeScope;
  readonly onChange: (part: Partial<Answers>) => void;
}

const SCOPES = [
  ["", "Everything of it"],
  ...CACHED_OPERATIONS.map((operation) => [operation, cachedRecord(operation).purge] as const),
] as const;

function ScopeFields({ intent, scope, onChange }: ScopeProps) {
  const preview = usePreview(intent.upstream, scope);
  return (
    <>
      {intent.upstream !== undefined && (
        <fieldset>
          <legend>What goes</legend>
          {SCOPES.map(([endpoint, text]) => (
            <label key={endpoint} class="check">
              <input
                type="radio"
                name="endpoint"
                checked={scope.endpoint === endpoint}
                onChange={() => onChange({ scope: { ...scope, endpoint } })}
              />
              {text}
            </label>
          ))}
        </fieldset>
      )}
      {scope.endpoint === "instrument" && (
        <label>
          Instrument id
          <input
            type="text"
            required
            value={scope.instrument}
            onInput={({ currentTarget }) => onChange({ scope: { ...scope, instrument: currentTarget.value } })}
          />
        </label>
      )}
      <p class="preview" role="status">
        {preview}
      </p>
    </>
  );
}

/** What a purge takes, as it stands now. */
function usePreview(upstream: string | undefined, scope: PurgeScope): string {
  const [text, setText] = useState("");
  const isIncomplete = scope.endpoint === "instrument" && scope.instrument === "";
  useEffect(() => {
    const controller = new AbortController();
    async function load(): Promise<void> {
      try {
        const answer = await store.ask<CacheContents>("cache", {
          query: purgeSelection(upstream, scope),
          signal: controller.signal,
        });
        setText(sayPreview(answer, upstream));
      } catch (error) {
        if (!controller.signal.aborted) setText(`What it takes could not be read: ${messageOf(error)}`);
      }
    }
    // While an operator types an id, not each letter is asked for.
    const timer = isIncomplete ? undefined : setTimeout(() => void load(), 250);
    if (isIncomplete) setText("");
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [upstream, scope.endpoint, scope.instrument]);
  return text;
}

function sayPreview({ selected, groups, behind }: CacheContents, upstream: string | undefined): string {
  const all = {
    entries: groups.reduce((total, { entries }) => total + entries, 0),
    bytes: groups.reduce((total, { bytes }) => total + bytes, 0),
  };
  const taken = upstream === undefined ? all : selected;
  if (taken === null) return "";
  const also = behind === "redis" ? ", and what Redis has of it" : "";
  return `That is ${sayCount(taken.entries, "entry", "entries")} of ${sayBytes(taken.bytes)} in memory${also}.`;
}

/** Sends it, and closes the dialog when it is done. */
function useAction(intent: Intent, answers: Answers) {
  const [isRunning, setRunning] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  async function run(): Promise<void> {
    setRunning(true);
    setProblem(undefined);
    const { path, body } = requestOf(intent, answers);
    try {
      const { replicas } = await store.ask<Pick<ActAnswer, "replicas">>(path, { method: "POST", body });
      close();
      store.set({ notice: doneText(intent, replicas) });
    } catch (error) {
      setProblem(error);
    } finally {
      setRunning(false);
      // Refused or not: with Redis away it is done here, and says 503.
      store.set({ actions: store.state.actions + 1 });
      void store.readStatus();
    }
  }
  return { isRunning, problem, run };
}
