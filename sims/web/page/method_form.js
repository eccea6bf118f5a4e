// A method and its settings: a list, a slider for every number, and the words of the command line, all of which say the same.

import { lab } from "./engine.js";
import { element, fresh } from "./dom.js";

let catalogue;
export const methods = () => (catalogue ??= JSON.parse(lab.methods()));

// What is asked most; the others are a click away.
const FIRST = ["lambda", "gamma", "style", "update", "normalise", "clamp", "clip", "reduction", "beta"];

// Where a setting has no end, that of its slider. Any number may be typed.
const ENDS = { clamp: [-2, 0], beta: [0, 0.5], epsilon_high: [0, 1], max_length: [1, 4096], clip_max: [1, 10] };

export const words = (settings) => Object.fromEntries(settings.split(/\s+/).filter(Boolean).map((word) => {
  const cut = word.indexOf("=");
  return cut < 0 ? [word, null] : [word.slice(0, cut), word.slice(cut + 1)];
}));

const written = (settings) => Object.entries(settings).map(([k, v]) => (v === null ? k : `${k}=${v}`)).join(" ");

export class MethodForm {
  constructor({ title, method, settings, onchange, allowed = () => true }) {
    this.onchange = onchange;
    this.method = method;
    this.settings = settings;
    const name = fresh("method");
    this.choice = element("select", { id: name, onchange: () => this.#choose(this.choice.value) }, ...this.#options(allowed));
    this.line = element("input", { type: "text", id: fresh("settings"), spellcheck: false, autocapitalize: "off", placeholder: "key=value ..", oninput: () => this.#typed() });
    this.fields = element("div", {});
    this.node = element("fieldset", {},
      element("legend", {}, title),
      element("div", { class: "field wide" }, element("label", { for: name }, "method"), this.choice),
      this.fields,
      element("div", { class: "field wide" }, element("label", { for: this.line.id }, "as typed"), this.line));
    this.show(method, settings);
  }

  // Shows another choice without telling anyone.
  show(method, settings) {
    this.method = method;
    this.settings = settings;
    this.choice.value = method;
    this.line.value = settings;
    this.#build();
  }

  #options(allowed) {
    const groups = new Map();
    for (const spec of methods().filter(allowed)) {
      if (!groups.has(spec.provenance)) groups.set(spec.provenance, []);
      groups.get(spec.provenance).push(element("option", { value: spec.name }, spec.title));
    }
    return [...groups].map(([provenance, options]) => element("optgroup", { label: provenance }, ...options));
  }

  #choose(method) {
    const known = new Set(methods().find((m) => m.name === method).params.map((p) => p.key));
    const kept = Object.entries(words(this.settings)).filter(([key]) => known.has(key));
    this.show(method, written(Object.fromEntries(kept)));
    this.onchange();
  }

  #typed() {
    this.settings = this.line.value;
    this.#build();
    this.onchange();
  }

  #set(param, value) {
    const settings = words(this.settings);
    if (value === String(param.default ?? "none")) delete settings[param.key];
    else settings[param.key] = value;
    this.settings = written(settings);
    this.line.value = this.settings;
    this.onchange();
  }

  #build() {
    const spec = methods().find((m) => m.name === this.method);
    if (!spec) return;
    const open = this.fields.querySelector("details")?.open;
    const rank = (p) => FIRST.indexOf(p.key);
    const first = spec.params.filter((p) => rank(p) >= 0).sort((a, b) => rank(a) - rank(b));
    const rest = spec.params.filter((p) => rank(p) < 0);
    const given = words(this.settings);
    const field = (p) => this.#field(p, given[p.key] ?? String(p.default ?? "none"));
    const more = rest.length ? element("details", { open: open ?? false }, element("summary", {}, "More settings"), ...rest.map(field)) : null;
    this.fields.replaceChildren(...first.map(field), ...(more ? [more] : []));
  }

  #field(param, value) {
    const id = fresh("setting");
    const label = element("label", { for: id, title: param.about }, param.key);
    if (param.type === "choice") {
      const options = param.choices.map((word) => element("option", { value: word, selected: word === value }, word));
      const choice = element("select", { id, title: param.about, onchange: () => this.#set(param, choice.value) }, ...options);
      return element("div", { class: "field wide" }, label, choice);
    }
    if (param.type === "flag") {
      const box = element("input", { type: "checkbox", id, title: param.about, checked: value === "true", onchange: () => this.#set(param, String(box.checked)) });
      return element("div", { class: "field check" }, label, box);
    }
    const [low, high] = ends(param);
    const typed = element("input", { type: "text", inputMode: "decimal", id, value, title: param.about, oninput: () => {
      slider.value = typed.value;
      this.#set(param, typed.value.trim());
    } });
    const slider = element("input", { type: "range", min: low, max: high, step: param.key === "max_length" ? 1 : (high - low) / 200, value: Number(value), "aria-label": `${param.key}, slider`, oninput: () => {
      typed.value = String(Number(Number(slider.value).toPrecision(6)));
      this.#set(param, typed.value);
    } });
    return element("div", { class: "field" }, label, slider, typed);
  }
}

function ends({ key, min, max, default: usual }) {
  if (ENDS[key]) return ENDS[key];
  const low = min ?? Math.min(0, usual ?? 0);
  const high = max !== null && max !== undefined && max <= 1e4 ? max : Math.max(1, 4 * (usual ?? 0));
  return [low, high];
}

// A slider with its number: of the group, of a task.
export function numberField({ label, value, least, most, step = 1, onchange, about }) {
  const id = fresh("number");
  const reported = (from, to) => () => {
    to.value = from.value;
    if (from.value !== "" && Number.isFinite(Number(from.value))) onchange(Number(from.value));
  };
  const typed = element("input", { type: "number", id, min: least, max: most, step, value, title: about });
  const slider = element("input", { type: "range", min: least, max: most, step, value, "aria-label": `${label}, slider` });
  typed.addEventListener("input", reported(typed, slider));
  slider.addEventListener("input", reported(slider, typed));
  const node = element("div", { class: "field" }, element("label", { for: id, title: about }, label), slider, typed);
  node.set = (next) => ((slider.value = next), (typed.value = next));
  node.range = (from, to, by) => {
    for (const input of [slider, typed]) [input.min, input.max, input.step] = [from, to, by];
  };
  return node;
}
