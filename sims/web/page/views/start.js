// What this is, two guided stops, four views.

import { element } from "../dom.js";

const STOPS = [
  ["#truth?guide=length", "The length bonus", "Watch GRPO-λ turn against the gradient of reward as responses get longer."],
  ["#truth?guide=inversion", "The preference inversion", "Watch the long, worse answer overtake the short, better one as it grows."],
];

const VIEWS = [
  ["#credit", "Credit", "The weight that a method gives every token, as a picture beside GRPO's."],
  ["#group", "A group", "Rewards, lengths and log-probabilities in; advantages, losses and gradient of every token out."],
  ["#truth", "Exact truth", "A small task on which every expectation is an exact sum: direction, bias and variance of any method."],
  ["#check", "Check your trainer", "Paste what your trainer computed; the page names the convention that gives these numbers."],
];

const card = (kind) => ([href, title, text]) =>
  element("a", { class: `stop ${kind}`, href }, element("strong", {}, title), element("p", {}, text));

export function start() {
  return {
    node: element("div", {},
      element("div", { class: "hero" },
        element("h1", {}, "Turn λ and see the credit."),
        element("p", {}, "Methods such as GRPO and GRPO-λ decide how much of a response’s reward each of its tokens receives. This page runs the compiled functions of ",
          element("code", {}, "grpo-lambda"), " in your browser and shows that credit, beside the exact truth.")),
      element("h2", {}, "Two guided stops"),
      element("div", { class: "stops" }, ...STOPS.map(card("guide"))),
      element("h2", {}, "Four views"),
      element("div", { class: "stops" }, ...VIEWS.map(card("")))),
    draw() {},
  };
}
