// Random groups, methods and settings: the same ones every time.

export function generator(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
  const whole = (least, most) => least + Math.floor(uniform() * (most - least + 1));
  const pick = (list) => list[whole(0, list.length - 1)];
  return { uniform, whole, pick };
}

const rounded = (x) => Number(x.toPrecision(6));

// A line of `sim estimate` with every kind of extra input.
export function line(random, id) {
  const { uniform, whole } = random;
  const size = whole(2, 6);
  const lengths = Array.from({ length: size }, () => whole(1, 12));
  const rows = (make) => lengths.map((n) => Array.from({ length: n }, make));
  const old = rows(() => rounded(-3 * uniform()));
  const near = (width) => old.map((row) => row.map((x) => Math.min(0, rounded(x + width * (uniform() - 0.5)))));
  const drift = random.pick([0, 0, 0.2, 1]);
  const rewards = lengths.map((_, i) => (i < 2 ? i : random.pick([0, 1, rounded(uniform())])));
  return {
    id, rewards, logps: drift === 0 ? old : near(drift), old_logps: old, ref_logps: near(0.4), sampler_logps: near(0.1), teacher_logps: near(0.5),
    tokens: rows(() => whole(0, 5)), entropies: rows(() => rounded(uniform())), values: rows(() => rounded(uniform())), collisions: rows(() => rounded(0.1 + 0.9 * uniform())),
    shifts: rows(() => rounded(uniform())), saliencies: rows(() => rounded(uniform())), steps: lengths.map((n) => [[0, rounded(uniform())], ...(n > 3 ? [[2, rounded(uniform())]] : [])]),
    reward_parts: lengths.map(() => [random.pick([0, 1]), rounded(uniform())]), hidden: rows(() => [rounded(uniform()), rounded(uniform() - 0.5)]), truncated: lengths.map(() => uniform() < 0.1),
  };
}

function value(random, param) {
  const { uniform, pick } = random;
  if (param.type === "choice") return pick(param.choices);
  if (param.type === "flag") return pick(["true", "false"]);
  if (param.type === "number or none" && uniform() < 0.3) return "none";
  const low = param.min ?? -2;
  const high = Math.min(param.max ?? low + 4, low + 50);
  return String(rounded(low + (high - low) * uniform()));
}

// A method with some of its settings changed.
export function setting(random, catalogue, lambda = false) {
  const spec = lambda ? catalogue.find((m) => m.name === "grpo_lambda") : random.pick(catalogue);
  const changed = spec.params.filter(() => random.uniform() < 0.25);
  return { method: spec.name, settings: changed.map((p) => `${p.key}=${value(random, p)}`).join(" ") };
}
