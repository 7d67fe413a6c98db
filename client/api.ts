// Generated from the OpenAPI document (npm run generate).

/** A path that knows these methods alone. */
type Path<Methods> = Methods & {
  [Name in Exclude<"get" | "put" | "post" | "delete" | "options" | "head" | "patch" | "trace", keyof Methods>]?: never;
};

/** An answer, by the media type of its body; `never`: without one. */
interface Answer<Content> {
  headers: { [name: string]: unknown };
  content: Content;
}

/** Header fields that a request may have. */
interface Fields {
  /** Party id or alias of the admin, where the path names none. */
  "X-Instrument-Admin"?: string;
  /** Names the request in the gateway's log and, with calls, at the registry: at most 128 of A-Z a-z 0-9 . _ : / + = @ ~ - */
  "X-Request-Id"?: string;
  /** Seconds that the client is going to wait. The gateway gives up then, or earlier. */
  "Request-Timeout"?: string;
  /** Goes on behind this id. */
  "Last-Event-ID"?: string;
}

/** What every endpoint takes and gives. */
export interface paths {
  "/registry/metadata/v1/info": Path<{
    /** What the registry is and supports */
    get: {
      parameters: {
        query?: {
          /** On the plain base URL of several registries: answer without those that fail, and name them in X-Registry-Partial. */
          partial?: boolean;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      responses: {
        200: Answer<{ "application/json": components["schemas"]["GetRegistryInfoResponse"] }>;
        304: Answer<never>;
      };
    };
  }>;
  "/registry/metadata/v1/instruments": Path<{
    /** All instruments, in pages */
    get: {
      parameters: {
        query?: {
          /** Instruments per page. */
          pageSize?: number;
          /** The `nextPageToken` of the page before. */
          pageToken?: string;
          /** On the plain base URL of several registries: answer without those that fail, and name them in X-Registry-Partial. */
          partial?: boolean;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      responses: {
        200: Answer<{
          "application/json": components["schemas"]["ListInstrumentsResponse"] | components["schemas"]["MergedPage"];
        }>;
        304: Answer<never>;
      };
    };
  }>;
  "/registry/metadata/v1/instruments/{instrumentId}": Path<{
    /** One instrument */
    get: {
      parameters: {
        query?: {
          /** On the plain base URL of several registries: answer without those that fail, and name them in X-Registry-Partial. */
          partial?: boolean;
        };
        path: {
          /** Instrument id, as one percent-encoded segment. */
          instrumentId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      responses: {
        200: Answer<{
          "application/json": components["schemas"]["Instrument"] | components["schemas"]["MergedInstrument"];
        }>;
        304: Answer<never>;
      };
    };
  }>;
  "/registry/transfer-instruction/v1/transfer-factory": Path<{
    /** Factory and context for a direct transfer */
    post: {
      parameters: { header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout"> };
      requestBody: { content: { "application/json": components["schemas"]["GetFactoryRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["TransferFactoryWithChoiceContext"] }> };
    };
  }>;
  "/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/accept": Path<{
    /** Context to accept a transfer instruction */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          transferInstructionId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/reject": Path<{
    /** Context to reject a transfer instruction */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          transferInstructionId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/withdraw": Path<{
    /** Context to withdraw a transfer instruction */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          transferInstructionId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/allocations/v1/{allocationId}/choice-contexts/execute-transfer": Path<{
    /** Context to execute the transfer of an allocation */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          allocationId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/allocations/v1/{allocationId}/choice-contexts/withdraw": Path<{
    /** Context to withdraw an allocation */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          allocationId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/allocations/v1/{allocationId}/choice-contexts/cancel": Path<{
    /** Context to cancel an allocation */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          allocationId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/allocation-instruction/v1/allocation-factory": Path<{
    /** Factory and context to create allocations */
    post: {
      parameters: { header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout"> };
      requestBody: { content: { "application/json": components["schemas"]["GetFactoryRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["FactoryWithChoiceContext"] }> };
    };
  }>;
  "/registry/transfer-instruction/v2/transfer-factory": Path<{
    /** Factory and context for a direct transfer (version 2) */
    post: {
      parameters: { header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout"> };
      requestBody: { content: { "application/json": components["schemas"]["GetFactoryRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["TransferFactoryWithChoiceContext"] }> };
    };
  }>;
  "/registry/transfer-instruction/v2/{transferInstructionId}/choice-contexts/accept": Path<{
    /** Context to accept a transfer instruction (version 2) */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          transferInstructionId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/transfer-instruction/v2/{transferInstructionId}/choice-contexts/reject": Path<{
    /** Context to reject a transfer instruction (version 2) */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          transferInstructionId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/transfer-instruction/v2/{transferInstructionId}/choice-contexts/withdraw": Path<{
    /** Context to withdraw a transfer instruction (version 2) */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          transferInstructionId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/allocation-instruction/v2/allocation-factory": Path<{
    /** Factory and context to create allocations (version 2) */
    post: {
      parameters: { header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout"> };
      requestBody: { content: { "application/json": components["schemas"]["GetFactoryRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["FactoryWithChoiceContext"] }> };
    };
  }>;
  "/registry/allocation-instruction/v2/{allocationInstructionId}/choice-contexts/accept": Path<{
    /** Context to accept an allocation instruction (version 2) */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          allocationInstructionId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/allocation-instruction/v2/{allocationInstructionId}/choice-contexts/withdraw": Path<{
    /** Context to withdraw an allocation instruction (version 2) */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          allocationInstructionId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/allocation/v2/settlement-factory": Path<{
    /** Factory and context to settle a batch of allocations (version 2) */
    post: {
      parameters: { header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout"> };
      requestBody: { content: { "application/json": components["schemas"]["GetFactoryRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["FactoryWithChoiceContext"] }> };
    };
  }>;
  "/registry/allocations/v2/{allocationId}/choice-contexts/withdraw": Path<{
    /** Context to withdraw an allocation (version 2) */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          allocationId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/allocations/v2/{allocationId}/choice-contexts/cancel": Path<{
    /** Context to cancel an allocation (version 2) */
    post: {
      parameters: {
        path: {
          /** Contract id, as one percent-encoded segment. */
          allocationId: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": components["schemas"]["GetChoiceContextRequest"] } };
      responses: { 200: Answer<{ "application/json": components["schemas"]["ChoiceContext"] }> };
    };
  }>;
  "/registry/{path}": Path<{
    /** Any other path, passed through to the registry untouched */
    get: {
      parameters: {
        query?: { [name: string]: string };
        path: {
          /** Any other path of the registry, slashes included. /docs and the typed client send these as they are; other viewers and generated clients encode them, and ask for another path. */
          path: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      responses: { 200: Answer<{ "*/*": unknown }> };
    };
    /** Any other path, passed through to the registry untouched */
    post: {
      parameters: {
        query?: { [name: string]: string };
        path: {
          /** Any other path of the registry, slashes included. /docs and the typed client send these as they are; other viewers and generated clients encode them, and ask for another path. */
          path: string;
        };
        header?: Pick<Fields, "X-Instrument-Admin" | "X-Request-Id" | "Request-Timeout">;
      };
      requestBody?: { content: { "application/json": unknown } };
      responses: { 200: Answer<{ "*/*": unknown }> };
    };
  }>;
  "/catalog/v1/registries": Path<{
    /** The registries behind this gateway */
    get: {
      parameters: { header?: Pick<Fields, "X-Request-Id" | "Request-Timeout"> };
      responses: {
        200: Answer<{ "application/json": components["schemas"]["CatalogueRegistries"] }>;
        304: Answer<never>;
      };
    };
  }>;
  "/catalog/v1/instruments": Path<{
    /** Search the instruments of all registries */
    get: {
      parameters: {
        query?: {
          /** Searched for in id, name and symbol. */
          query?: string;
          /** Only the registry of this party id or alias. */
          admin?: string;
          /** Only instruments with this symbol. */
          symbol?: string;
          /** Only instruments that are paused, or only those that are not. */
          paused?: boolean;
          /** Instruments per page. */
          pageSize?: number;
          /** The `nextPageToken` of the page before. */
          pageToken?: string;
        };
        header?: Pick<Fields, "X-Request-Id" | "Request-Timeout">;
      };
      responses: { 200: Answer<{ "application/json": components["schemas"]["CataloguePage"] }>; 304: Answer<never> };
    };
  }>;
  "/catalog/v1/changes": Path<{
    /** Follow the changes of all registries and their instruments */
    get: {
      parameters: {
        query?: {
          /** Asks for one answer: the changes behind this id; empty: the id to begin with. */
          since?: string;
        };
        header?: Pick<Fields, "Last-Event-ID" | "X-Request-Id" | "Request-Timeout">;
      };
      responses: {
        200: Answer<{ "application/json": components["schemas"]["CatalogueChanges"]; "text/event-stream": string }>;
      };
    };
  }>;
  "/openapi.json": Path<{
    /** This description */
    get: {
      parameters: { header?: Pick<Fields, "X-Request-Id" | "Request-Timeout"> };
      responses: { 200: Answer<{ "application/json": Record<string, never> }>; 304: Answer<never> };
    };
  }>;
  "/docs": Path<{
    /** This description to read */
    get: {
      parameters: { header?: Pick<Fields, "X-Request-Id" | "Request-Timeout"> };
      responses: { 200: Answer<{ "text/html": unknown }>; 304: Answer<never> };
    };
  }>;
  "/": Path<{
    /** What this gateway has, as HTML, or as JSON where Accept prefers that */
    get: {
      parameters: { header?: Pick<Fields, "X-Request-Id" | "Request-Timeout"> };
      responses: { 200: Answer<{ "text/html": unknown }>; 304: Answer<never> };
    };
  }>;
}

/** Bodies, by the name that they have in the standard. */
export interface components {
  schemas: {
    /** Registry info. */
    GetRegistryInfoResponse: {
      /** Party id of the registry's admin. */
      adminId: string;
      supportedApis: components["schemas"]["SupportedApis"];
      [name: string]: unknown;
    };
    /** Instrument. */
    Instrument: {
      id: string;
      name: string;
      symbol: string;
      totalSupply?: string | null;
      totalSupplyAsOf?: string | null;
      decimals: number;
      supportedApis: components["schemas"]["SupportedApis"];
      /** Whether transfers are paused (metadata 1.2). */
      paused?: boolean | null;
      /** Why, and until when (metadata 1.2). */
      pauseInfo?: { reason?: string | null; until?: string | null; [name: string]: unknown } | null;
      /** Fields of an account that a wallet asks for (metadata 1.2). */
      accountInputFieldsToShow?: unknown;
      [name: string]: unknown;
    };
    /** Instrument page. */
    ListInstrumentsResponse: {
      instruments: components["schemas"]["Instrument"][];
      nextPageToken?: string | null;
      [name: string]: unknown;
    };
    /** Choice context. */
    ChoiceContext: {
      choiceContextData: { [name: string]: unknown };
      disclosedContracts: components["schemas"]["DisclosedContract"][];
      [name: string]: unknown;
    };
    /** Transfer factory response. */
    TransferFactoryWithChoiceContext: {
      factoryId: string;
      /** `self`, `direct`, `offer`; an open enumeration. */
      transferKind: string;
      choiceContext: components["schemas"]["ChoiceContext"];
      [name: string]: unknown;
    };
    /** Allocation factory response. */
    FactoryWithChoiceContext: {
      factoryId: string;
      choiceContext: components["schemas"]["ChoiceContext"];
      [name: string]: unknown;
    };
    /** Disclosed contract. */
    DisclosedContract: {
      templateId: string;
      contractId: string;
      createdEventBlob: string;
      synchronizerId: string;
      debugPackageName?: string | null;
      debugPayload?: unknown;
      debugCreatedAt?: string | null;
      [name: string]: unknown;
    };
    /** API name → minor version the registry supports. */
    SupportedApis: { [name: string]: number };
    /** Factory request. Of the choice arguments the gateway reads the admins only. */
    GetFactoryRequest: {
      choiceArguments: { [name: string]: unknown };
      excludeDebugFields?: boolean | null;
      [name: string]: unknown;
    };
    /** Choice-context request. */
    GetChoiceContextRequest: {
      meta?: { [name: string]: unknown } | null;
      excludeDebugFields?: boolean | null;
      [name: string]: unknown;
    };
    /** Instrument of one of several registries. */
    MergedInstrument: {
      /** Party id of the admin whose registry lists it. */
      admin: string;
      id: string;
      name: string;
      symbol: string;
      totalSupply?: string | null;
      totalSupplyAsOf?: string | null;
      decimals: number;
      supportedApis: components["schemas"]["SupportedApis"];
      /** Whether transfers are paused (metadata 1.2). */
      paused?: boolean | null;
      /** Why, and until when (metadata 1.2). */
      pauseInfo?: { reason?: string | null; until?: string | null; [name: string]: unknown } | null;
      /** Fields of an account that a wallet asks for (metadata 1.2). */
      accountInputFieldsToShow?: unknown;
      [name: string]: unknown;
    };
    /** Page of the instruments of all registries. */
    MergedPage: { instruments: components["schemas"]["MergedInstrument"][]; nextPageToken?: string };
    /** Instrument of the catalogue. */
    CatalogueInstrument: {
      /** Party id of the admin whose registry lists it. */
      admin: string;
      /** Alias of its registry. */
      registry: string;
      id: string;
      name: string;
      symbol: string;
      totalSupply?: string | null;
      totalSupplyAsOf?: string | null;
      decimals: number;
      supportedApis: components["schemas"]["SupportedApis"];
      /** Whether transfers are paused (metadata 1.2). */
      paused?: boolean | null;
      /** Why, and until when (metadata 1.2). */
      pauseInfo?: { reason?: string | null; until?: string | null; [name: string]: unknown } | null;
      /** Fields of an account that a wallet asks for (metadata 1.2). */
      accountInputFieldsToShow?: unknown;
      [name: string]: unknown;
    };
    /** Page of the instruments that were found. */
    CataloguePage: { instruments: components["schemas"]["CatalogueInstrument"][]; nextPageToken?: string };
    /** The registries behind the gateway. */
    CatalogueRegistries: {
      registries: {
        /** Alias. */
        name: string;
        /** Null: not learned yet. */
        admin: string | null;
        /** Its base URL at this gateway. */
        basePath: string;
        supportedApis: components["schemas"]["SupportedApis"] | null;
        /** `up`, `degraded`, `failing`, `unproved`, `wrong-admin` or `disabled`. */
        health: string;
        instrumentCount: number | null;
        /** When its listing was read, ISO 8601. */
        asOf: string | null;
      }[];
    };
    /** Change of the catalogue. */
    CatalogueChange: {
      /** To go on behind this change. */
      id: string;
      /** `registry_changed`: it supports other APIs. `registry_relisted`: its instruments are others in ways that are not told one by one, so that they have to be listed again. */
      type:
        | "registry_added"
        | "registry_removed"
        | "registry_changed"
        | "registry_relisted"
        | "instrument_added"
        | "instrument_removed"
        | "instrument_changed"
        | "instrument_paused"
        | "instrument_unpaused";
      /** Party id of the registry's admin. */
      admin: string;
      /** Alias of the registry when it changed. */
      registry: string;
      /** When the registry answered so, ISO 8601. */
      at: string;
      /** Of `registry_added` and `registry_changed`. */
      supportedApis?: components["schemas"]["SupportedApis"] | null;
      /** Of changes of an instrument: its id, and those of name, symbol, decimals and supportedApis that are new; all of them, and paused, where it was added. */
      instrument?: { id: string; [name: string]: unknown };
    };
    /** Changes of the catalogue since an id. */
    CatalogueChanges: {
      changes: components["schemas"]["CatalogueChange"][];
      /** The `since` to ask with next. */
      lastId: string;
      /** The changes since that id cannot be told: list the catalogue again, and go on from `lastId`. */
      reset: boolean;
      /** There are more already. */
      more: boolean;
    };
    /** Error. Those of registries may have nothing but `error`. */
    ErrorResponse: {
      /** What is wrong, with what, and what to do. */
      error: string;
      /** Which error of the gateway's own this is. It never changes. */
      code?:
        | "malformed_request"
        | "malformed_path"
        | "invalid_query"
        | "malformed_body"
        | "invalid_request"
        | "invalid_page_token"
        | "listing_changed"
        | "admin_missing"
        | "admin_ambiguous"
        | "admin_disagreement"
        | "contract_ambiguous"
        | "contract_refused"
        | "credential_missing"
        | "credential_invalid"
        | "credential_expired"
        | "credentials_differ"
        | "upstream_forbidden"
        | "no_such_path"
        | "admin_unknown"
        | "contract_unknown"
        | "instrument_unknown"
        | "method_not_allowed"
        | "request_timeout"
        | "answer_not_read"
        | "instrument_ambiguous"
        | "body_too_large"
        | "uri_too_long"
        | "unsupported_media_type"
        | "expectation_failed"
        | "headers_too_large"
        | "too_many_requests"
        | "client_rate_limited"
        | "client_concurrency"
        | "client_gone"
        | "internal_error"
        | "upstream_error"
        | "upstream_unreachable"
        | "upstream_reset"
        | "upstream_tls"
        | "upstream_invalid"
        | "upstream_too_large"
        | "upstream_coding"
        | "upstream_credentials"
        | "upstream_wrong_url"
        | "nodes_disagree"
        | "wrong_admin"
        | "admin_not_known_yet"
        | "upstream_disabled"
        | "agreement_missing"
        | "upstream_busy"
        | "cache_only"
        | "node_cordoned"
        | "circuit_open"
        | "queue_full"
        | "overloaded"
        | "client_keys_unavailable"
        | "stopping"
        | "too_many_subscribers"
        | "upstream_connect_timeout"
        | "upstream_timeout"
        | "queue_timeout"
        | "not_cached";
      /** The X-Request-Id, by which the gateway's operator finds it. */
      requestId?: string;
      /** Seconds after which to try again. */
      retryAfter?: number;
      [name: string]: unknown;
    };
  };
}
