import createClient, { type Client } from "openapi-fetch";
import type { Static } from "typebox";
import type * as schemas from "../../src/spec/schemas.ts";
import type { ErrorBody } from "../../tools/openapi/schemas.ts";

type Json<Body> = { content: { "application/json": Body } };
type Failure = Json<Static<typeof ErrorBody>>;
type Answers<Body> = { 200: Json<Body>; 400: Failure; 404: Failure; 409: Failure; 500: Failure; 502: Failure };
type WithId = { path: { id: string } };
/** Both forms of no parameters: an operation without any takes options all the same. */
type WithoutId = { path?: never };

type Get<Body, Path = WithoutId, Query = never> = {
  get: { parameters: Path & { query?: Query }; responses: Answers<Body> };
};
type Post<Body, Request, Path = WithoutId> = {
  post: { parameters: Path; requestBody: Json<Request>; responses: Answers<Body> };
};
type Factory<Body> = Post<Body, Static<typeof schemas.FactoryRequest>>;
type Context = Post<Static<typeof schemas.ChoiceContext>, Static<typeof schemas.ContextRequest>, WithId>;
type TransferFactory = Factory<Static<typeof schemas.TransferFactory>>;
type AllocationFactory = Factory<Static<typeof schemas.AllocationFactory>>;

/** Every endpoint of both versions as generators of clients write them, over the gateway's own schemas. */
export type ApiPaths = {
  "/registry/metadata/v1/info": Get<schemas.RegistryInfo>;
  "/registry/metadata/v1/instruments": Get<
    schemas.InstrumentPage,
    WithoutId,
    { pageSize?: number; pageToken?: string }
  >;
  "/registry/metadata/v1/instruments/{id}": Get<schemas.Instrument, WithId>;
  "/registry/transfer-instruction/v1/transfer-factory": TransferFactory;
  "/registry/transfer-instruction/v1/{id}/choice-contexts/accept": Context;
  "/registry/transfer-instruction/v1/{id}/choice-contexts/reject": Context;
  "/registry/transfer-instruction/v1/{id}/choice-contexts/withdraw": Context;
  "/registry/allocations/v1/{id}/choice-contexts/execute-transfer": Context;
  "/registry/allocations/v1/{id}/choice-contexts/withdraw": Context;
  "/registry/allocations/v1/{id}/choice-contexts/cancel": Context;
  "/registry/allocation-instruction/v1/allocation-factory": AllocationFactory;
  "/registry/transfer-instruction/v2/transfer-factory": TransferFactory;
  "/registry/transfer-instruction/v2/{id}/choice-contexts/accept": Context;
  "/registry/transfer-instruction/v2/{id}/choice-contexts/reject": Context;
  "/registry/transfer-instruction/v2/{id}/choice-contexts/withdraw": Context;
  "/registry/allocation-instruction/v2/allocation-factory": AllocationFactory;
  "/registry/allocation-instruction/v2/{id}/choice-contexts/accept": Context;
  "/registry/allocation-instruction/v2/{id}/choice-contexts/withdraw": Context;
  "/registry/allocation/v2/settlement-factory": AllocationFactory;
  "/registry/allocations/v2/{id}/choice-contexts/withdraw": Context;
  "/registry/allocations/v2/{id}/choice-contexts/cancel": Context;
};

export type ApiPath = keyof ApiPaths;
type PathOf<Endpoint> = { [Path in ApiPath]: ApiPaths[Path] extends Endpoint ? Path : never }[ApiPath];
export type ContextPath = PathOf<Context>;
export type FactoryPath = PathOf<AllocationFactory>;

/** A typed client of a base URL, as those who generate theirs have one. */
export function apiClient(baseUrl: string, headers: Readonly<Record<string, string>> = {}): Client<ApiPaths> {
  return createClient<ApiPaths>({ baseUrl, headers });
}

/** What came of a call: the status, and whether version 2 answered it. */
export interface Called {
  readonly status: number;
  readonly version: "v1" | "v2";
}

/**
 * A wallet that prefers version 2 wherever `supportedApis` of the registry's info names it, and falls back to version 1
 * on a 404, as the standard says. It keeps every status that it has seen.
 */
export class Wallet {
  readonly statuses: number[] = [];
  readonly client: Client<ApiPaths>;

  constructor(client: Client<ApiPaths>) {
    this.client = client;
  }

  async supports(api: string): Promise<boolean> {
    const { data, response } = await this.client.GET("/registry/metadata/v1/info", { params: {} });
    this.statuses.push(response.status);
    return data !== undefined && Object.hasOwn(data.supportedApis, api);
  }

  /** Calls `v2` where `isPreferred`, and `v1` where that is not so, or where the registry has no such path. */
  async call(
    isPreferred: boolean,
    calls: Readonly<Record<"v1" | "v2", () => Promise<{ response: Response }>>>,
  ): Promise<Called> {
    if (isPreferred) {
      const { status } = (await calls.v2()).response;
      this.statuses.push(status);
      if (status !== 404) return { status, version: "v2" };
    }
    const { status } = (await calls.v1()).response;
    this.statuses.push(status);
    return { status, version: "v1" };
  }
}
