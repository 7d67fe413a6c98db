import { afterEach } from "vitest";
import { type GatewayTestOptions, type GatewayUnderTest, startGateway } from "./gateway.ts";

/** Starts gateways that stop after each test. */
export function useGateways(): (
  keys: Record<string, unknown>,
  options?: GatewayTestOptions,
) => Promise<GatewayUnderTest> {
  const running: GatewayUnderTest[] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((gateway) => gateway.stop()));
  });
  return async (keys, options) => {
    const gateway = await startGateway(keys, options);
    running.push(gateway);
    return gateway;
  };
}
