import type { GetResponse, PostRequest, PostResponse, TokenStandardClient } from "@canton-network/core-token-standard";
import { expect, expectTypeOf, test } from "vitest";
import { type components, createClient, type paths } from "../../client/client.ts";
import { startSandbox } from "../../src/sandbox/sandbox.ts";
import { DSO, sampleJson } from "../support/sample.ts";

type Ours = components["schemas"];

/** Registries send null for what they do not have; the official types leave that out. */
type WithoutNull<T> = T extends object ? { [Name in keyof T]: WithoutNull<Exclude<T[Name], null>> } : T;

type Gets = Parameters<TokenStandardClient["get"]>[0];
type Posts = Parameters<TokenStandardClient["post"]>[0];
type Factory<Kind extends string> = `/registry/${Kind}-instruction/v1/${Kind}-factory` & Posts;
type Context = Exclude<Posts, Factory<"transfer"> | Factory<"allocation">>;

/** What stands in braces. */
type NamesIn<Path> = Path extends `${string}{${infer Name}}${string}` ? Name : never;
type NamesOf<Path extends keyof paths, Method extends "get" | "post"> = paths[Path] extends {
  readonly [M in Method]: { parameters: { path: infer Parameters } };
}
  ? keyof Parameters
  : never;

test("paths and their parameters have the names of the official package", () => {
  expectTypeOf<Gets | Posts>().toExtend<keyof paths>();
  expectTypeOf<{ [Path in Gets]: NamesOf<Path, "get"> }>().toEqualTypeOf<{ [Path in Gets]: NamesIn<Path> }>();
  expectTypeOf<{ [Path in Posts]: NamesOf<Path, "post"> }>().toEqualTypeOf<{ [Path in Posts]: NamesIn<Path> }>();
});

test("what is of a type of the official package is of ours", () => {
  expectTypeOf<GetResponse<"/registry/metadata/v1/info">>().toExtend<Ours["GetRegistryInfoResponse"]>();
  expectTypeOf<GetResponse<"/registry/metadata/v1/instruments">>().toExtend<Ours["ListInstrumentsResponse"]>();
  expectTypeOf<GetResponse<"/registry/metadata/v1/instruments/{instrumentId}">>().toExtend<Ours["Instrument"]>();
  expectTypeOf<PostRequest<Factory<"transfer"> | Factory<"allocation">>>().toExtend<Ours["GetFactoryRequest"]>();
  expectTypeOf<PostResponse<Factory<"transfer">>>().toExtend<Ours["TransferFactoryWithChoiceContext"]>();
  expectTypeOf<PostResponse<Factory<"allocation">>>().toExtend<Ours["FactoryWithChoiceContext"]>();
  expectTypeOf<PostRequest<Context>>().toExtend<Ours["GetChoiceContextRequest"]>();
  expectTypeOf<PostResponse<Context>>().toExtend<Ours["ChoiceContext"]>();
});

test("what is of our types is of the official ones, but for null", () => {
  type Of<Path extends Gets> = GetResponse<Path>;
  expectTypeOf<WithoutNull<Ours["GetRegistryInfoResponse"]>>().toExtend<Of<"/registry/metadata/v1/info">>();
  expectTypeOf<WithoutNull<Ours["ListInstrumentsResponse"]>>().toExtend<Of<"/registry/metadata/v1/instruments">>();
  type One = Of<"/registry/metadata/v1/instruments/{instrumentId}">;
  expectTypeOf<WithoutNull<Ours["Instrument"]>>().toExtend<One>();
});

test("a wallet's functions of the official types take what our client gives, and our client takes their requests", async () => {
  await using registry = await startSandbox({ admin: DSO });
  const client = createClient({ url: registry.url });
  const canTransfer = ({ supportedApis }: Pick<GetResponse<"/registry/metadata/v1/info">, "supportedApis">) =>
    supportedApis["splice-api-token-transfer-instruction-v1"] === 1;
  const { data: info } = await client.GET("/registry/metadata/v1/info");
  expect(canTransfer(info!)).toBe(true);
  const body = sampleJson("04-transfer-factory.request.amulet.json") as PostRequest<Factory<"transfer">>;
  const { data } = await client.POST("/registry/transfer-instruction/v1/transfer-factory", { body });
  expect(data?.factoryId).toHaveLength(138);
});
