import { useRef, useState } from "preact/hooks";
import type { SessionAnswer } from "../../src/operations/answers.ts";
import { messageOf } from "../api.ts";
import { store } from "../store.ts";

/** Asks for the operations token, and keeps it nowhere: the session is a cookie that scripts cannot read. */
export function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | undefined>();
  const [isRunning, setRunning] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  async function signIn(): Promise<void> {
    setRunning(true);
    try {
      const session = await store.ask<SessionAnswer>("session", { method: "POST", body: { token: token.trim() } });
      store.set({ session });
    } catch (error) {
      setProblem(messageOf(error));
      setRunning(false);
      // Typed anew, it takes the place of what was refused.
      field.current?.select();
    }
  }
  return (
    <main id="content" tabIndex={-1} class="narrow">
      <form
        class="card sign-in"
        onSubmit={(event) => {
          event.preventDefault();
          void signIn();
        }}
      >
        <h1>Sign in</h1>
        <label>
          Operations token
          <input
            type="password"
            required
            autocomplete="current-password"
            autoFocus
            ref={field}
            value={token}
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
            aria-describedby="token-hint"
          />
        </label>
        <p id="token-hint" class="hint">
          It is in the file that operations.tokenFile names, or yours of operations.tokens.
        </p>
        {problem !== undefined && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="primary" disabled={isRunning}>
          {isRunning ? "Signing in…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}
