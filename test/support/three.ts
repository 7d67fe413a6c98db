import { beforeAll, beforeEach } from "vitest";
import { type GatewayOptions, startGateway, type TestGateway } from "./gateway.ts";
import { type Registry, type RegistryOptions, startRegistry } from "./registry.ts";

export const NAMES = ["amulet", "bonds", "funds"] as const;
export type Name = (typeof NAMES)[number];

export interface Three {
  readonly gateway: TestGateway;
  readonly registries: Readonly<Record<Name, Registry>>;
  /** Which registries were asked for what, but infos, since the test began: `amulet instrument`. */
  readonly asked: () => string[];
}

export interface ThreeOptions extends GatewayOptions {
  /** Further keys of the configuration, and of every upstream or of one. */
  readonly keys?: object;
  readonly upstream?: object | ((name: Name) => object);
  readonly registry?: RegistryOptions;
}

/** Three registries, of which the last has to tell its admin, behind one gateway, for all tests of a file or block. */
export function useThree({ keys, upstream = {}, registry, ...options }: ThreeOptions = {}): () => Three {
  let three: Three | undefined;
  beforeAll(async () => {
    const all = await Promise.all(NAMES.map((name) => startRegistry(name, registry)));
    const registries = Object.fromEntries(all.map((each) => [each.name, each])) as Record<Name, Registry>;
    const gateway = await startGateway(
      {
        ...keys,
        upstreams: all.map((each) => {
          const own = typeof upstream === "function" ? upstream(each.name as Name) : upstream;
          return each.upstream(each.name === "funds" ? Object.assign({ admin: undefined }, own) : own);
        }),
      },
      options,
    );
    for (const name of NAMES) {
      const { status } = await gateway.get(`${gateway.base(name)}/registry/metadata/v1/info`);
      if (status !== 200) throw new Error(`${name} has not told its admin: ${status}`);
    }
    const asked = (): string[] => NAMES.flatMap((name) => registries[name].asked.map((each) => `${name} ${each}`));
    three = { gateway, registries, asked };
  });
  beforeEach(() => {
    for (const name of NAMES) three?.registries[name].reset();
  });
  return () => three!;
}
