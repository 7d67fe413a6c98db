import { createHash } from "node:crypto";

/** A page to read, complete in itself, and the policy under which a browser may show it. */
export interface HtmlPage {
  readonly html: string;
  readonly contentSecurityPolicy: string;
}

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 0.875rem/1.4 ui-monospace, monospace; }
pre { overflow: auto; background: var(--soft); padding: 0.75rem; border-radius: 0.25rem; }
section { border-top: 1px solid var(--line); margin-top: 1.5rem; padding-top: 0.5rem; }
h3 code { font-size: 1rem; } h3 b { text-transform: uppercase; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; }
`;

/** Nothing runs, nothing is loaded, and only the style above applies. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** A page without scripts and without anything from elsewhere. `title` is text, `body` is HTML. */
export function renderPage(title: string, body: string): HtmlPage {
  const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escape(title)}</title><style>${STYLE}</style></head>
<body>${body}
</body></html>
`;
  return { html, contentSecurityPolicy: POLICY };
}

/** The fields of an answer that is such a page. */
export function pageFields({ contentSecurityPolicy }: HtmlPage): readonly string[] {
  return [
    "content-type",
    "text/html; charset=utf-8",
    "content-security-policy",
    contentSecurityPolicy,
    "referrer-policy",
    "no-referrer",
  ];
}

/** Text as it stands in HTML, in attributes too. */
export function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
