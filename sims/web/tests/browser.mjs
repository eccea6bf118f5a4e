// The page in Debian's Chromium.

import puppeteer from "puppeteer-core";
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";

const PLACES = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export async function opened(file) {
  const executablePath = PLACES.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error("no Chromium: apt-get install chromium, or set CHROMIUM");
  const browser = await puppeteer.launch({ executablePath, headless: true, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"], protocolTimeout: 600000 });
  const page = await browser.newPage();
  const trouble = [];
  page.on("pageerror", (error) => trouble.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && trouble.push(`console: ${message.text()}`));
  page.on("request", (request) => !/^(file|data|blob):/.test(request.url()) && trouble.push(`request: ${request.url()}`));
  const address = pathToFileURL(file).href;
  const go = async (hash = "") => {
    await page.goto("about:blank");
    await page.goto(address + hash);
    await page.waitForSelector("html[data-ready]", { timeout: 60000 });
  };
  return { browser, page, trouble, go };
}
