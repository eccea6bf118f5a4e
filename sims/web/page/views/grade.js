// The answer found in a response, and why: `llm-train grade --explain`.

import { lab } from "../engine.js";
import { element } from "../dom.js";
import { write } from "../state.js";

const DEFAULTS = {
  reference: "12",
  response: "There are 4 x 5 = 20 chairs. Eight of them, 40% of 20, are broken, so 20 - 8 = 12 chairs are left.\nCheck: 12 + 8 = 20.",
  mode: "free",
};
const EXAMPLES = [
  ["A box", "\\frac{1}{2}", "Half of them are red, so the answer is \\boxed{x = 0.5}.", "strict"],
  ["A denied value", "44", "I first thought the answer is 40, but it is 44.", "free"],
  ["Another language", "$\\frac{7}{2}$ meters", "La réponse finale est donc 350 cm.", "free"],
  ["Only a task", "5", "We still have to solve $3x - 4 = 11$.", "free"],
];
const SAID = { equal: "Right", different: "Wrong", no_answer: "No answer was found", unreadable: "No verdict: the grader cannot read it" };

export function grade(values) {
  const state = { ...DEFAULTS, ...values };
  const field = (name, rows) => {
    const node = element("textarea", { id: `grade-${name}`, rows, value: state[name], spellcheck: false, autocomplete: "off", oninput: () => {
      state[name] = node.value;
      draw();
    } });
    return node;
  };
  const [reference, response] = [field("reference", 1), field("response", 7)];
  const mode = element("select", { id: "grade-mode", onchange: () => {
    state.mode = mode.value;
    draw();
  } }, element("option", { value: "free" }, "free (evaluation): reads prose"),
  element("option", { value: "strict" }, "strict (training): the last box"));
  const example = ([label, gold, text, way]) => element("button", { type: "button", onclick: () => {
    [state.reference, state.response, state.mode] = [gold, text, way];
    [reference.value, response.value] = [gold, text];
    draw();
  } }, label);
  const [problem, said] = [element("p", { class: "problem", role: "alert" }), element("div", { "aria-live": "polite" })];
  const node = element("div", {},
    element("h1", {}, "Grade an answer"),
    element("p", {}, "Paste a reference and a response. The grader of training and evaluation marks the answer that it finds and names the rules by which it counts."),
    element("div", { class: "two" },
      element("div", {},
        element("h2", {}, element("label", { for: "grade-reference" }, "The reference")), reference,
        element("h2", {}, element("label", { for: "grade-response" }, "The response")), response,
        element("div", { class: "buttons small" }, element("span", { class: "note" }, "Fill in"), ...EXAMPLES.map(example)),
        element("div", {}, element("label", { for: "grade-mode" }, "Mode"), mode)),
      element("div", {}, element("h2", {}, "What was found"), problem, said)));

  function draw() {
    const whole = write("grade", state, DEFAULTS);
    mode.value = state.mode;
    problem.textContent = whole ? "" : "The texts are too long for the address of this view.";
    try {
      const { name, rules, verdict, reference: read, found } = JSON.parse(lab.graded(state.reference, state.response, state.mode !== "strict"));
      const text = state.response;
      const row = (term, ...more) => [element("dt", {}, term), element("dd", {}, ...more)];
      said.replaceChildren(
        element("p", { class: "said" }, `${SAID[name]}: ${verdict}.`),
        element("pre", {}, ...(found ? [text.slice(0, found.start), element("mark", {}, text.slice(found.start, found.end)), text.slice(found.end)] : [text])),
        element("dl", {},
          ...(found ? [...row("answer", element("code", {}, found.answer)), ...row("found by", `${found.rule.name}: ${found.rule.about}`)] : []),
          ...(found?.value ? row("value it states", element("code", {}, found.value)) : []),
          ...row("reference", element("code", {}, read)),
          ...rules.flatMap((rule) => row(`rule ${rule.name}`, rule.about))));
    } catch (error) {
      problem.textContent = String(error);
      said.replaceChildren();
    }
  }

  return { node, draw };
}
