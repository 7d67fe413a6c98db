import { DSO, sampleJson, sampleText } from "../support/sample.ts";

export { DSO };

/** 25 instruments, 8.9 kB. */
export const PAGE = sampleText("02-instruments.response.page1-of-3.json");

/** 0.4 kB. */
export const INSTRUMENT = sampleText("03-instrument.response.amulet.json");

/** A transfer of four holdings, 1.5 kB. */
export const FACTORY_REQUEST = withHoldings(4);

/** The same in version 2, where parties are accounts. */
export const FACTORY_REQUEST_V2 = inVersion2(FACTORY_REQUEST);

/** Five disclosed contracts with their debug fields, 13 kB. */
export const FACTORY_RESPONSE = JSON.stringify(sampleJson("04-transfer-factory.response.amulet.self.with-debug.json"));

/** Just below 1 MiB of small objects, each of a shape of its own, and an escape, for which keys are looked at closely. */
export const WORST_REQUEST = withShapes(1024 * 1024 - 200);

function withShapes(size: number): string {
  const request = sampleJson("04-transfer-factory.request.amulet.json") as { choiceArguments: object };
  const shapes: object[] = [];
  for (let at = 0, length = JSON.stringify(request).length; length < size - 50; at++) {
    const shape = { [`k${at.toString(36)}`]: 0 };
    shapes.push(shape);
    length += JSON.stringify(shape).length + 1;
  }
  return JSON.stringify({ ...request, shapes }).replace('"shapes":', '"s\\u0068apes":');
}

function inVersion2(text: string): string {
  const request = JSON.parse(text) as {
    choiceArguments: { expectedAdmin?: string; transfer: { sender: unknown; receiver: unknown } };
  };
  const { expectedAdmin: _, transfer, ...others } = request.choiceArguments;
  const account = (owner: unknown) => ({ owner, provider: null, id: "" });
  const accounts = { sender: account(transfer.sender), receiver: account(transfer.receiver) };
  const choiceArguments = { transfer: { ...transfer, ...accounts }, actors: [transfer.sender], ...others };
  return JSON.stringify({ ...request, choiceArguments });
}

function withHoldings(count: number): string {
  const request = sampleJson("04-transfer-factory.request.amulet.json") as {
    choiceArguments: { transfer: { inputHoldingCids: string[] } };
  };
  const { transfer } = request.choiceArguments;
  transfer.inputHoldingCids = Array.from({ length: count }, () => transfer.inputHoldingCids[0]!);
  return JSON.stringify(request);
}
