import { type TSchema, Type } from "typebox";
import { CLIENT_ERRORS } from "../../src/errors.ts";
import type { CachedOperation } from "../../src/spec/operations.ts";
import {
  CHANGE_TYPES,
  ContextRequest,
  DisclosedContract,
  FactoryRequest,
  Instrument,
  RegistryInfo,
  SCHEMAS,
  SupportedApis,
} from "../../src/spec/schemas.ts";

/** The bodies that the gateway makes itself, which nothing is held to, and the names of all. */

const OPEN = { additionalProperties: true };

export const ErrorBody = Type.Object(
  {
    error: Type.String({ description: "What is wrong, with what, and what to do." }),
    code: Type.Optional(
      Type.Enum(Object.keys(CLIENT_ERRORS), {
        description: "Which error of the gateway's own this is. It never changes.",
      }),
    ),
    requestId: Type.Optional(
      Type.String({ description: "The X-Request-Id, by which the gateway's operator finds it." }),
    ),
    retryAfter: Type.Optional(Type.Integer({ description: "Seconds after which to try again." })),
  },
  { ...OPEN, description: "Error. Those of registries may have nothing but `error`." },
);

const ofAggregate = { admin: Type.String({ description: "Party id of the admin whose registry lists it." }) };

/** An instrument of the aggregate: as its registry gives it, with its admin. */
const MergedInstrument = Type.Object(
  { ...ofAggregate, ...Instrument.properties },
  { ...OPEN, description: "Instrument of one of several registries." },
);

const MergedPage = Type.Object(
  { instruments: Type.Array(MergedInstrument), nextPageToken: Type.Optional(Type.String()) },
  { description: "Page of the instruments of all registries." },
);

const CatalogueInstrument = Type.Object(
  { ...ofAggregate, registry: Type.String({ description: "Alias of its registry." }), ...Instrument.properties },
  { ...OPEN, description: "Instrument of the catalogue." },
);

export const CataloguePage = Type.Object(
  { instruments: Type.Array(CatalogueInstrument), nextPageToken: Type.Optional(Type.String()) },
  { description: "Page of the instruments that were found." },
);

export const CatalogueRegistries = Type.Object(
  {
    registries: Type.Array(
      Type.Object({
        name: Type.String({ description: "Alias." }),
        admin: Type.Union([Type.String(), Type.Null()], { description: "Null: not learned yet." }),
        basePath: Type.String({ description: "Its base URL at this gateway." }),
        supportedApis: Type.Union([SupportedApis, Type.Null()]),
        health: Type.String({ description: "`up`, `degraded`, `failing`, `unproved`, `wrong-admin` or `disabled`." }),
        instrumentCount: Type.Union([Type.Integer(), Type.Null()]),
        asOf: Type.Union([Type.String(), Type.Null()], { description: "When its listing was read, ISO 8601." }),
      }),
    ),
  },
  { description: "The registries behind the gateway." },
);

const CatalogueChange = Type.Object(
  {
    id: Type.String({ description: "To go on behind this change." }),
    type: Type.Enum([...CHANGE_TYPES], {
      description:
        "`registry_changed`: it supports other APIs. `registry_relisted`: its instruments are others in ways that are not told " +
        "one by one, so that they have to be listed again.",
    }),
    admin: Type.String({ description: "Party id of the registry's admin." }),
    registry: Type.String({ description: "Alias of the registry when it changed." }),
    at: Type.String({ description: "When the registry answered so, ISO 8601." }),
    supportedApis: Type.Optional(
      Type.Union([SupportedApis, Type.Null()], { description: "Of `registry_added` and `registry_changed`." }),
    ),
    instrument: Type.Optional(
      Type.Object(
        { id: Type.String() },
        {
          ...OPEN,
          description:
            "Of changes of an instrument: its id, and those of name, symbol, decimals and supportedApis that are new; all of them, " +
            "and paused, where it was added.",
        },
      ),
    ),
  },
  { description: "Change of the catalogue." },
);

export const CatalogueChanges = Type.Object(
  {
    changes: Type.Array(CatalogueChange),
    lastId: Type.String({ description: "The `since` to ask with next." }),
    reset: Type.Boolean({
      description: "The changes since that id cannot be told: list the catalogue again, and go on from `lastId`.",
    }),
    more: Type.Boolean({ description: "There are more already." }),
  },
  { description: "Changes of the catalogue since an id." },
);

/**
 * What the plain base URL of several registries answers, by the endpoint that one of them has; undefined where it refuses.
 */
export const MERGED: Readonly<
  Record<CachedOperation, { readonly answer: TSchema; readonly text: string } | undefined>
> = {
  info: {
    answer: RegistryInfo,
    text: "Without an admin: 400 that lists the registries, or the gateway's own admin where one is configured.",
  },
  instruments: {
    answer: MergedPage,
    text: "Without an admin: the instruments of all registries in turn, each with its `admin`.",
  },
  instrument: {
    answer: MergedInstrument,
    text: "Without an admin: the instrument if exactly one registry has the id; 409 that names them if several have.",
  },
};

/** All that have a name in the description: the standard's, where it has one. */
export const NAMED_SCHEMAS: Readonly<Record<string, TSchema>> = {
  ...SCHEMAS,
  DisclosedContract,
  SupportedApis,
  GetFactoryRequest: FactoryRequest,
  GetChoiceContextRequest: ContextRequest,
  MergedInstrument,
  MergedPage,
  CatalogueInstrument,
  CataloguePage,
  CatalogueRegistries,
  CatalogueChange,
  CatalogueChanges,
  ErrorResponse: ErrorBody,
};
