import { DSO, sampleJson, sampleText } from "../sandbox/sample.ts";

export { DSO };

/** 25 instruments, 8.9 kB. */
export const PAGE = sampleText("02-instruments.response.page1-of-3.json");

/** 0.4 kB. */
export const INSTRUMENT = sampleText("03-instrument.response.amulet.json");

/** A transfer of four holdings, 1.5 kB. */
export const FACTORY_REQUEST = withHoldings(4);

/** Five disclosed contracts with their debug fields, 13 kB. */
export const FACTORY_RESPONSE = JSON.stringify(sampleJson("04-transfer-factory.response.amulet.self.with-debug.json"));

function withHoldings(count: number): string {
  const request = sampleJson("04-transfer-factory.request.amulet.json") as {
    choiceArguments: { transfer: { inputHoldingCids: string[] } };
  };
  const { transfer } = request.choiceArguments;
  transfer.inputHoldingCids = Array.from({ length: count }, () => transfer.inputHoldingCids[0]!);
  return JSON.stringify(request);
}
