// Puts the page together: one HTML file with its style, its script, the compiled functions and their licences.

import { build } from "esbuild";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const [wasm, out] = process.argv.slice(2);
const LARGEST = 2 * 1024 * 1024;

async function bundled(entry, define = {}) {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(here, "page", entry)],
    bundle: true, minify: true, write: false, format: "iife", target: "es2022", legalComments: "none", charset: "utf8", metafile: true,
    alias: { wasm: resolve(wasm, "grpo_lambda_web.js") },
    // The module's bytes are handed to it; it is never fetched.
    define: { "import.meta.url": '"page:"', ...define },
    absWorkingDir: here,
  });
  // Neither may end the script element it stands in.
  return [outputFiles[0].text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--"), metafile];
}

// The licence of every package whose code is in the page.
function licences(metafile) {
  const names = new Set(Object.keys(metafile.inputs).map((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1]).filter(Boolean));
  const text = [...names].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((f) => /^licen[sc]e/i.test(f));
    return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8").trim() : ""}`;
  });
  const own = "grpo-lambda (MIT OR Apache-2.0)";
  return [own, ...text].join("\n\n----\n\n").replace(/&/g, "&amp;").replace(/</g, "&lt;");
}

const [worker] = await bundled("worker.js");
const [script, metafile] = await bundled("main.js", { WORKER_SOURCE: JSON.stringify(worker) });
const style = await build({ entryPoints: [join(here, "page/style.css")], minify: true, write: false });
const module = readFileSync(join(wasm, "grpo_lambda_web_bg.wasm"));
const parts = {
  STYLE: style.outputFiles[0].text.trim(),
  LICENCES: licences(metafile),
  WASM: gzipSync(module, { level: 9 }).toString("base64"),
  SCRIPT: script,
};
const page = readFileSync(join(here, "page/index.html"), "utf8").replace(/\/\*([A-Z]+)\*\//g, (_, name) => parts[name]);
const size = Buffer.byteLength(page);
const kib = (n) => `${Math.round(n / 1024)} KiB`;
console.log(`page ${kib(size)}: WebAssembly ${kib(module.length)} (packed ${kib(parts.WASM.length)}), script ${kib(script.length)}, style ${kib(parts.STYLE.length)}, licences ${kib(parts.LICENCES.length)}`);
if (size > LARGEST) {
  console.error(`bundle: the page has ${size} bytes; at most ${LARGEST} are allowed`);
  process.exit(1);
}
writeFileSync(out, page);
