// Prints as JSON where axe is, and with --chromium where a Chromium is, with the options that it needs.
import { createRequire } from "node:module";

const found = { axe: createRequire(import.meta.url).resolve("axe-core/axe.min.js") };
if (process.argv.includes("--chromium")) {
  const { default: chromium } = await import("@sparticuz/chromium");
  found.chromium = await chromium.executablePath();
  found.options = chromium.args;
}
console.log(JSON.stringify(found));
