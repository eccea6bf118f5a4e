// Lines of `sim estimate`, edited and evaluated: every token as a heat map.

import { lab } from "../engine.js";
import { element, eachFrame, shown } from "../dom.js";
import { MethodForm } from "../method_form.js";
import { Figure, drawHeat } from "../chart.js";
import { write } from "../state.js";

const EXAMPLE = `{"rewards":[1,1,0,0],"logps":[[-0.4,-0.9,-0.3,-1.1,-0.2,-0.6],[-0.5,-0.7,-1.2,-0.1],[-0.9,-1.4,-0.8,-0.5,-0.7,-1.0,-0.3,-0.4],[-1.1,-0.6,-0.9]],"old_logps":[[-0.4,-1.2,-0.3,-1.1,-0.25,-0.6],[-0.5,-0.7,-1.2,-0.1],[-0.9,-1.1,-0.8,-0.5,-0.7,-1.0,-0.3,-0.4],[-1.1,-0.6,-0.6]],"ref_logps":[[-0.4,-1.0,-0.35,-1.0,-0.2,-0.6],[-0.5,-0.8,-1.1,-0.1],[-0.9,-1.2,-0.8,-0.6,-0.7,-1.0,-0.3,-0.5],[-1.0,-0.6,-0.8]]}`;
const DEFAULTS = { method: "grpo_lambda", settings: "", other: "grpo", otherSettings: "", beside: "true", batch: "false", text: EXAMPLE };
const QUANTITIES = [
  ["advantages", "Advantage of every token", "advantage"],
  ["losses", "Loss of every token, before the reduction", "loss"],
  ["gradient", "Pull of a step of descent: −∂ loss / ∂ log π", "pull"],
  ["kl", "KL estimate of every token", "KL, nats"],
];
const CLIPPED = "▲ clipped at the upper bound, ▼ at the lower: no gradient flows from the token’s own term. Under a trace, later terms may still reach it.";
const MOST_ROWS = 16;
const MOST_MARKS = 400;
const MOST_REASONS = 40;
const MOST_LISTED = 8;
const LONGEST_SHOWN = 400000;

export function group(values) {
  const state = { ...DEFAULTS, ...values };
  const flag = (name) => String(state[name]) === "true";
  let batch = null;
  let columns = [];
  let offsets = [0];
  const problem = element("p", { class: "problem", role: "alert" });
  const warned = element("p", { class: "note" });
  const size = element("p", { class: "note" });
  const table = element("div", { class: "scroll" });
  const text = element("textarea", { rows: 7, spellcheck: false, autocomplete: "off", "aria-label": "The groups as JSON lines", placeholder: "These lines are too long to be shown; what you paste replaces them.", oninput: () => {
    state.text = text.value;
    parse();
  } });
  const side = (name, method, settings, title) => new MethodForm({ title, method: state[method], settings: state[settings], onchange: () => {
    [state[method], state[settings]] = [forms[name].method, forms[name].settings];
    soon();
  } });
  const forms = { own: side("own", "method", "settings", "Method"), other: side("other", "other", "otherSettings", "Second method") };
  const box = (name, label, about) => {
    const input = element("input", { type: "checkbox", checked: flag(name), onchange: () => {
      state[name] = String(input.checked);
      soon();
    } });
    return element("div", { title: about }, element("label", {}, input, " ", label));
  };
  const figures = [0, 1].map((which) => QUANTITIES.map(([name, title]) => new Figure({ title, name: `group-${name}`, rows: () => numbers(which) })));
  const tiles = [element("dl", { class: "tiles" }), element("dl", { class: "tiles" })];
  const titles = [element("h2", {}), element("h2", {})];
  const sides = [0, 1].map((which) => element("div", {}, titles[which], tiles[which], figures[which].map((f) => f.node)));
  const clipped = element("div", {});
  const results = element("div", {}, element("div", { class: "two" }, ...sides), clipped);
  const commandLine = element("p", { class: "note" });
  const sample = element("button", { type: "button", onclick: () => load(EXAMPLE) }, "Example");
  const large = element("button", { type: "button", onclick: () => load(made(64, 4096)) }, "64 responses of up to 4096 tokens");
  const node = element("div", {},
    element("h1", {}, "A group"),
    element("p", {}, "Change rewards, lengths and log-probabilities of the responses to one prompt, and see what the method makes of every token."),
    element("div", { class: "columns" },
      element("div", { class: "controls" }, forms.own.node, box("beside", "a second method next to it"), element("div", { style: "height:.75rem" }), forms.other.node,
        box("batch", "all lines are one batch", "as --batch: token means and batch statistics see every group")),
      element("div", {}, problem, warned, size, table,
        element("details", { open: false }, element("summary", {}, "The lines as text: paste your own"), text, element("div", { class: "buttons" }, sample, large), commandLine),
        results)));
  const soon = eachFrame(() => draw());
  shows(state.text);

  // Input is read again only when the text changes: settings are evaluated on what is held.
  function parse() {
    batch?.free();
    batch = null;
    try {
      batch = new lab.Batch(state.text, state.method, state.settings);
      offsets = offsetsOf(batch.lengths);
      rowsOfTable();
    } catch (error) {
      return refuse(error);
    }
    draw();
  }

  function refuse(error) {
    problem.textContent = String(error);
    warned.textContent = "";
    results.classList.add("stale");
  }

  function load(lines) {
    shows(lines);
    parse();
  }

  // A text that nobody can read would only slow the page down.
  function shows(lines) {
    state.text = lines;
    text.value = lines.length <= LONGEST_SHOWN ? lines : "";
  }

  // After an edit of the held lines: their text is written again where a reader can hold it.
  function edited() {
    if (offsets.at(-1) <= 20000) shows(batch.text());
    offsets = offsetsOf(batch.lengths);
    soon();
  }

  function rowsOfTable() {
    const [rewards, lengths, log_ratios] = [batch.rewards, batch.lengths, batch.log_ratios];
    const total = lengths.reduce((a, b) => a + b, 0);
    size.textContent = `${batch.sizes.length} ${batch.sizes.length === 1 ? "group" : "groups"}, ${lengths.length} responses, ${total} tokens.`
      + (lengths.length > MOST_ROWS ? ` The first ${MOST_ROWS} responses can be edited here.` : "");
    const row = (_, i) => element("tr", {}, element("td", {}, String(i)),
      pair(rewards[i], [0, 1, 0.05], `reward of response ${i}`, (x) => batch.set_reward(i, x), "any", true),
      pair(lengths[i], [1, Math.max(16, 2 * lengths[i]), 1], `length of response ${i}`, (x) => batch.set_length(i, x), 1),
      shiftCell(log_ratios[i], i));
    table.replaceChildren(element("table", {},
      element("thead", {}, element("tr", {}, ["response", "reward", "tokens", "mean log-ratio"].map((t) => element("th", {}, t)))),
      element("tbody", {}, ...Array.from(lengths.slice(0, MOST_ROWS), row))));
  }

  function tried(edit) {
    try {
      edit();
      problem.textContent = "";
    } catch (error) {
      return refuse(error);
    }
    edited();
  }

  function pair(value, [least, most, step], label, set, typedStep, empty = false) {
    const reported = (from, to) => () => {
      if (from.value === "" && !empty) return;
      to.value = from.value;
      tried(() => set(from.value === "" ? NaN : Number(from.value)));
    };
    const typed = element("input", { type: "number", step: typedStep, value: Number.isNaN(value) ? "" : value, "aria-label": label, placeholder: empty ? "none" : "" });
    const slider = element("input", { type: "range", min: least, max: most, step, value: Number.isNaN(value) ? 0 : value, "aria-label": `${label}, slider` });
    typed.addEventListener("input", reported(typed, slider));
    slider.addEventListener("input", reported(slider, typed));
    return element("td", {}, element("span", { class: "pair" }, slider, typed));
  }

  // Moves all log-probabilities of a response; the slider stands at their mean log-ratio.
  function shiftCell(drift, i) {
    let last = drift;
    return pair(Math.abs(drift) < 1e-12 ? 0 : Number(drift.toPrecision(4)), [-1, 1, 0.01], `mean log-ratio of response ${i}`, (x) => {
      batch.shift(i, x - last);
      last = batch.log_ratios[i];
    }, "any");
  }

  function draw() {
    const { text: kept, ...rest } = state;
    const whole = write("group", kept.length > 6000 ? rest : state, DEFAULTS);
    if (!batch) return parse();
    const wanted = [[state.method, state.settings], ...(flag("beside") ? [[state.other, state.otherSettings]] : [])];
    try {
      const found = wanted.map(([method, settings]) => evaluated(batch, method, settings, flag("batch")));
      columns = found;
    } catch (error) {
      return refuse(error);
    }
    problem.textContent = "";
    results.classList.remove("stale");
    const notes = columns.flatMap((c) => c.warnings);
    if (!whole || kept.length > 6000) notes.push("The lines are too long for the address; send them as a file");
    warned.textContent = [...new Set(notes)].map((n) => `Note: ${n}.`).join(" ");
    forms.other.node.classList.toggle("hidden", !flag("beside"));
    sides[1].classList.toggle("hidden", !flag("beside"));
    columns.forEach(drawSide);
    commandLine.replaceChildren("The same on the command line: ", element("code", {}, command()));
    listClipped();
  }

  function drawSide(column, which) {
    titles[which].textContent = column.title;
    const tile = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
    const sum = column.loss.reduce((a, b) => a + b, 0);
    tiles[which].replaceChildren(
      tile(column.loss.length > 1 ? "loss, all lines" : "loss", shown(sum, 5)),
      tile("clipped tokens", `${column.clipped} of ${offsets.at(-1)}`),
      tile("mean ratio", shown(column.metrics[0].ratio_mean, 4)),
      ...(column.limits.kl > 0 ? [tile("mean KL", shown(column.metrics[0].kl, 3))] : []));
    const labels = offsets.slice(1).map((_, i) => `response ${i}`);
    QUANTITIES.forEach(([name, title, unit], q) => {
      const figure = figures[which][q];
      const values = name === "gradient" ? column.gradient.map((x) => 0 - x) : column[name];
      const limit = Math.max(...columns.map((c) => c.limits[name]));
      figure.node.classList.toggle("hidden", name === "kl" && limit === 0);
      if (name === "kl" && limit === 0) return;
      figure.note.textContent = { losses: CLIPPED, gradient: `Blue becomes more likely, orange less. ${CLIPPED}` }[name] ?? "";
      figure.node.dataset.subject = column.title;
      const marks = name === "losses" || name === "gradient" ? column.shownMarks : [];
      const onCell = (row, token) => {
        figure.readout.classList.remove("hidden");
        figure.readout.textContent = reported(column, row, token);
      };
      drawHeat(figure, { values, offsets, labels, limit, marks, label: `${title}, ${column.title}; arrow keys move the cell that is read out`, unit, onCell });
    });
  }

  function reported(column, row, token) {
    const k = offsets[row] + token;
    const parts = [`advantage ${shown(column.advantages[k])}`, `ratio ${shown(column.ratios[k])}`, `loss ${shown(column.losses[k])}`, `gradient ${shown(column.gradient[k])}`];
    if (column.kl[k] !== 0) parts.push(`KL ${shown(column.kl[k])}`);
    const why = column.regions[k] === 0 ? "" : ` Clipped: ${column.reasons.get(k) ?? (column.regions[k] > 0 ? "upper bound" : "lower bound")}.`;
    return `response ${row}, token ${token}: ${parts.join(", ")}.${why}`;
  }

  function listClipped() {
    const lines = columns.flatMap((column) => column.marks.slice(0, MOST_LISTED).map((m) => element("tr", {},
      element("td", {}, column.title), element("td", { class: "number" }, m.row), element("td", { class: "number" }, m.token), element("td", { class: "long" }, column.reasons.get(offsets[m.row] + m.token)))));
    const more = columns.reduce((sum, c) => sum + Math.max(0, c.clipped - MOST_LISTED), 0);
    clipped.replaceChildren(element("h2", {}, "Clipped tokens"),
      lines.length === 0 ? element("p", { class: "quiet" }, "None: the gradient flows at every token.")
        : element("div", { class: "scroll" }, element("table", {},
          element("thead", {}, element("tr", {}, ["method", "response", "token", "side and reason"].map((t) => element("th", {}, t)))), element("tbody", {}, ...lines))),
      more ? element("p", { class: "note" }, `and ${more} more`) : "");
  }

  // The numbers after the figures of a side, one object a token.
  function numbers(which) {
    const column = columns[which];
    const list = [];
    for (let row = 0; row + 1 < offsets.length; row++) {
      for (let k = offsets[row]; k < offsets[row + 1]; k++) {
        list.push({ response: row, token: k - offsets[row], advantage: column.advantages[k], ratio: column.ratios[k], loss: column.losses[k], gradient: column.gradient[k], kl: column.kl[k], clipped: ["low", "", "high"][column.regions[k] + 1] });
      }
    }
    return list;
  }

  const command = () => `sim estimate --method ${state.method} ${state.settings}${flag("batch") ? " --batch" : ""} --input groups.jsonl`;

  return { node, draw, leave: () => batch?.free() };
}

const offsetsOf = (lengths) => lengths.reduce((all, n) => (all.push(all.at(-1) + n), all), [0]);

function evaluated(batch, method, settings, asOneBatch) {
  const found = batch.evaluate(method, settings, asOneBatch);
  const described = JSON.parse(lab.describe(method, settings, 1, 2, 1));
  const column = {
    title: described.title, advantages: found.advantages, losses: found.losses, gradient: found.gradient, ratios: found.ratios,
    kl: found.kl, regions: found.regions, loss: Array.from(found.loss), warnings: found.warnings, metrics: JSON.parse(found.metrics()),
  };
  const offsets = offsetsOf(batch.lengths);
  Object.assign(column, { reasons: new Map(), marks: [], clipped: 0 });
  for (let row = 0; row + 1 < offsets.length; row++) {
    for (let k = offsets[row]; k < offsets[row + 1]; k++) {
      if (column.regions[k] === 0) continue;
      column.clipped += 1;
      if (column.clipped <= MOST_MARKS) column.marks.push({ row, token: k - offsets[row], text: column.regions[k] > 0 ? "▲" : "▼" });
      if (column.clipped <= MOST_REASONS) column.reasons.set(k, found.reason(k));
    }
  }
  found.free();
  // So many marks would hide the numbers.
  column.shownMarks = column.clipped <= MOST_MARKS ? column.marks : [];
  column.limits = Object.fromEntries(["advantages", "losses", "gradient", "kl"].map((name) => [name, largest(column[name])]));
  return column;
}

function largest(list) {
  let most = 0;
  for (let k = 0; k < list.length; k++) if (Math.abs(list[k]) > most) most = Math.abs(list[k]);
  return most;
}

// Lines for a trial of speed: the same numbers every time.
function made(responses, longest) {
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const lengths = Array.from({ length: responses }, (_, i) => (i === 0 ? longest : Math.ceil(longest * (0.4 + 0.6 * random()))));
  const old = lengths.map((n) => Array.from({ length: n }, () => -Math.round(2000 * random()) / 1000));
  const now = old.map((row) => row.map((x) => Math.min(0, Math.round(1000 * (x + 0.2 * (random() - 0.5))) / 1000)));
  return JSON.stringify({ rewards: lengths.map(() => Number(random() < 0.4)), logps: now, old_logps: old }) + "\n";
}
