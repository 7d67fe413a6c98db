import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";
import "./viewer.css";

/** What Swagger UI hands to a filter: collections of immutable.js, of which these functions are used. */
interface Collection<Value> {
  filter(keep: (value: Value, key: string) => boolean): Collection<Value>;
  map(change: (value: Value, key: string) => Value): Collection<Value>;
  readonly size: number;
}

interface Fields {
  get(name: string): unknown;
  getIn(names: readonly string[]): unknown;
  set(name: string, value: unknown): Fields;
}

/** Keeps the operations in which each word of the phrase occurs: in tag, path, id, summary or description. */
function opsFilter(byTag: Collection<Fields>, phrase: string): Collection<Fields> {
  const words = phrase.toLowerCase().split(/\s+/);
  const textOf = (tag: string, operation: Fields) =>
    [
      tag,
      operation.get("method"),
      operation.get("path"),
      ...["operationId", "summary", "description"].map((name) => operation.getIn(["operation", name])),
    ]
      .join(" ")
      .toLowerCase();
  return byTag
    .map((group, tag) => {
      const operations = group.get("operations") as Collection<Fields>;
      return group.set(
        "operations",
        operations.filter((each) => words.every((word) => textOf(tag, each).includes(word))),
      );
    })
    .filter((group) => (group.get("operations") as Collection<Fields>).size > 0);
}

/** Copies the text that a button stands for, a path with this host before it; where the browser lets no page do that, selects it. */
async function copy(button: HTMLButtonElement): Promise<void> {
  const shown = button.previousElementSibling!;
  const text = shown.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text.startsWith("/") ? `${location.origin}${text}` : text);
    button.textContent = "Copied";
  } catch {
    getSelection()?.selectAllChildren(shown);
    button.textContent = "Selected";
  }
}

for (const button of document.querySelectorAll<HTMLButtonElement>("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", () => void copy(button));
}

/**
 * What is passed through, the one path with one segment behind `registry`: slashes in it are slashes, which OpenAPI cannot say.
 * One that climbs stays as it is: it would lead to another registry, and the gateway says so.
 */
function requestInterceptor(request: { url: string }): object {
  request.url = request.url.replace(/(?<=\/registry\/)[^/?]+(?=$|\?)/, (path) => {
    const segments = path.split("%2F");
    return segments.includes(".") || segments.includes("..") ? path : segments.join("/");
  });
  return request;
}

SwaggerUI({
  domNode: document.querySelector("#viewer")!,
  url: "openapi.json",
  deepLinking: true,
  docExpansion: "list",
  filter: true,
  tryItOutEnabled: true,
  plugins: [{ fn: { opsFilter } }],
  requestInterceptor,
});
