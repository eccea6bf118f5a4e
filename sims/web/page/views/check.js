// Which framework's convention gives a trainer's numbers: `sim estimate --against`.

import { lab } from "../engine.js";
import { element } from "../dom.js";
import { MethodForm } from "../method_form.js";
import { write } from "../state.js";

const GROUPS = `{"rewards":[1,0,0,1],"logps":[[-0.5,-0.2,-0.9],[-1.5,-0.7],[-1.0,-0.4,-0.3,-0.8],[-0.6]],"old_logps":[[-0.5,-0.3,-0.8],[-1.5,-0.7],[-0.9,-0.4,-0.35,-0.8],[-0.6]]}
`;
const DEFAULTS = { groups: GROUPS, theirs: "", method: "grpo", settings: "", explain: "false", tolerance: "0.00001" };
const EXAMPLES = [
  ["verl’s advantages", "grpo", "std_preset=verl", ["advantages"]],
  ["TRL’s gradient", "grpo", "std_preset=trl", ["advantages", "dlogps"]],
  ["Dr. GRPO’s loss", "dr_grpo", "max_length=4", ["advantages", "loss"]],
];

export function check(values) {
  const state = { ...DEFAULTS, ...values };
  const area = (name, label, rows) => {
    const node = element("textarea", { id: `check-${name}`, rows, value: state[name], spellcheck: false, autocomplete: "off", oninput: () => {
      state[name] = node.value;
      draw();
    } });
    return [node, element("div", {}, element("h2", {}, element("label", { for: node.id }, label)), node)];
  };
  const [groups, groupsBox] = area("groups", "The groups, a JSON object a line", 8);
  const [theirs, theirsBox] = area("theirs", "What your trainer computed, a line per group", 8);
  const problem = element("p", { class: "problem", role: "alert" });
  const report = element("pre", { "aria-live": "polite" });
  const form = new MethodForm({ title: "Compare with a method, term by term", method: state.method, settings: state.settings, onchange: () => {
    [state.method, state.settings] = [form.method, form.settings];
    draw();
  } });
  const explain = element("input", { type: "checkbox", checked: state.explain === "true", onchange: () => {
    state.explain = String(explain.checked);
    draw();
  } });
  const tolerance = element("input", { type: "text", inputMode: "decimal", id: "tolerance", value: state.tolerance, oninput: () => {
    state.tolerance = tolerance.value;
    draw();
  } });
  const example = ([label, method, settings, fields]) => element("button", { type: "button", onclick: () => {
    const batch = new lab.Batch(groups.value, method, settings);
    const found = batch.evaluate(method, settings, true);
    const lines = found.printed().trim().split("\n").map((line) => JSON.parse(line));
    theirs.value = state.theirs = lines.map((line) => JSON.stringify(Object.fromEntries(fields.map((f) => [f, line[f]])))).join("\n") + "\n";
    found.free();
    batch.free();
    draw();
  } }, label);
  const trying = (made) => (event) => {
    try {
      made(event);
    } catch (error) {
      problem.textContent = String(error);
    }
  };
  const node = element("div", {},
    element("h1", {}, "Check your trainer"),
    element("p", {}, "Paste groups and what your trainer made of them: advantages, losses of tokens, the gradient or the loss. The page tries the conventions of TRL, verl, OpenRLHF, NeMo-RL and the papers, and names those that give these numbers."),
    element("div", { class: "two" }, groupsBox, element("div", {}, theirsBox,
      element("div", { class: "buttons small" }, element("span", { class: "note" }, "Fill in"), ...EXAMPLES.map((e) => {
        const button = example(e);
        return button;
      })))),
    element("p", { class: "note" }, "Fields of a line of theirs: advantages [g] or [[T_i]..], token_losses [[T_i]..], gradient [[T_i]..] by logps, loss. All lines are one batch."),
    element("div", { class: "columns late" },
      element("div", { class: "controls" },
        element("fieldset", {}, element("legend", {}, "Search"), element("div", { class: "field wide" }, element("label", { for: "tolerance" }, "tolerance"), tolerance),
          element("label", {}, explain, " say where a method differs")),
        form.node),
      element("div", {}, problem, element("h2", {}, "What was found"), report)));

  function draw() {
    const whole = write("check", state, DEFAULTS);
    form.node.classList.toggle("hidden", state.explain !== "true");
    if (theirs.value.trim() === "") {
      report.textContent = "Nothing yet: paste your trainer's numbers, or fill in an example.";
      problem.textContent = "";
      return;
    }
    try {
      const method = state.explain === "true" ? state.method : "";
      const settings = state.explain === "true" ? state.settings : "";
      report.textContent = lab.against(groups.value, theirs.value, method, settings, state.explain === "true", Number(state.tolerance)).trim();
      problem.textContent = whole ? "" : "The lines are too long for the address of this view.";
    } catch (error) {
      problem.textContent = String(error);
      report.textContent = "";
    }
  }

  return { node, draw: trying(draw) };
}
