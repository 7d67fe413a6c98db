import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import Schema from "typebox/schema";
import { loadConfig } from "../../src/config/load.ts";
import { command } from "../support/command.ts";
import { temporaryFolder } from "../support/gateway.ts";
import { blockOf, readText, readYaml, ROOT } from "../support/project.ts";
import { parse } from "yaml";

/** A folder with a configuration and the secrets that the examples name. */
function folderOf(text: string): string {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "gateway.yaml"), text);
  writeFileSync(join(folder, "operations-token"), "a-token-of-a-test");
  copyFileSync(join(ROOT, "config/clients/clients.jsonl"), join(folder, "clients.jsonl"));
  const tls = join(ROOT, "test/fixtures/tls");
  copyFileSync(join(tls, "server.pem"), join(folder, "tls.crt"));
  copyFileSync(join(tls, "server-key.pem"), join(folder, "tls.key"));
  return folder;
}

const EXAMPLES: Readonly<Record<string, string>> = {
  "config/gateway.yaml": readText("config/gateway.yaml"),
  "config/clients/gateway.yaml": readText("config/clients/gateway.yaml"),
  "config/compose/gateway.yaml": readText("config/compose/gateway.yaml"),
  "config/systemd/gateway.yaml": readText("config/systemd/gateway.yaml"),
  "docs/first-day.md": blockOf("docs/first-day.md", "gateway.yaml"),
};

const schema = Schema.Compile(readYaml("config/gateway.schema.json") as object);

test.each(Object.keys(EXAMPLES))("%s is good, for the gateway and for editors", (name) => {
  const text = EXAMPLES[name]!;
  const [isValid, errors] = schema.Errors(parse(text));
  expect([isValid, errors]).toEqual([true, []]);
  const { config } = loadConfig({ file: join(folderOf(text), "gateway.yaml") }, {});
  expect(config.upstreams[0]!.name).toBe("amulet");
});

test("the first day's check says that its file is good", async () => {
  const folder = folderOf(EXAMPLES["docs/first-day.md"]!);
  const { code, stdout, stderr } = await command(["check"], { env: { GATEWAY_CONFIG: join(folder, "gateway.yaml") } });
  expect([code, stdout + stderr]).toEqual([0, expect.stringMatching(/gateway\.yaml is good$/m)]);
});

test("an editor finds a key that is misspelt", () => {
  expect(schema.Check({ upstreams: [{ name: "a", url: ["https://a.example"] }] })).toBe(false);
});

test("the secrets in the project are to be replaced", () => {
  expect(readText("config/compose/operations-token")).toMatch(/^change-me/);
});

test("the first day's Prometheus scrapes the replicas that it starts", () => {
  const page = readText("docs/first-day.md");
  const { rule_files, scrape_configs } = parse(blockOf("docs/first-day.md", "prometheus.yml")) as {
    rule_files: string[];
    scrape_configs: [{ static_configs: [{ targets: string[] }] }];
  };
  const started = [...page.matchAll(/registry-gateway@(\d+)/g)].map(([, port]) => `127.0.0.1:${port}`);
  expect(scrape_configs[0].static_configs[0].targets).toEqual(started.slice(0, 2));
  expect(page).toContain(`config/prometheus/rules.yaml" ${rule_files[0]}\n`);
});
