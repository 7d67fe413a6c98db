import { expect, test } from "vitest";
import { ACCEPT, ADMIN_HEADER, choice, DRAFT, ENDPOINTS, FACTORY, INFO, LIST, PREFIX } from "../support/endpoints.ts";
import type { OperationsSite } from "../support/gateway.ts";
import { expectOwnError, type Site } from "../support/http.ts";
import { STRANGER } from "../support/registry.ts";

/** A deployment that is looked at from outside: its base URL, and where it is to be had its operations listener. */
export interface Deployment {
  readonly site: Site;
  readonly operations?: OperationsSite | undefined;
}

interface Registration {
  readonly name: string;
  readonly admin: string;
  readonly basePath: string;
}

/** A dozen journeys that hold for anybody's deployment, whatever registries are behind it. Nothing in it is changed. */
export function journeys(deployment: () => Deployment): void {
  const get = (path: string, headers: Record<string, string> = {}) => deployment().site.get(path, headers);
  const registrations = async (): Promise<Registration[]> => {
    const { json } = await get("/catalog/v1/registries");
    return (json.registries as Registration[]).filter(({ admin }) => admin !== null);
  };
  const firstOf = async () => (await registrations())[0]!;

  test("the catalogue lists registries, and each base URL leads to the registry of its admin", async () => {
    const all = await registrations();
    expect(all.length).toBeGreaterThan(0);
    for (const { admin, basePath } of all) {
      const answer = await get(basePath + INFO);
      expect([answer.status, answer.json.adminId]).toEqual([200, admin]);
      expect(answer.headers["content-type"]).toBe("application/json");
    }
  });

  test("name, party id in any spelling, and header mean the same registry", async () => {
    const { name, admin, basePath } = await firstOf();
    const expected = (await get(basePath + INFO)).text;
    const spellings = [name, admin, encodeURIComponent(admin), admin.replaceAll("::", "%3a%3a")];
    for (const spelling of spellings) expect((await get(`${PREFIX}/${spelling}${INFO}`)).text).toBe(expected);
    expect((await get(INFO, { [ADMIN_HEADER]: admin })).text).toBe(expected);
  });

  test("an admin that nobody serves is 404, and one that contradicts another is 400", async () => {
    const { basePath } = await firstOf();
    expectOwnError(await get(`${PREFIX}/${encodeURIComponent(STRANGER)}${INFO}`), 404, "admin_unknown");
    const torn = await get(basePath + INFO, { [ADMIN_HEADER]: STRANGER });
    expect([400, 404]).toContain(torn.status);
    expectOwnError(await deployment().site.post(basePath + FACTORY, choice({ expectedAdmin: STRANGER })), 400);
  });

  test("metadata is cached: the second answer is a hit of the same bytes, and a 304 for whoever has it", async () => {
    const { basePath } = await firstOf();
    const first = await get(basePath + LIST);
    const second = await get(basePath + LIST);
    expect([first.status, second.status, second.text === first.text]).toEqual([200, 200, true]);
    expect(["hit", "stale"]).toContain(second.cache);
    expect((await get(basePath + LIST, { "if-none-match": second.headers.etag! })).status).toBe(304);
  });

  test("a listing is walked to its end, and each instrument is there by its id", async () => {
    const { basePath } = await firstOf();
    const ids = new Set<string>();
    let token: string | undefined;
    for (let pages = 0; pages < 500; pages += 1) {
      const answer = await get(
        `${basePath}${LIST}?pageSize=50${token === undefined ? "" : `&pageToken=${encodeURIComponent(token)}`}`,
      );
      expect(answer.status).toBe(200);
      for (const { id } of answer.json.instruments as { id: string }[]) ids.add(id);
      token = answer.json.nextPageToken as string | undefined;
      if (token === undefined) break;
    }
    expect(token).toBeUndefined();
    for (const id of [...ids].slice(0, 3)) {
      const answer = await get(`${basePath}${LIST}/${encodeURIComponent(id)}`);
      expect([answer.status, answer.json.id]).toEqual([200, id]);
    }
    expect((await get(`${basePath}${LIST}/no%2Fsuch%20instrument`)).status).toBe(404);
  });

  test("a factory is answered by the registry, with the context that it needs, and kept by nobody", async () => {
    const { admin, basePath } = await firstOf();
    const answer = await deployment().site.post(
      basePath + FACTORY,
      choice({ expectedAdmin: admin, transfer: { instrumentId: { admin, id: "x" } } }),
    );
    // Whether the registry likes these arguments is its own matter; a 200 has the standard's form.
    expect([200, 400, 404, 422]).toContain(answer.status);
    if (answer.status === 200) expect(answer.json).toMatchObject({ factoryId: expect.any(String) as string });
    expect(answer.headers["cache-control"]).toBe("no-store");
  });

  test("every endpoint of the standard has a route", async () => {
    const { basePath } = await firstOf();
    for (const { path, method } of ENDPOINTS) {
      const wrong = method === "GET" ? "DELETE" : "GET";
      const answer = await deployment().site.send({ method: wrong, path: basePath + path.replace("{id}", "00ab") });
      expectOwnError(answer, 405, "method_not_allowed");
    }
  });

  test("a body that is no JSON, or of another type, reaches no registry", async () => {
    const { basePath } = await firstOf();
    const { site } = deployment();
    expectOwnError(await site.post(basePath + ACCEPT, "{"), 400, "malformed_body");
    expectOwnError(await site.post(basePath + FACTORY, "{}"), 400, "invalid_request");
    expectOwnError(
      await site.post(basePath + ACCEPT, "{}", { "content-type": "text/plain" }),
      415,
      "unsupported_media_type",
    );
  });

  test("paths that climb, and ids that are none, are 400", async () => {
    const { basePath } = await firstOf();
    for (const path of [`${LIST}/..%2F..%2Fx`, `${LIST}/%00`, `${LIST}/%2e%2e`, `${DRAFT}/..%5c..`, `${LIST}/%ff`]) {
      const answer = await get(basePath + path);
      expectOwnError(answer, 400, "malformed_path");
    }
  });

  test("browsers may call: preflights are answered, and errors have CORS fields too", async () => {
    const { basePath } = await firstOf();
    const headers = {
      origin: "https://wallet.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,content-type",
    };
    const preflight = await deployment().site.send({ method: "OPTIONS", path: basePath + FACTORY, headers });
    expect(preflight.status).toBe(204);
    expect(preflight.headers["access-control-allow-headers"]).toMatch(/authorization/i);
    const failed = await get("/nothing", { origin: "https://wallet.example" });
    expect(failed.headers["access-control-allow-origin"]).toBeDefined();
  });

  test("the API is described at /openapi.json, and shown at /docs", async () => {
    expect((await get("/openapi.json")).json).toHaveProperty("paths");
    expect((await get("/docs/")).headers["content-type"]).toMatch(/html/);
    expect((await get("/")).status).toBe(200);
  });

  test("several registries are one listing, in which each instrument has its admin", async () => {
    const all = await registrations();
    const answer = await get(`${LIST}?pageSize=10`);
    expect(answer.status).toBe(200);
    if (all.length === 1) return;
    const admins = (answer.json.instruments as { admin: string }[]).map(({ admin }) => admin);
    for (const admin of admins) expect(all.map((each) => each.admin)).toContain(admin);
    expect(admins.length).toBeGreaterThan(0);
  });

  test("the operations listener says how it is, where it is to be had", async () => {
    const { operations } = deployment();
    expect((await get("/")).status).toBe(200);
    if (operations === undefined) return;
    for (const path of ["/livez", "/readyz", "/metrics"]) expect((await operations.get(path)).status).toBe(200);
    expect((await operations.get("/metrics")).text).toContain("registry_gateway_requests_total");
  });
}
