// A task on which every expectation is an exact sum: direction, bias and variance of a method, and sweeps drawn as they are computed.

import { lab, Jobs } from "../engine.js";
import { element, shown } from "../dom.js";
import { MethodForm, numberField, words } from "../method_form.js";
import { Figure, curves, pairs } from "../chart.js";
import { colours } from "../theme.js";
import { write } from "../state.js";

const DEFAULTS = { task: "eos_hazard_dependent", toml: "", knob: "", rate: "", group: 8, method: "grpo_lambda", settings: "", sweep: "lambda", metric: "cosine", guide: "" };
const TOML = `name = "two roads"
tokens = ["left", "right", "EOS"]
eos = "EOS"
horizon = 4

[[rewards]]
pattern = "left *"
reward = 1.0

[[policy]]
prefix = ""
probabilities = { left = 0.25, right = 0.65, EOS = 0.1 }
`;
const METRICS = [
  ["cosine", "cosine with ∇J", "1 where the update has the direction of ∇J"],
  ["bias", "bias", "the part of the update that is no multiple of ∇J, relative to the part that is"],
  ["variance", "variance", "of the update of one group, relative to the square of the part that is a multiple of ∇J"],
  ["mse", "squared error", "mean squared error of one group’s update as an estimate of ∇J, at its best multiple, relative to ∇J squared"],
  ["sign_agreement", "sign agreement", "share of visits at which credit and true advantage have one sign"],
  ["scale", "scale", "the multiple of ∇J in the update: a factor on the learning rate"],
];
const REFERENCES = [["grpo", "", "GRPO"], ["rloo", "", "RLOO"]];
const LAMBDAS = [0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 1];
const RATES = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98];
const FORK_LENGTHS = [2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 30, 36, 42, 50, 60, 70, 80, 90, 100];

const GUIDES = {
  length: {
    title: "The length bonus",
    sentence: "With trace and clamp together, every token that is written is paid for, so that the expected update turns from the gradient of reward towards longer responses; with the trace alone or the clamp alone it keeps pointing towards reward.",
    note: "Exact, λ = 0.99, clamp −0.1, groups of 8. The task rewards the last symbol; how soon a response ends depends on the path, and the end token is a tenth as likely as in the task’s usual policy.",
  },
  inversion: {
    title: "The preference inversion",
    sentence: "The short answer is right nine times in ten and the long one eight times, yet the trace sums over the tokens that follow: once the long answer is long enough, the choice of the worse one receives more credit.",
    note: "Exact implied credit of the two first tokens on the task fork, GRPO-λ with λ = 0.99 and its clamp, next to GRPO, groups of 8.",
  },
};

export function truth(values) {
  const state = { ...DEFAULTS, ...values, group: Number(values.group ?? DEFAULTS.group) };
  const all = JSON.parse(lab.tasks());
  const jobs = new Jobs();
  const quick = new Jobs();
  let swept = [];
  let measured = [];
  let timer = 0;
  const named = () => all.find((t) => t.name === state.task);
  const problem = element("p", { class: "problem", role: "alert" });
  const said = element("p", { class: "said", "aria-live": "polite" });
  const facts = element("p", { class: "note" });
  const busy = element("span", { class: "note", "aria-live": "polite" });

  if (GUIDES[state.guide]) return guided(state, jobs);

  const place = () => ({ task: state.task, toml: state.toml || null, knob: state.knob === "" ? null : Number(state.knob), rate: state.rate === "" ? null : Number(state.rate), group: state.group });
  const options = [...all.map((t) => element("option", { value: t.name, title: t.about }, t.name.replaceAll("_", " "))), element("option", { value: "" }, "one of my own (TOML)")];
  const task = element("select", { id: "task", onchange: () => choose(task.value) }, ...options);
  const about = element("p", { class: "note" });
  const toml = element("textarea", { rows: 14, spellcheck: false, autocomplete: "off", "aria-label": "A token-MDP as TOML", oninput: () => {
    state.toml = toml.value;
    later();
  } });
  const own = element("div", {}, element("p", { class: "note" }, "As a file of ", element("code", {}, "sim mdp"), "; its horizon can be swept."), toml);
  const knob = numberField({ label: "length", value: 8, least: 1, most: 10, onchange: (x) => ((state.knob = x), later()) });
  const tilt = element("input", { type: "checkbox", onchange: () => {
    state.rate = tilt.checked ? Number(rate.querySelector("input").value) : "";
    rate.classList.toggle("hidden", !tilt.checked);
    later();
  } });
  const rate = numberField({ label: "success rate", value: state.rate === "" ? 0.5 : state.rate, least: 0.01, most: 0.99, step: 0.01, onchange: (x) => ((state.rate = x), later()), about: "right responses keep their relative probabilities, and so do wrong ones" });
  const tilted = element("div", {}, element("label", {}, tilt, " choose the success rate"), rate);
  const size = numberField({ label: "group size", value: state.group, least: 2, most: 64, onchange: (x) => ((state.group = x), later()) });
  const form = new MethodForm({ title: "Method", method: state.method, settings: state.settings, onchange: () => {
    [state.method, state.settings] = [form.method, form.settings];
    later();
  } });
  const table = element("div", { class: "scroll" });
  const meanings = element("details", {}, element("summary", {}, "What the columns say"), element("dl", { class: "note" }, METRICS.flatMap(([, label, meaning]) => [element("dt", {}, label), element("dd", {}, `${meaning}.`)])));
  const credit = new Figure({ title: "Credit next to the true advantage", name: "truth-credit", rows: () => measured[0]?.answer.credit ?? [], note: "At the prefixes visited most: the true advantage of each next token (ring) and the credit that the method implies (dot), centred and over the size of its scale. An unbiased method has them in one place." });
  const sweep = new Figure({ title: "Sweep", name: "truth-sweep", rows: () => swept.map(({ label, x, answer: { credit: _, ...numbers } }) => ({ method: label, [state.sweep]: x, ...numbers })) });
  const axis = select("sweep", [["lambda", "λ"], ["horizon", "length of the task"], ["success", "success rate"]], () => stopped());
  const metric = select("metric", METRICS.map(([name, label]) => [name, label]), () => drawSweep());
  const progress = element("progress", { max: 1, value: 0, class: "hidden", "aria-label": "Progress of the sweep" });
  const go = element("button", { type: "button", class: "main", onclick: () => runSweep() }, "Compute");
  const cancel = element("button", { type: "button", disabled: true, onclick: () => jobs.cancel() }, "Cancel");
  const results = element("div", {}, facts, busy, table, meanings, sweep.node, credit.node);
  const node = element("div", {},
    element("h1", {}, "Exact truth"),
    element("p", {}, "On a small task every expectation is a finite sum, so that the update a method makes on average can be compared with the gradient of the expected reward, ∇J, without any noise."),
    element("div", { class: "columns" },
      element("div", { class: "controls" },
        element("fieldset", {}, element("legend", {}, "Task"), element("div", { class: "field wide" }, element("label", { for: "task" }, "task"), task), about, own, knob, tilted, size),
        form.node),
      element("div", {}, problem, said, results)));
  sweep.note.replaceWith(element("div", { class: "buttons" }, axis, metric, go, cancel, progress));

  function select(name, choices, changed) {
    const made = element("select", { "aria-label": name, style: "width:auto", onchange: () => {
      state[name] = made.value;
      write("truth", state, DEFAULTS);
      changed();
    } }, ...choices.map(([value, label]) => element("option", { value, selected: state[name] === value }, label)));
    return made;
  }

  function choose(name) {
    Object.assign(state, { task: name || DEFAULTS.task, toml: name ? "" : TOML, knob: "", rate: "" });
    controls();
    later();
  }

  function controls() {
    const spec = named();
    task.value = state.toml ? "" : state.task;
    own.classList.toggle("hidden", !state.toml);
    toml.value = state.toml;
    about.textContent = state.toml ? "" : `${spec?.about ?? ""}.`;
    const k = !state.toml && spec?.knob;
    knob.classList.toggle("hidden", !k);
    if (k) {
      knob.querySelector("label").textContent = k.label;
      knob.range(k.least, k.most, k.step);
      knob.set(state.knob === "" ? k.default : state.knob);
    }
    tilted.classList.toggle("hidden", !(state.toml || spec?.success));
    tilt.checked = state.rate !== "";
    rate.classList.toggle("hidden", !tilt.checked);
  }

  // A sum may take a second: it waits until the reader has stopped moving the slider.
  function later() {
    clearTimeout(timer);
    timer = setTimeout(() => draw(), 120);
  }

  const entries = () => [[state.method, state.settings, `${form.choice.selectedOptions[0]?.text ?? state.method}${state.settings ? ` ${state.settings}` : ""}`],
    ...REFERENCES.filter(([method]) => method !== state.method || state.settings)];

  async function draw() {
    write("truth", state, DEFAULTS);
    stopped();
    busy.textContent = "Summing.";
    const found = [];
    let reported = null;
    try {
      const points = [{ call: "facts", ...place() }, ...entries().map(([method, settings, label]) => ({ call: "measure", ...place(), method, settings, label }))];
      const finished = await quick.run({ points }, (point) => {
        if (point.call === "facts") reported = point.answer;
        else found.push(point);
        measured = found;
        if (found.length === 1) drawCredit();
        if (found.length) drawTable();
      });
      if (!finished) return;
      problem.textContent = "";
      results.classList.remove("stale");
      said.textContent = sentence();
      if (state.rate !== "" && Math.abs(reported.j - Number(state.rate)) > 1e-6) {
        problem.textContent = `success rate = ${state.rate}: rewards of this task are drawn, so that it cannot be chosen freely; the numbers below are at J = ${shown(reported.j)}.`;
      }
      describe(reported);
    } catch (error) {
      problem.textContent = error.message;
      said.textContent = "";
      results.classList.add("stale");
    }
    busy.textContent = "";
    drawSweep();
  }

  // What the first row of the table means.
  function sentence() {
    const [{ label, answer: { cosine, scale } }] = measured;
    if (!Number.isFinite(cosine)) return "";
    const direction = cosine < 0 ? "points away from the gradient of the expected reward: a step of it loses reward"
      : cosine > 0.9999 ? "has the direction of the gradient of the expected reward"
        : `leans ${shown((180 / Math.PI) * Math.acos(cosine), 3)} degrees away from the gradient of the expected reward`;
    return `Here the average update of ${label} ${direction} (cosine ${shown(cosine, 3)}, scale ${shown(scale, 3)}).`;
  }

  function describe(t) {
    facts.textContent = `${t.name}: ${t.tokens} tokens, ${t.prefixes} prefixes, ${t.responses} responses of up to ${t.longest} tokens, ${shown(t.mean_length)} on average. J = ${shown(t.j)}, at best ${shown(t.best)}. Computed in ${shown(measured.reduce((sum, p) => sum + p.took, 0), 3)} ms.`;
  }

  function drawTable() {
    const head = ["method", ...METRICS.map(([, label]) => label), "how"];
    const row = ({ label, answer }) => element("tr", {}, element("td", {}, label), ...METRICS.map(([name]) => element("td", { class: "number" }, shown(answer[name]))), element("td", {}, answer.how));
    table.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, head.map((t, i) => element("th", { class: i && i <= METRICS.length ? "number" : "" }, t)))), element("tbody", {}, measured.map(row))));
  }

  function drawCredit() {
    const list = measured[0].answer.credit.slice(0, 24).map((r) => ({ ...r, name: `${r.prefix} → ${r.token}` }));
    const c = colours();
    const plot = pairs({ rows: list, first: "advantage", second: "credit", xLabel: "advantage, credit", width: credit.width, label: "Credit next to the true advantage" });
    credit.draw([plot], [{ name: "true advantage", colour: c.grey }, { name: "credit above 0", colour: c.blue }, { name: "credit below 0", colour: c.orange }]);
  }

  function stopped() {
    jobs.cancel();
    swept = [];
    drawSweep();
  }

  // The points of a sweep, or why there is none.
  function pointsOf() {
    const each = (x, change) => entries().map(([method, settings, label]) => ({ call: "measure", ...place(), method, settings, label, x, ...change(method, settings) }));
    if (state.sweep === "lambda") {
      const has = (method) => JSON.parse(lab.describe(method, "", 1, 2, 8)).settings.lambda !== undefined;
      if (!has(state.method)) throw new Error(`${form.choice.selectedOptions[0].text} has no setting lambda; choose another method or another axis`);
      return LAMBDAS.flatMap((x) => each(x, (method, settings) => {
        const { lambda: _, ...rest } = words(settings);
        return has(method) ? { settings: Object.entries({ ...rest, lambda: x }).map(([k, v]) => `${k}=${v}`).join(" ") } : {};
      }));
    }
    if (state.sweep === "success") return RATES.flatMap((x) => each(x, () => ({ rate: x })));
    const k = named()?.knob;
    if (!state.toml && !k) throw new Error(`${state.task} has one length only; choose another task or another axis`);
    const [least, most, step] = state.toml ? [2, 10, 1] : [k.least, k.most, k.most > 60 ? 9 : k.step];
    const list = Array.from({ length: Math.floor((most - least) / step) + 1 }, (_, i) => least + i * step);
    return list.flatMap((x) => each(x, () => ({ knob: x })));
  }

  async function runSweep() {
    stopped();
    try {
      const points = pointsOf();
      go.disabled = true;
      cancel.disabled = false;
      progress.classList.remove("hidden");
      progress.max = points.length;
      progress.value = 0;
      await jobs.run({ points }, (point) => {
        swept.push(point);
        progress.value = swept.length;
        drawSweep();
      });
    } catch (error) {
      problem.textContent = error.message;
    }
    go.disabled = false;
    cancel.disabled = true;
    progress.classList.add("hidden");
  }

  // The success rate is the one that the policy has.
  const xOf = (point) => (state.sweep === "success" ? point.answer.j : point.x);

  function drawSweep() {
    const c = colours();
    const [, label, meaning] = METRICS.find(([name]) => name === state.metric) ?? METRICS[0];
    const axisLabel = { lambda: "λ", success: "success rate J", horizon: state.toml ? "horizon, tokens" : named()?.knob?.label ?? "length" }[state.sweep];
    sweep.title.textContent = `Sweep: ${label} against ${axisLabel}`;
    sweep.readout.classList.remove("hidden");
    sweep.readout.textContent = swept.length ? `${label}: ${meaning}.` : "Compute takes a few seconds; points appear as they are summed.";
    const styles = [{ colour: c.purple }, { colour: c.grey, dash: "7 4" }, { colour: c.green, dash: "2 4" }];
    const series = [...new Set(swept.map((p) => p.label))].map((name, i) => ({
      name, ...styles[i % styles.length], dots: true, points: swept.filter((p) => p.label === name).map((p) => [xOf(p), p.answer[state.metric] ?? NaN]),
    }));
    if (!swept.length) return sweep.draw([]);
    // Cosines near 1 are distinguished only on an axis of their own; one that comes near 0 is seen on the whole.
    const least = Math.min(1, ...series.flatMap((s) => s.points.map(([, cosine]) => cosine).filter(Number.isFinite)));
    const near = state.metric === "cosine" && least > 0.5;
    const domain = near ? [least - 0.1 * (1.01 - least), 1 + 0.1 * (1.01 - least)] : [-1, 1];
    const y = { label, ...(state.metric === "cosine" ? { domain, nice: false } : {}) };
    sweep.draw([curves({ series, width: sweep.width, rules: [near ? 1 : 0], x: { label: axisLabel }, y, label: sweep.title.textContent })], series);
  }

  controls();
  return { node, draw: () => draw(), leave: () => (jobs.cancel(), quick.cancel(), clearTimeout(timer)), restyle: () => { if (measured.length) drawCredit(); drawSweep(); } };
}

// A guided stop: one picture, one sentence, computed now.
function guided(state, jobs) {
  const guide = GUIDES[state.guide];
  const isLength = state.guide === "length";
  let found = [];
  const problem = element("p", { class: "problem", role: "alert" });
  const progress = element("progress", { max: 1, value: 0, "aria-label": "Progress" });
  const rows = () => found.flatMap((p) => (isLength ? p.answer.map((a) => ({ horizon: p.horizon, ...a })) : [{ length_of_long_answer: p.knob, method: p.label, ...credits(p) }]));
  const figure = new Figure({ title: isLength ? "Cosine of the expected update with ∇J, against the horizon" : "Credit of the first token, against the length of the long answer", name: `guide-${state.guide}`, note: guide.note, rows });
  const next = isLength
    ? ["#truth?guide=inversion", "Next: the preference inversion", "#truth", "Sweep it yourself"]
    : ["#truth?task=fork&sweep=horizon", "Open this task", "#credit", "See the weights that do it"];
  const again = element("button", { type: "button", onclick: () => draw() }, "Draw again");
  const node = element("div", {},
    element("h1", {}, guide.title), element("p", { class: "said" }, guide.sentence), problem, figure.node,
    element("div", { class: "buttons" }, again, progress, element("a", { href: next[0] }, next[1]), element("a", { href: next[2] }, next[3])));

  const HORIZONS = JSON.parse(lab.length_bonus(0, 0)).horizons;
  const jobOf = () => (isLength
    ? HORIZONS.map((horizon) => ({ call: "lengthBonus", policy: 1, horizon }))
    : FORK_LENGTHS.flatMap((knob) => [["grpo_lambda", "lambda=0.99", "GRPO-λ"], ["grpo", "", "GRPO"]].map(([method, settings, label]) => ({ call: "measure", task: "fork", knob, group: 8, method, settings, label }))));

  function credits(p) {
    const of = (token) => p.answer.credit.find((r) => r.token === token && r.prefix === p.answer.credit[0].prefix)?.raw;
    return { short: of("short"), long: of("long") };
  }

  async function draw() {
    found = [];
    const points = jobOf();
    progress.max = points.length;
    progress.classList.remove("hidden");
    try {
      const done = await jobs.run({ points }, (point) => {
        found.push(point);
        progress.value = found.length;
        picture();
      });
      if (done) progress.classList.add("hidden");
    } catch (error) {
      problem.textContent = error.message;
    }
  }

  function picture() {
    if (!found.length) return;
    const c = colours();
    const width = figure.width;
    const height = Math.max(260, Math.min(460, width * 0.45));
    if (isLength) {
      const styles = [{ colour: c.grey, dash: "7 4" }, { colour: c.green, dash: "2 4" }, { colour: c.ink, dash: "1 3" }, { colour: c.purple }];
      const series = found[0].answer.map((a, i) => ({ name: a.arm, ...styles[i], dots: true, points: found.map((p) => [p.horizon, p.answer[i].cosine]) }));
      return figure.draw([curves({ series, width, height, rules: [0], x: { label: "horizon, tokens", type: "log", base: 2, domain: [2, 128], tickFormat: (v) => String(v), ticks: [2, 4, 8, 16, 32, 64, 128] }, y: { label: "cosine with ∇J", domain: [-1, 1], nice: false }, label: guide.title })], series);
    }
    const of = (label, name) => found.filter((p) => p.label === label).map((p) => [p.knob, credits(p)[name]]);
    const series = [
      { name: "GRPO-λ: short answer, right 9 times in 10", colour: c.purple, dash: "7 4", points: of("GRPO-λ", "short"), dots: true },
      { name: "GRPO-λ: long answer, right 8 times in 10", colour: c.purple, points: of("GRPO-λ", "long"), dots: true },
      { name: "GRPO: short", colour: c.grey, dash: "7 4", points: of("GRPO", "short") },
      { name: "GRPO: long", colour: c.grey, dash: "2 4", points: of("GRPO", "long") },
    ];
    figure.draw([curves({ series, width, height, rules: [0], x: { label: "tokens of the long answer", domain: [0, 100] }, y: { label: "implied credit" }, label: guide.title })], series);
  }

  return { node, draw, leave: () => jobs.cancel(), restyle: picture };
}
