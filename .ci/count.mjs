// Prints what failed, then `N passed, N failed`, over the JSON reports of vitest named as arguments, and fails if
// anything failed or nothing ran.
import { readFileSync } from "node:fs";

let passed = 0;
let failed = 0;
let isComplete = true;
for (const file of process.argv.slice(2)) {
  try {
    const report = JSON.parse(readFileSync(file, "utf8"));
    passed += report.numPassedTests;
    failed += report.numFailedTests;
    // A file that cannot be loaded fails without a test.
    isComplete &&= report.success;
    for (const suite of report.testResults) {
      if (suite.status === "failed") printFailures(suite);
    }
  } catch (error) {
    process.stderr.write(`no report in ${file}: ${error.message}\n`);
    isComplete = false;
  }
}
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exitCode = isComplete && failed === 0 && passed > 0 ? 0 : 1;

/** Again, because of a long log often only the end is kept. */
function printFailures({ name, message, assertionResults }) {
  process.stdout.write(`FAILED ${name}${message === "" ? "" : `: ${message}`}\n`);
  for (const { status, fullName, failureMessages } of assertionResults) {
    if (status === "failed") process.stdout.write(`  ${fullName}\n    ${failureMessages.join("\n    ")}\n`);
  }
}
