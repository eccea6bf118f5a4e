// `node shots.mjs PAGE.html DIR [NAME..]`: pictures of every view, light and dark, at three widths.

import { mkdirSync } from "node:fs";
import { opened } from "./browser.mjs";

const [file, folder, ...only] = process.argv.slice(2);
const VIEWS = {
  start: ["", 300],
  credit: ["#credit", 400],
  "credit-weight": ["#credit?method=grpo_lambda&settings=update%3Dweight+style%3Dboth+lambda%3D0.9&length=24", 400],
  group: ["#group", 600],
  truth: ["#truth", 2500],
  sweep: ["#truth?task=chain", 1500, async (page) => {
    await page.evaluate(() => [...document.querySelectorAll("button")].find((b) => b.textContent === "Compute").click());
    await new Promise((r) => setTimeout(r, 4000));
  }],
  length: ["#truth?guide=length", 9000],
  inversion: ["#truth?guide=inversion", 9000],
  grade: ["#grade", 300],
  check: ["#check", 300, async (page) => {
    await page.evaluate(() => [...document.querySelectorAll("button")].find((b) => b.textContent.startsWith("verl")).click());
    await new Promise((r) => setTimeout(r, 600));
  }],
};
mkdirSync(folder, { recursive: true });
const { browser, page, trouble, go } = await opened(file);
for (const [name, [hash, wait, act]] of Object.entries(VIEWS)) {
  if (only.length && !only.includes(name)) continue;
  for (const width of [400, 800, 1400]) {
    for (const theme of ["light", "dark"]) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
      await page.setViewport({ width, height: width < 500 ? 800 : 1000 });
      await go(hash);
      await new Promise((r) => setTimeout(r, wait));
      await act?.(page);
      await page.screenshot({ path: `${folder}/${name}-${width}-${theme}.png`, fullPage: true });
    }
  }
}
console.log(trouble.join("\n") || "no trouble");
await browser.close();
