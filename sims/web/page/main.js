// The page: starts the compiled functions and shows the view that the address names.

import { load } from "./engine.js";
import * as theme from "./theme.js";
import { read } from "./state.js";
import { eachFrame, element } from "./dom.js";
import { onResize } from "./chart.js";
import { start } from "./views/start.js";
import { credit } from "./views/credit.js";
import { group } from "./views/group.js";
import { truth } from "./views/truth.js";
import { codes } from "./views/codes.js";
import { check } from "./views/check.js";
import { grade } from "./views/grade.js";

const VIEWS = { start, credit, group, truth, codes, check, grade };
const TITLES = { start: "grpo-lambda explorer", credit: "Credit", group: "A group", truth: "Exact truth", codes: "Systematic groups", check: "Check your trainer", grade: "Grade an answer" };
const main = document.getElementById("main");
let shownView = null;

function show() {
  const { view, values } = read();
  const name = Object.hasOwn(VIEWS, view) ? view : "start";
  shownView?.leave?.();
  shownView = VIEWS[name](values);
  main.replaceChildren(shownView.node);
  document.title = name === "start" ? TITLES.start : `${TITLES[name]}: grpo-lambda explorer`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shownView.draw();
  scrollTo(0, 0);
}

const redraw = () => (shownView?.restyle ?? shownView?.draw)?.();

theme.start();
load().then((lab) => {
  // For the console of a curious reader, and for the tests.
  globalThis.grpoLambda = lab;
  theme.onChange(redraw);
  addEventListener("hashchange", show);
  onResize(eachFrame(redraw));
  show();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}).catch((error) => {
  main.replaceChildren(element("p", { class: "problem" }, `The compiled functions did not start: ${error.message ?? error}. A browser of 2023 or later is needed.`));
});
