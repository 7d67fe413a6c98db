import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "./api.ts";
import { Problem } from "./parts.tsx";

interface PurgeProps {
  /** The upstream's name; undefined: everything. */
  readonly upstream: string | undefined;
}

/** A button that asks before it purges. */
export function Purge({ upstream }: PurgeProps) {
  const [isOpen, setOpen] = useState(false);
  const [done, setDone] = useState("");
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        {upstream === undefined ? "Purge everything…" : "Purge…"}
      </button>
      <output class="dim">{done}</output>
      {isOpen && (
        <PurgeDialog
          upstream={upstream}
          onClose={(isDone) => {
            setOpen(false);
            setDone(isDone ? "Purged." : "");
          }}
        />
      )}
    </>
  );
}

function PurgeDialog({ upstream, onClose }: PurgeProps & { readonly onClose: (isDone: boolean) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isRunning, setRunning] = useState(false);
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current!.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  async function purge() {
    setRunning(true);
    try {
      await api.purge(upstream);
      onClose(true);
    } catch (error) {
      setProblem((error as Error).message);
      setRunning(false);
    }
  }
  const whose = upstream === undefined ? "of every registry" : `of ${upstream}`;
  return (
    <dialog ref={dialog} aria-labelledby="purge-title" onClose={() => onClose(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void purge();
        }}
      >
        <h2 id="purge-title">Purge what is stored {whose}?</h2>
        <p>
          No replica serves what was fetched before. The next requests are asked of the registry, one for each thing.
        </p>
        <p>While a registry is down, clients then get errors in the place of what was stored.</p>
        <Problem text={problem} />
        <div class="buttons">
          <button type="button" onClick={() => dialog.current!.close()}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={isRunning}>
            {isRunning ? "Purging…" : "Purge"}
          </button>
        </div>
      </form>
    </dialog>
  );
}
