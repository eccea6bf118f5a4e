// The weight of every token of a right and of a wrong response, next to GRPO's.

import { lab } from "../engine.js";
import { element, shown } from "../dom.js";
import { MethodForm, numberField } from "../method_form.js";
import { Figure, curves, drawHeat } from "../chart.js";
import { colours } from "../theme.js";
import { write } from "../state.js";

const DEFAULTS = { method: "grpo_lambda", settings: "", size: 8, right: 2, length: 64, drift: 0 };
// How many times GRPO's pull a scale shows evenly.
const FAR = 8;
const LABELS = ["right", "right, GRPO", "wrong", "wrong, GRPO"];

// Powers of four of `unit` with both signs, as far as the values go.
function steps(unit, values) {
  const [least, largest] = [Math.min(0, ...values), Math.max(0, ...values)];
  const sizes = Array.from({ length: 12 }, (_, i) => unit * 4 ** i);
  return [...sizes.map((x) => -x).reverse(), 0, ...sizes].filter((x) => x >= least && x <= largest);
}

export function credit(values) {
  const state = { ...DEFAULTS, ...values };
  for (const name of ["size", "right", "length", "drift"]) state[name] = Number(state[name]);
  let profile = null;
  const rows = () => Array.from({ length: profile?.right.length ?? 0 }, (_, token) => ({
    token, right: profile.right[token], right_grpo: profile.grpoRight[token], wrong: profile.wrong[token], wrong_grpo: profile.grpoWrong[token],
  }));
  const problem = element("p", { class: "problem", role: "alert" });
  const said = element("p", { class: "said", "aria-live": "polite" });
  const tiles = element("dl", { class: "tiles" });
  const equation = element("dl", { class: "equation" });
  const notes = element("p", { class: "note" });
  const curve = new Figure({ title: "Pull of the gradient on every token", name: "credit", rows,
    note: "−N ∂L/∂log π, with N tokens in the group. Above 0 the token becomes more likely; GRPO with a token mean has the advantage at every token." });
  const strip = new Figure({ title: "The same as a picture", name: "credit-picture", rows, note: "Blue becomes more likely, orange less." });
  const form = new MethodForm({ title: "Method", method: state.method, settings: state.settings, onchange: () => {
    [state.method, state.settings] = [form.method, form.settings];
    draw();
  } });
  const set = (name) => (value) => {
    state[name] = value;
    if (name === "size") {
      fields.right.range(1, Math.max(1, value - 1), 1);
      if (state.right >= value) fields.right.set((state.right = Math.max(1, value - 1)));
    }
    draw();
  };
  const fields = {
    length: numberField({ label: "length", value: state.length, least: 1, most: 4096, onchange: set("length"), about: "tokens of every response" }),
    size: numberField({ label: "group size", value: state.size, least: 2, most: 64, onchange: set("size"), about: "responses to the prompt" }),
    right: numberField({ label: "of them right", value: state.right, least: 1, most: state.size - 1, onchange: set("right"), about: "responses with reward 1; the others have 0" }),
    drift: numberField({ label: "log-ratio", value: state.drift, least: -0.5, most: 0.5, step: 0.01, onchange: set("drift"), about: "log π − log π_old of every token; 0 is on-policy" }),
  };
  const results = element("div", {}, said, tiles, curve.node, strip.node, element("h2", {}, "The objective, with its numbers"), notes, equation);
  const node = element("div", {},
    element("h1", {}, "Credit"),
    element("p", {}, "How much each token counts, in one group of equally long responses."),
    element("div", { class: "columns" },
      element("div", { class: "controls" }, form.node, element("fieldset", {}, element("legend", {}, "Group"), ...Object.values(fields))),
      element("div", {}, problem, results)));

  function describe() {
    const { title, idle, assumed, equation: text } = JSON.parse(lab.describe(state.method, state.settings, 1, state.size, state.length));
    const parts = (text ?? "").split("\n").map((line) => line.match(/^(\S+)\s+(.*)$/)).filter(Boolean);
    equation.replaceChildren(...parts.flatMap(([, name, meaning]) => [element("dt", {}, name), element("dd", {}, meaning)]));
    const extra_inputs = assumed.length ? [`Assumed of the extra inputs: ${assumed.join("; ")}.`] : [];
    notes.textContent = [...idle.map((note) => `Note: ${note}.`), ...extra_inputs].join(" ");
    return title;
  }

  function sentence(title) {
    const [right] = profile.advantages;
    const [first, last] = [profile.right[0] / profile.grpoRight[0], profile.right.at(-1) / profile.grpoRight.at(-1)];
    if (!Number.isFinite(first)) {
      const wrong = profile.grpoWrong.some((pull) => pull !== 0);
      return `GRPO’s gradient is 0 ${wrong ? "on right responses here: the clip stops it; its wrong ones still pull" : "here: the clip stops it, or every advantage is 0"}. ${title} has the pull shown below.`;
    }
    const ends = state.length === 1 ? `The one token of a right response weighs ${shown(first, 3)} × what GRPO gives it`
      : `In a right response ${title} gives the first token ${shown(first, 3)} × GRPO’s weight and the last ${shown(last, 3)} ×`;
    return `${ends}; over the group the gradient is ${shown(profile.scale, 3)} × as large. The advantage of a right response is ${shown(right, 3)}.`;
  }

  function draw() {
    write("credit", state, DEFAULTS);
    try {
      for (const name of ["length", "size", "right"]) {
        if (!Number.isInteger(state[name])) throw `${{ length: "length", size: "group size", right: "of them right" }[name]} = ${state[name]}; must be a whole number`;
      }
      const title = describe();
      profile = profileOf(state);
      problem.textContent = "";
      results.classList.remove("stale");
      said.textContent = sentence(title);
      facts();
      picture(title);
    } catch (error) {
      problem.textContent = String(error);
      results.classList.add("stale");
    }
  }

  function facts() {
    const [right, wrong] = profile.advantages;
    const tile = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
    const tokens = state.size * state.length;
    tiles.replaceChildren(
      tile("gradient scale", `${shown(profile.scale, 3)} ×`),
      tile("advantage, right", shown(right, 3)),
      tile("advantage, wrong", shown(wrong, 3)),
      tile("clipped tokens", `${profile.clipped[0]} of ${tokens}`));
  }

  function picture(title) {
    const c = colours();
    const points = (numbers) => Array.from(numbers, (y, x) => [x, y]);
    const dots = state.length === 1;
    const series = [
      { name: "right, GRPO", colour: c.grey, dash: "7 4", points: points(profile.grpoRight), dots },
      { name: "wrong, GRPO", colour: c.grey, dash: "2 4", points: points(profile.grpoWrong), dots },
      { name: `right, ${title}`, colour: c.blue, points: points(profile.right), dots },
      { name: `wrong, ${title}`, colour: c.orange, points: points(profile.wrong), dots },
    ];
    const width = curve.width;
    const values = [...profile.right, ...profile.wrong, ...profile.grpoRight, ...profile.grpoWrong];
    const most = (list) => list.reduce((largest, x) => Math.max(largest, Math.abs(x)), 0);
    const usual = Math.max(most(profile.grpoRight), most(profile.grpoWrong));
    // Next to a much larger pull GRPO's would lie on the axis, and have no colour.
    const far = usual > 0 && Math.max(most(profile.right), most(profile.wrong)) > FAR * usual;
    const y = far ? { label: "pull, stretched around GRPO’s", type: "symlog", constant: usual, ticks: steps(usual, values), tickFormat: (v) => shown(v, 3) } : { label: "pull" };
    curve.draw([curves({ series, width, height: width < 500 ? 240 : 320, rules: [0], x: { label: "token, from 0" }, y, label: `Pull on every token, ${title} and GRPO` })],
      [series[2], series[3], series[0], series[1]]);
    const lists = [profile.right, profile.grpoRight, profile.wrong, profile.grpoWrong];
    const pixels = new Float64Array(4 * state.length);
    lists.forEach((list, i) => pixels.set(list, i * state.length));
    const offsets = [0, 1, 2, 3, 4].map((i) => i * state.length);
    drawHeat(strip, { values: pixels, offsets, labels: LABELS, limit: most(pixels), rowHeight: 30, label: "Pull on every token as colours", unit: far ? "pull, stretched around GRPO’s" : "pull", unitOf: far ? usual : 0 });
  }

  return { node, draw };
}

function profileOf({ method, settings, size, right, length, drift }) {
  const found = new lab.Profile(method, settings, size, right, length, drift);
  const { right: pull, wrong, grpo_right: grpoRight, grpo_wrong: grpoWrong, advantages, clipped, scale } = found;
  found.free();
  return { right: pull, wrong, grpoRight, grpoWrong, advantages, clipped, scale };
}
