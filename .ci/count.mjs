// Prints what failed, then `N passed, N failed`, over the JSON reports of vitest named as arguments, and fails if anything
// failed or nothing ran.
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
    for (const suite of report.testResults) printFailures(suite);
  } catch (error) {
    process.stderr.write(`no report in ${file}: ${error.message}\n`);
    isComplete = false;
  }
}
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exitCode = isComplete && failed === 0 && passed > 0 ? 0 : 1;

/** Again at the end, because of a long log often nothing else is kept. */
function printFailures({ name, status: suiteStatus, message, assertionResults }) {
  if (suiteStatus === "failed" && message !== "") process.stdout.write(`FAILED ${name}: ${message}\n`);
  for (const { status, fullName, failureMessages } of assertionResults) {
    if (status !== "failed") continue;
    process.stdout.write(`FAILED ${name}: ${fullName}\n    ${failureMessages.join("\n    ")}\n`);
  }
}
