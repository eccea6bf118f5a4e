// λ to turn, and what it does to the credit of every token; then the views and two guided stops.

import { lab } from "../engine.js";
import { element, eachFrame, shown } from "../dom.js";
import { numberField } from "../method_form.js";
import { Figure, curves } from "../chart.js";
import { colours } from "../theme.js";

const STOPS = [
  ["#truth?guide=length", "The length bonus", "Watch GRPO-λ turn against the gradient of reward as responses get longer."],
  ["#truth?guide=inversion", "The preference inversion", "Watch the long, worse answer overtake the short, better one as it grows."],
];

const VIEWS = [
  ["#credit", "Credit", "Any method and setting: the weight of every token, next to GRPO’s."],
  ["#group", "A group", "Rewards, lengths and log-probabilities in; advantages, losses and gradient of every token out."],
  ["#truth", "Exact truth", "A small task on which every expectation is an exact sum: direction, bias and variance of any method."],
  ["#codes", "Systematic groups", "The codes of a group, the responses they decode to, and how much of the variance is left."],
  ["#check", "Check your trainer", "Paste what your trainer computed; the page names the convention that gives these numbers."],
  ["#grade", "Grade an answer", "Paste a reference and a response; the page marks the answer that the grader finds and names its rules."],
];

// A group of eight, two of them right, as in the view Credit.
const [SIZE, RIGHT, LENGTH] = [8, 2, 32];

const card = (kind) => ([href, title, text]) =>
  element("a", { class: `stop ${kind}`, href }, element("strong", {}, title), element("p", {}, text));

export function start() {
  let lambda = 0.9;
  let points = [];
  const figure = new Figure({ title: "Pull of the gradient on every token of a right response", name: "start-lambda",
    rows: () => points.map(({ token, lambda: own, grpo }) => ({ token, grpo_lambda: own, grpo })) });
  const problem = element("p", { class: "problem", role: "alert" });
  const said = element("p", { class: "said", "aria-live": "polite" });
  const soon = eachFrame(() => draw());
  const slider = numberField({ label: "λ", value: lambda, least: 0, most: 1, step: 0.01, onchange: (x) => ((lambda = x), soon()), about: "how far back a token’s credit reaches" });
  const more = element("a", { href: "#credit" }, "Open in Credit");
  const node = element("div", {},
    element("div", { class: "hero" },
      element("h1", {}, "Turn λ and see the credit."),
      element("p", {}, "GRPO gives every token of a response the same credit. GRPO-λ adds to each token the credit of the tokens that follow it, faded by λ at every step. Move λ: the compiled functions of ",
        element("code", {}, "grpo-lambda"), " compute the picture in your browser. New to this? ", element("a", { href: "learn/README.md" }, "A course in six pages"), " begins at REINFORCE.")),
    element("div", { class: "turn" }, slider, problem, said, more),
    figure.node,
    element("h2", {}, "Two guided stops"),
    element("div", { class: "stops" }, ...STOPS.map(card("guide"))),
    element("h2", {}, "Six views"),
    element("div", { class: "stops" }, ...VIEWS.map(card(""))));

  function draw() {
    let found;
    try {
      found = new lab.Profile("grpo_lambda", `lambda=${lambda}`, SIZE, RIGHT, LENGTH, 0);
    } catch (error) {
      problem.textContent = String(error);
      for (const stale of [said, figure.node]) stale.classList.add("stale");
      return;
    }
    problem.textContent = "";
    for (const fresh of [said, figure.node]) fresh.classList.remove("stale");
    const [own, grpo] = [found.right, found.grpo_right];
    const scale = found.scale;
    found.free();
    points = Array.from(own, (y, token) => ({ token, lambda: y, grpo: grpo[token] }));
    more.href = `#credit?settings=${encodeURIComponent(`lambda=${lambda}`)}&length=${LENGTH}`;
    said.textContent = `At λ = ${lambda} the first token of a right response counts ${shown(own[0] / grpo[0], 3)} × what GRPO gives it and the last ${shown(own.at(-1) / grpo.at(-1), 3)} ×. With the paper’s clamp, which shrinks the pull of wrong responses, all pulls of the group together are ${shown(scale, 3)} × as large as GRPO’s in absolute value.`;
    const c = colours();
    const series = [
      { name: "GRPO", colour: c.grey, dash: "7 4", points: points.map((p) => [p.token, p.grpo]) },
      { name: "GRPO-λ", colour: c.purple, points: points.map((p) => [p.token, p.lambda]), dots: true },
    ];
    const width = figure.width;
    figure.draw([curves({ series, width, height: width < 500 ? 220 : 280, rules: [0], x: { label: "token, from 0" }, y: { label: "pull" }, label: "Pull on every token of a right response, GRPO-λ and GRPO" })], series);
  }

  return { node, draw };
}
