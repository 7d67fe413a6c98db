import { render } from "preact";
import { App } from "./app.tsx";
import { store } from "./store.ts";
import { applyTheme } from "./theme.ts";

// The answer comes while the page is drawn for the first time.
void store.readSession();
applyTheme();
render(<App />, document.getElementById("console")!);
