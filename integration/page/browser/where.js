// Prints as JSON where axe is, and with --chromium where a Chromium is, with the options that it needs.
import { createRequire } from "node:module";

const found = { axe: createRequire(import.meta.url).resolve("axe-core/axe.min.js") };
if (process.argv.includes("--chromium")) {
  const { default: chromium } = await import("@sparticuz/chromium");
  found.chromium = await chromium.executablePath();
  // As one process it ends with the first of its windows, and the others weaken what pages may not do.
  const unwanted = ["--single-process", "--no-zygote", "--disable-web-security", "--allow-running-insecure-content"];
  found.options = chromium.args.filter((option) => !unwanted.includes(option));
}
console.log(JSON.stringify(found));
