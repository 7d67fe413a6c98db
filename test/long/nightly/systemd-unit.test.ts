import { spawnSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { provideProgram, SYSTEMD_ANALYZE } from "../../support/programs.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";

const UNIT = join(import.meta.dirname, "../../../config/systemd/registry-gateway@.service");

const folder = useTemporaryFolder();

test("systemd has nothing to say against the unit", () => {
  const instance = join(folder(), "registry-gateway@9091.service");
  copyFileSync(UNIT, instance);
  const { status, stdout, stderr } = spawnSync(provideProgram(SYSTEMD_ANALYZE), ["verify", instance], {
    encoding: "utf8",
    timeout: 60_000,
  });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "", stderr: "" });
});
