import { isOfVersion2, type PostOperation } from "../spec/operations.ts";
import { type Answer, jsonAnswer, refusal, textAnswer } from "./answer.ts";
import {
  allocationFactory,
  choiceContext,
  instructionContext,
  settlementFactory,
  transferFactory,
} from "./contexts.ts";
import { Contracts } from "./contracts.ts";
import { type Apis, type Instrument, sampleInstruments, supportedApis } from "./instruments.ts";
import { pageOf, type Paging } from "./paging.ts";
import { type CheckedBody, checkBody } from "./request-check.ts";
import type { Route } from "./route.ts";

/** A request as the registry reads it. */
interface RegistryRequest {
  readonly method: string;
  readonly query: URLSearchParams;
  readonly contentType: string | undefined;
  readonly body: string;
}

export interface RegistryOptions {
  readonly admin: string;
  readonly seed: number;
  readonly instruments: number;
  readonly apis: Apis;
  readonly paging: Paging;
}

/** Contract ids as the ledger writes them. */
const CONTRACT_ID = /^[0-9a-f]{138}$/i;

/** Legs or allocations of a batch: the standard asks for 25 legs and 50 allocations at least. */
const MOST_IN_BATCH = 100;

const NO_SUCH_PATH = textAnswer(404, "The requested resource could not be found.");

/** Answers requests as a registry in good health does: no faults, no delay, no connections. */
export class Registry {
  readonly instruments: readonly Instrument[];
  readonly #options: RegistryOptions;
  readonly #contracts: Contracts;
  readonly #byId: ReadonlyMap<string, Instrument>;

  constructor(options: RegistryOptions) {
    this.#options = options;
    this.#contracts = new Contracts(options.admin, options.seed);
    this.instruments = sampleInstruments(options.instruments, options.seed, options.apis);
    this.#byId = new Map(this.instruments.map((instrument) => [instrument.id, instrument]));
  }

  answer(request: RegistryRequest, route: Route | undefined): Answer {
    if (route === undefined || !this.#serves(route)) return NO_SUCH_PATH;
    const { record } = route.endpoint;
    const allowed = record.kind === "metadata" ? "GET" : "POST";
    const isAllowed = request.method === allowed || (request.method === "HEAD" && allowed === "GET");
    if (!isAllowed) return textAnswer(405, `HTTP method not allowed, supported methods: ${allowed}`);
    if (record.kind === "metadata") return this.#metadata(route, request.query);
    const body = checkBody(request, record, this.#options.admin);
    if ("status" in body) return body;
    const unknown = record.kind === "context" ? unknownContract(route.id) : undefined;
    return unknown ?? this.#post(route.endpoint.operation as PostOperation, route.id, body);
  }

  #serves({ endpoint }: Route): boolean {
    const { apis } = this.#options;
    if (endpoint.record.kind === "metadata" || apis === "both") return true;
    return (apis === "v2") === isOfVersion2(endpoint.operation);
  }

  #metadata({ endpoint, id }: Route, query: URLSearchParams): Answer {
    const { admin, apis, paging } = this.#options;
    switch (endpoint.operation) {
      case "info":
        return jsonAnswer(200, { adminId: admin, supportedApis: supportedApis(apis) });
      case "instruments": {
        const page = pageOf(this.instruments, query, paging);
        return typeof page === "string" ? refusal(400, page) : jsonAnswer(200, page);
      }
      default: {
        const instrument = this.#byId.get(id);
        return instrument === undefined
          ? refusal(404, `No instrument with id ${id} found`)
          : jsonAnswer(200, instrument);
      }
    }
  }

  #post(operation: PostOperation, id: string, { choiceArguments, debug }: CheckedBody): Answer {
    switch (operation) {
      case "transfer_factory":
      case "transfer_factory_v2":
        return jsonAnswer(200, transferFactory(this.#contracts, choiceArguments, debug));
      case "allocation_factory":
      case "allocation_factory_v2":
        return jsonAnswer(200, allocationFactory(this.#contracts, debug));
      case "settlement_factory_v2":
        return this.#settlement(choiceArguments, debug);
      case "allocation_instruction_accept_v2":
      case "allocation_instruction_withdraw_v2":
        return jsonAnswer(200, instructionContext(this.#contracts, id, debug));
      default:
        return jsonAnswer(200, choiceContext(this.#contracts, id, operation === "allocation_execute", debug));
    }
  }

  #settlement({ transferLegs, allocations = [] }: CheckedBody["choiceArguments"], debug: boolean): Answer {
    const ids = Array.isArray(allocations) ? allocations.filter((each) => typeof each === "string") : [];
    const legs = Array.isArray(transferLegs) ? transferLegs.length : 0;
    if (legs > MOST_IN_BATCH) return refusal(400, `At most ${MOST_IN_BATCH} transfer legs are supported.`);
    if (ids.length > MOST_IN_BATCH) return refusal(400, `At most ${MOST_IN_BATCH} allocations are supported.`);
    return (
      ids.map(unknownContract).find((answer) => answer !== undefined) ??
      jsonAnswer(200, settlementFactory(this.#contracts, ids, debug))
    );
  }
}

/** The answer about a contract that the registry does not know; ids that begin with `reassigned` are on their way (CIP-0112). */
function unknownContract(id: string): Answer | undefined {
  if (CONTRACT_ID.test(id)) return undefined;
  if (id.startsWith("reassigned")) {
    return refusal(409, `Contract '${id}' is being reassigned to another synchronizer. Try again later.`);
  }
  return refusal(404, `Contract '${id}' not found.`);
}
