import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { atEnd } from "../../support/closing.ts";
import { CANCEL, INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { startGateway, temporaryFolder, type TestGateway, type Values } from "../../support/gateway.ts";
import { Site } from "../../support/http.ts";
import { findFreePort } from "../../support/ports.ts";
import { NGINX, provideProgram } from "../../support/programs.ts";
import { readText, ROOT } from "../../support/project.ts";
import { instrument, type Registry, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const TLS = join(ROOT, "test/fixtures/tls");

/** The example with the ports and the certificate of a test, and nothing else changed, as a whole configuration of nginx. */
function configuration(folder: string, port: number, gateways: readonly number[]): string {
  const example = readText("config/nginx/in-front.conf")
    .replace("listen 443 ", `listen 127.0.0.1:${port} `)
    .replaceAll("127.0.0.1:8081", `127.0.0.1:${gateways[0]}`)
    .replaceAll("127.0.0.1:8082", `127.0.0.1:${gateways[1]}`)
    .replaceAll("/etc/nginx/tls/tls.crt", join(TLS, "server.pem"))
    .replaceAll("/etc/nginx/tls/tls.key", join(TLS, "server-key.pem"));
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (kind) => `${kind}_temp_path ${folder}/${kind};`,
  );
  return `daemon off; master_process off; pid ${folder}/pid; error_log stderr crit;
events { worker_connections 1024; }
http { access_log off; ${temporary.join(" ")} ${example} }`;
}

describe("two gateways behind the nginx of the example", () => {
  let amulet: Registry;
  let ports: number[];
  let gateways: TestGateway[];
  let front: Site;
  const start = (port: number): Promise<TestGateway> => {
    const values: Values = {
      listen: { port, trustedProxies: ["127.0.0.1"] },
      shutdown: { grace: "1s", timeout: "5s" },
      log: { hits: 1, addresses: true },
      upstreams: [amulet],
    };
    return startGateway(values);
  };

  beforeAll(async () => {
    amulet = await startRegistry("amulet");
    ports = [await findFreePort(), await findFreePort()];
    gateways = await Promise.all(ports.map(start));
    const [folder, port] = [temporaryFolder(), await findFreePort()];
    mkdirSync(join(folder, "logs"));
    const file = join(folder, "nginx.conf");
    writeFileSync(file, configuration(folder, port, ports));
    const nginx = provideProgram(NGINX);
    const { status, stderr } = spawnSync(nginx, ["-t", "-c", file, "-p", folder], { encoding: "utf8" });
    expect([status, stderr]).toEqual([0, expect.stringContaining("test is successful")]);
    const child = spawn(nginx, ["-c", file, "-p", folder, "-e", "stderr"], { stdio: ["ignore", "inherit", "inherit"] });
    atEnd(async () => {
      child.kill("SIGTERM");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    });
    front = new Site(`https://localhost:${port}`, readFileSync(join(TLS, "ca.pem")));
    await until(async () => (await front.get("/")).status === 200);
  });

  test("an id with an encoded slash stays one segment, and a body of a MiB passes", async () => {
    amulet.instruments.push(instrument("Amulet/USD"));
    const answer = await front.get(`${PREFIX}/amulet${LIST}/Amulet%2FUSD`);
    expect([answer.status, answer.json.id]).toEqual([200, "Amulet/USD"]);
    const large = await front.post(CANCEL, `{"meta":{"x":"${"x".repeat(2 ** 20 - 40)}"}}`);
    expect(large.status).toBe(200);
    const tooLarge = await front.post(CANCEL, `{"meta":{"x":"${"x".repeat(2 ** 20)}"}}`);
    expect([tooLarge.status, tooLarge.code]).toEqual([413, "body_too_large"]);
  });

  test("no client chooses its own address", async () => {
    await front.get(INFO, { "x-forwarded-for": "203.0.113.7" });
    const addresses = gateways.flatMap(({ requestLines }) => requestLines.map(({ address }) => address));
    expect(new Set(addresses)).toEqual(new Set(["127.0.0.1"]));
  });

  test("clients that speak HTTP/2 get what others get, many at once on one connection", async () => {
    const session = connectHttp2(front.url, { ca: readFileSync(join(TLS, "ca.pem")) });
    atEnd(() => session.destroy());
    const ask = async (path: string): Promise<string> => {
      const isCall = path === CANCEL;
      const fields = { ":path": path, ":method": isCall ? "POST" : "GET", "content-type": "application/json" };
      const stream = session.request(fields);
      stream.end(isCall ? "{}" : undefined);
      let text = "";
      stream.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      await once(stream, "end");
      return text;
    };
    const paths = Array.from({ length: 60 }, (_none, at) => [INFO, CANCEL, LIST][at % 3]!);
    const answers = await Promise.all(paths.map(ask));
    const expected = [(await front.get(INFO)).text, (await front.post(CANCEL)).text, (await front.get(LIST)).text];
    for (const [at, answer] of answers.entries()) expect(answer).toBe(expected[at % 3]);
  });

  test("a restart of one gateway after the other costs no client an error", async () => {
    const over = new AbortController();
    const outcomes = new Set<string>();
    const clients = Array.from({ length: 4 }, async (_none, client) => {
      for (let round = client; !over.signal.aborted; round += 1) {
        outcomes.add((await (round % 2 === 0 ? front.get(INFO) : front.post(CANCEL))).outcome);
      }
    });
    for (const [at, port] of ports.entries()) {
      await gateways[at]!.stop({ grace: true });
      gateways[at] = await start(port);
    }
    over.abort();
    await Promise.all(clients);
    expect(outcomes).toEqual(new Set(["200"]));
  });

  test("when no gateway can be reached, clients get JSON", async () => {
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    const answer = await front.get(INFO);
    expect([answer.status, answer.headers["retry-after"]]).toEqual([502, "1"]);
    expect(answer.json).toEqual({ error: "no gateway can be reached; try again shortly" });
  });
});
