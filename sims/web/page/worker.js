// Long sums, point by point. A job is { points: [{ call, ...arguments, ...labels }] }; each answer comes as { point }.

import init, * as lab from "wasm";

let ready;

function taskOf({ task, toml, knob, rate }) {
  const made = toml ? lab.Task.toml(toml, knob ?? undefined) : lab.Task.zoo(task, knob ?? undefined);
  if (rate === null || rate === undefined) return made;
  const tilted = made.at_success_rate(rate);
  made.free();
  return tilted;
}

const calls = {
  measure(point) {
    const task = taskOf(point);
    const { update, ...measured } = JSON.parse(task.measure(point.method, point.settings, point.group));
    task.free();
    return measured;
  },
  facts(point) {
    const task = taskOf(point);
    const facts = JSON.parse(task.facts());
    task.free();
    return facts;
  },
  lengthBonus: (point) => JSON.parse(lab.length_bonus(point.policy, point.horizon)),
};

onmessage = async ({ data }) => {
  if (data.module) {
    ready = init({ module_or_path: data.module }).then(() => lab.start());
    return;
  }
  try {
    await ready;
    for (const point of data.points) {
      const began = performance.now();
      const answer = calls[point.call](point);
      postMessage({ point: { ...point, answer, took: performance.now() - began } });
    }
    postMessage({ done: true });
  } catch (error) {
    postMessage({ error: typeof error === "string" ? error : `the computation stopped: ${error.message}` });
  }
};
