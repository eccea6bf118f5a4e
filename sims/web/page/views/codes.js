// A group drawn by systematic sampling: its codes, its responses, and what it leaves of RLOO's variance.

import { lab } from "../engine.js";
import { element, shown } from "../dom.js";
import { numberField } from "../method_form.js";
import { Figure, codes as plot, curves } from "../chart.js";
import { colours } from "../theme.js";
import { write } from "../state.js";

const DEFAULTS = { task: "pivot", size: 16, sets: 2, seed: 1 };
const SIZES = [4, 8, 16, 32, 64];
// A picture of more responses would take seconds and show nothing.
const MOST = 2000;

// Uniform numbers of a seed (mulberry32).
function shifts(seed, count) {
  let state = seed * 0x9e3779b1;
  return Float64Array.from({ length: count }, () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  });
}

export function codes(values) {
  const state = { ...DEFAULTS, ...values };
  for (const name of ["size", "sets", "seed"]) state[name] = Number(state[name]);
  let found = null;
  const problem = element("p", { class: "problem", role: "alert" });
  const said = element("p", { class: "said", "aria-live": "polite" });
  const strip = new Figure({ title: "Codes and responses", name: "codes",
    rows: () => found.responses.map(({ set, code, of }) => ({ set: set + 1, code, response: of.text, expected_reward: of.reward })),
    note: "The bar is the unit interval: every response has a share as wide as its probability, stronger in colour where its expected reward is higher. Each dot is a response of the group, at its code; the codes of a set are evenly spaced from one random shift. Blue: expected reward above 0.5; orange: the others." });
  const left = new Figure({ title: "Variance left, against the number of sets", name: "codes-variance",
    rows: () => found.left, note: "Of RLOO's update, the baseline of a set from the other sets, over that of independent responses (the last point). Exact, by the integral over the shifts." });
  const tasks = JSON.parse(lab.tasks());
  const select = (label, choices, name) => element("div", { class: "field wide" }, element("label", {}, `${label} `,
    element("select", { onchange: (event) => choose(name, event.target.value) }, ...choices.map(([value, text]) => element("option", { value, selected: String(state[name]) === String(value) }, text)))));
  const sets = element("div", {});
  const seed = numberField({ label: "random draw", value: state.seed, least: 1, most: 100, onchange: (x) => choose("seed", x), about: "which random shifts the sets have; no expectation depends on it" });
  const node = element("div", {},
    element("h1", {}, "Systematic groups"),
    element("p", {}, "A response is decoded from one number between 0 and 1, its code. Codes that are spread evenly draw responses that differ, each still with the probability that the policy gives it, so that the group's mean varies less."),
    element("div", { class: "columns" },
      element("div", { class: "controls" }, element("fieldset", {}, element("legend", {}, "Group"),
        select("task", tasks.map((t) => [t.name, t.name.replaceAll("_", " ")]), "task"), select("responses", SIZES.map((n) => [n, n]), "size"), sets, seed)),
      element("div", {}, problem, said, strip.node, left.node)));

  function choose(name, value) {
    state[name] = name === "task" ? value : Number(value);
    if (name === "size" && state.size % state.sets !== 0) state.sets = DEFAULTS.sets;
    draw();
  }

  function draw() {
    write("codes", state, DEFAULTS);
    const divisors = Array.from({ length: state.size }, (_, i) => i + 1).filter((n) => n > 1 && state.size % n === 0);
    sets.replaceChildren(select("sets", divisors.map((n) => [n, n === state.size ? `${n} (independent)` : n]), "sets"));
    try {
      const task = lab.Task.zoo(state.task);
      try {
        const { responses } = JSON.parse(task.facts());
        if (responses > MOST) throw `${state.task} has ${responses} responses; choose a task with at most ${MOST}`;
        found = JSON.parse(task.codes(state.size, shifts(state.seed, state.sets)));
      } finally {
        task.free();
      }
      problem.textContent = "";
    } catch (error) {
      problem.textContent = String(error);
      return;
    }
    picture();
  }

  function picture() {
    if (!found) return;
    const c = colours();
    let from = 0;
    const intervals = found.intervals.map(({ end, of }) => ({ from, to: (from = end), ...of }));
    const responses = found.responses.map(({ of, ...at }) => ({ ...at, ...of }));
    const ratio = found.left.find((l) => l.sets === state.sets)?.left;
    const kinds = new Set(responses.map((r) => r.text)).size;
    said.textContent = `${state.size} responses in ${state.sets} sets, ${kinds} of them different. ${ratio === null || ratio === undefined ? "The update does not vary here." : `RLOO's update has ${shown(ratio, 3)} × the variance that it has with independent responses.`}`;
    strip.draw([plot({ intervals, responses, sets: state.sets, width: strip.width, label: "Codes of the group and the responses they decode to" })]);
    const points = found.left.map((l) => [l.sets, l.left ?? NaN]);
    left.draw([curves({ series: [{ name: "variance left", colour: c.purple, points, dots: true }], width: left.width, height: 240, rules: [1], label: left.title.textContent,
      x: { label: "sets", type: "log", base: 2, ticks: found.left.map((l) => l.sets), tickFormat: String }, y: { label: "of RLOO's variance", domain: [0, Math.max(1.05, ...points.map(([, y]) => y).filter(Number.isFinite))], nice: false } })]);
  }

  return { node, draw, restyle: picture };
}
