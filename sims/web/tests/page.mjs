// `node page.mjs PAGE.html SIM NATIVE [PART..]`: the page in a browser against the command line and the native functions.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { opened } from "./browser.mjs";
import { generator, line, setting } from "./random.mjs";

const [file, sim, native] = process.argv.slice(2, 5).map((path) => resolve(path));
const only = process.argv.slice(5);
const folder = mkdtempSync(join(tmpdir(), "grpo-lambda-page-"));
let [passed, failed] = [0, 0];
function check(what, right, more = "") {
  if (right) passed += 1;
  else {
    failed += 1;
    console.log(`FAILED ${what}${more ? `: ${more}` : ""}`);
  }
}

// exp and ln of WebAssembly are those of Rust's libm, natively those of glibc. They differ in the last bit, and everything that is computed
// from them does; what is not has equal bits. The size against which that is measured is the largest number of the same list.
const ROUNDING = 1e-15;
// A density is the exponential of a sum of logarithms, which are not small: its relative rounding is theirs times the largest of them. Those of
// bnpo_beta are log-gammas of shapes that go into the hundreds.
const LARGEST_LOGARITHM = { bnpo_beta: 1000 };
const agreement = { equal: 0, rounded: 0, worst: 0 };
function compare(what, ours, theirs, size = 0) {
  if (Array.isArray(ours) || Array.isArray(theirs)) {
    check(`${what}: length`, ours?.length === theirs?.length);
    const flat = (x) => (Array.isArray(x) ? x.flatMap(flat) : [x]);
    const largest = flat(theirs).reduce((most, x) => (typeof x === "number" ? Math.max(most, Math.abs(x)) : most), size);
    theirs.forEach((x, i) => compare(`${what}[${i}]`, ours[i], x, largest));
  } else if (theirs !== null && typeof theirs === "object") {
    check(`${what}: fields`, String(Object.keys(ours)) === String(Object.keys(theirs)));
    for (const key of Object.keys(theirs)) compare(`${what}.${key}`, ours[key], theirs[key], size);
  } else if (typeof theirs === "number" && !Object.is(ours, theirs)) {
    const gap = Math.abs(ours - theirs) / Math.max(Math.abs(theirs), size, Number.MIN_VALUE);
    agreement.rounded += 1;
    agreement.worst = Math.max(agreement.worst, gap);
    check(what, gap <= tolerance, `${ours} in the page, ${theirs} natively, relative ${gap}`);
  } else {
    agreement.equal += 1;
    check(what, Object.is(ours, theirs), `${ours} in the page, ${theirs} natively`);
  }
}
let tolerance = ROUNDING;

// A loss is a weighted mean of token losses of both signs, which cancel: its rounding is measured against the largest of them.
function compareLine(what, ours, theirs, losses) {
  const largest = Math.max(...losses.map(Math.abs));
  for (const key of Object.keys(theirs)) {
    if (key === "metrics") {
      for (const name of Object.keys(theirs.metrics)) compare(`${what}.${name}`, ours.metrics[name], theirs.metrics[name], name.endsWith("_loss") ? largest : 0);
    } else compare(`${what}.${key}`, ours[key], theirs[key], key === "loss" ? largest : 0);
  }
  check(`${what}: fields`, String(Object.keys(ours)) === String(Object.keys(theirs)));
}

// Output, or the message without the name of the command.
function run(...words) {
  try {
    return { out: execFileSync(sim, words, { cwd: folder, encoding: "utf8", stdio: "pipe", maxBuffer: 1 << 28 }) };
  } catch (error) {
    return { error: error.stderr.trim().split("\n").at(-1).replace(/^sim( \w+)?: error: /, "") };
  }
}

// The views that the pages of the course open.
const course = new URL("../../../docs/learn/", import.meta.url);
const pages = readdirSync(course).filter((name) => name.endsWith(".md")).map((name) => readFileSync(new URL(name, course), "utf8"));
const linked = pages.flatMap((text) => [...text.matchAll(/explorer\.html(#[^)]*)/g)].map((found) => found[1]));

const { browser, page, trouble, go } = await opened(file);
await go();
const catalogue = JSON.parse(run("methods", "--json").out);
check("the catalogue", JSON.stringify(catalogue) === (await page.evaluate(() => JSON.stringify(JSON.parse(grpoLambda.methods())))));

const inPage = (text, method, settings, batch) => page.evaluate((text, method, settings, batch) => {
  try {
    const held = new grpoLambda.Batch(text, method, settings);
    const found = held.evaluate(method, settings, batch);
    return { out: found.printed(), gradient: Array.from(found.gradient), advantages: Array.from(found.advantages), losses: Array.from(found.losses) };
  } catch (error) {
    return { error: String(error) };
  }
}, text, method, settings, batch);

async function estimates() {
  const random = generator(1);
  let refused = 0;
  for (let i = 0; i < 200; i++) {
    const { method, settings } = setting(random, catalogue, i % 3 === 0);
    const batch = i % 2 === 1;
    const text = Array.from({ length: 1 + (i % 3) }, (_, k) => JSON.stringify(line(random, k))).join("\n") + "\n";
    writeFileSync(join(folder, "groups.jsonl"), text);
    const theirs = run("estimate", "--method", method, ...settings.split(" ").filter(Boolean), "--input", "groups.jsonl", ...(batch ? ["--batch"] : []));
    const ours = await inPage(text, method, settings, batch);
    const what = `estimate ${i}, ${method} ${settings}`;
    if (theirs.error !== undefined || ours.error !== undefined) {
      refused += 1;
      check(what, theirs.error === ours.error, `${ours.error} / ${theirs.error}`);
      continue;
    }
    const lines = (out) => out.trim().split("\n").map((l) => JSON.parse(l));
    tolerance = ROUNDING * (LARGEST_LOGARITHM[method] ?? 1);
    let begin = 0;
    lines(theirs.out).forEach((line, k) => {
      const end = begin + line.advantages.flat().length;
      compareLine(`${what}[${k}]`, lines(ours.out)[k], line, ours.losses.slice(begin, end));
      begin = end;
    });
    check(`${what}: arrays`, JSON.stringify(lines(ours.out).flatMap((l) => l.dlogps.flat())) === JSON.stringify(ours.gradient));
    check(`${what}: losses`, ours.losses.length === ours.gradient.length && ours.losses.every(Number.isFinite));
  }
  console.log(`estimate: 200 settings (${refused} refused equally): ${agreement.equal} values equal to the bit, ${agreement.rounded} differ by rounding, at most ${agreement.worst.toExponential(1)}`);
  check("most settings are accepted", refused < 60, `${refused} refused`);
}

const asked = (requests) => execFileSync(native, { input: requests.map((r) => JSON.stringify(r)).join("\n") + "\n", encoding: "utf8", maxBuffer: 1 << 28 })
  .trim().split("\n").map((l) => JSON.parse(l));
const answered = (requests) => page.evaluate((requests) => requests.map((r) => {
  const began = performance.now();
  const done = (answer) => ({ ...answer, took: performance.now() - began });
  try {
    if (r.call === "graded") return done({ answer: JSON.parse(grpoLambda.graded(r.reference, r.response, r.free)) });
    if (r.call === "lengthBonus") return done({ answer: JSON.parse(grpoLambda.length_bonus(r.policy, r.horizon)) });
    let task = r.toml ? grpoLambda.Task.toml(r.toml, r.knob) : grpoLambda.Task.zoo(r.task, r.knob);
    if (r.rate !== undefined) task = task.at_success_rate(r.rate);
    if (r.call === "codes") return done({ answer: JSON.parse(task.codes(r.group, new Float64Array(r.shifts))) });
    return done({ answer: JSON.parse(task.measure(r.method, r.settings, r.group)) });
  } catch (error) {
    return done({ error: String(error) });
  }
}), requests);

// What is normalised or squared loses digits where it cancels: an update's numbers are measured against its largest, the rest against 1.
async function oracle() {
  Object.assign(agreement, { equal: 0, rounded: 0, worst: 0 });
  const random = generator(2);
  const tasks = JSON.parse(await page.evaluate(() => grpoLambda.tasks()));
  const exact = ["grpo", "rloo", "grpo_lambda", "dr_grpo", "reinforce_pp", "dapo", "gspo", "cispo"].map((name) => catalogue.find((m) => m.name === name));
  const small = tasks.filter((t) => !["full", "carry_add", "eos_hazard", "eos_hazard_dependent", "copy", "needle"].includes(t.name));
  const requests = Array.from({ length: 200 }, () => {
    const task = random.pick(small);
    const knob = task.knob && random.uniform() < 0.5 ? { knob: task.knob.least + task.knob.step * random.whole(0, Math.min(3, Math.floor((task.knob.most - task.knob.least) / task.knob.step))) } : {};
    const rate = task.success && random.uniform() < 0.4 ? { rate: random.whole(1, 19) / 20 } : {};
    const { method, settings } = setting(random, exact);
    return { call: "measure", task: task.name, ...knob, ...rate, method, settings: settings.replace(/correction=\w+/g, "").trim(), group: random.pick([2, 4, 8]) };
  }).concat([2, 5, 8, 16, 32, 64].flatMap((horizon) => [0, 1].map((policy) => ({ call: "lengthBonus", policy, horizon }))));
  for (const task of ["fork", "pivot", "random"]) {
    for (const sets of [1, 2, 4, 8]) requests.push({ call: "codes", task, group: 8, shifts: Array.from({ length: sets }, () => random.uniform()) });
  }
  const [theirs, ours] = [asked(requests), await answered(requests)];
  let refused = 0;
  tolerance = 1e-12;
  requests.forEach((request, i) => {
    const what = `oracle ${i}, ${JSON.stringify(request)}`;
    if (theirs[i].error || ours[i].error) {
      refused += 1;
      return check(what, theirs[i].error === ours[i].error, `${ours[i].error} / ${theirs[i].error}`);
    }
    compare(what, ours[i].answer, theirs[i].answer, 1);
  });
  tolerance = ROUNDING;
  const total = (list) => list.reduce((sum, a) => sum + a.took, 0);
  console.log(`oracle: ${requests.length} settings (${refused} refused equally): ${agreement.equal} values equal to the bit, ${agreement.rounded} differ by rounding, at most ${agreement.worst.toExponential(1)}`);
  console.log(`oracle: ${Math.round(total(ours))} ms in the page, ${Math.round(total(theirs))} ms natively, ${(total(ours) / total(theirs)).toFixed(2)} times`);
  check("the oracle takes at most three times as long", total(ours) < 3 * total(theirs));
}

const WRONG_LINES = ["", "{", "[1]", "{\"rewards\":[1,0]}", "{\"reward\":[1]}", "{\"rewards\":[1,0],\"logps\":[[-1]],\"old_logps\":[[-1],[-1]]}",
  "{\"rewards\":[1,0],\"logps\":[[-1],[-1]],\"old_logps\":[[-1,-2],[-1]]}", "{\"rewards\":[1,NaN],\"logps\":[[-1],[-1]],\"old_logps\":[[-1],[-1]]}",
  "{\"rewards\":[1,\"a\"],\"logps\":[[-1],[-1]],\"old_logps\":[[-1],[-1]]}", "{\"rewards\":[1,0],\"logps\":[[],[-1]],\"old_logps\":[[-1],[-1]]}",
  "{\"rewards\":[1,0],\"rewards\":[1,0],\"logps\":[[-1],[-1]],\"old_logps\":[[-1],[-1]]}", "{\"rewards\":[1e400,0],\"logps\":[[-1],[-1]],\"old_logps\":[[-1],[-1]]}"];
const WRONG_SETTINGS = [["grop", ""], ["grpo", "lambda=0.9"], ["grpo", "clip=maybe"], ["grpo", "epsilon_low=2"], ["grpo", "beta"], ["grpo", "beta=0.1"], ["grpo", "beta=1 beta=2"], ["ppo", ""], ["grpo", "clip=two_sided clip_max=1"]];
const TOML = "name = \"roads\"\ntokens = [\"a\", \"b\", \"EOS\"]\neos = \"EOS\"\nhorizon = 3\n\n[[rewards]]\npattern = \"a *\"\nreward = 1.0\n";
const WRONG_TOML = [["", " "], ["horizon = 3", "horizon = -3"], ["horizon = 3", "horizon = 0"], ["horizon = 3", "horzion = 3"], ["eos = \"EOS\"", "eos = \"STOP\""], ["reward = 1.0", "reward = 1.5"],
  ["pattern = \"a *\"", "pattern = \"* a\""], ["\"roads\"", "roads"], ["reward = 1.0", "reward = nan"], ["horizon = 3", "horizon = 3\ngamma = 1.5"], ["horizon = 3", "horizon = 90"], ["reward = 1.0", "reward = 0.0"]];

// Every wrong input has the text of the command line.
async function refusals() {
  const good = "{\"rewards\":[1,0],\"logps\":[[-1],[-1]],\"old_logps\":[[-1],[-1]]}";
  const cases = [...WRONG_LINES.map((text) => [text, "grpo", ""]), ...WRONG_SETTINGS.map(([method, settings]) => [good, method, settings])];
  for (const [text, method, settings] of cases) {
    writeFileSync(join(folder, "groups.jsonl"), text);
    const theirs = run("estimate", "--method", method, ...settings.split(" ").filter(Boolean), "--input", "groups.jsonl");
    const ours = await inPage(text, method, settings, false);
    check(`refusal of ${method} ${settings} ${text}`, theirs.error !== undefined && theirs.error === ours.error, `${ours.error} / ${theirs.error}`);
  }
  for (const [from, to] of WRONG_TOML) {
    const toml = from === "" ? to : TOML.replace(from, to);
    writeFileSync(join(folder, "mdp.toml"), toml);
    const theirs = run("mdp", "mdp.toml", "--method", "grpo", "--out", "out");
    const [ours] = await answered([{ call: "measure", toml, method: "grpo", settings: "", group: 8 }]);
    check(`refusal of ${to}`, theirs.error !== undefined && theirs.error === ours.error, `${ours.error} / ${theirs.error}`);
  }
  const theirs = ["{\"advantages\":[1]}", "{\"loss\":\"a\"}", "{\"lose\":1}", "{}", "[", "{\"loss\":1}\n{\"loss\":2}\n{\"loss\":1}", "{\"advantages\":[0.7071,-0.7071]}", "{\"loss\":0}"];
  writeFileSync(join(folder, "groups.jsonl"), good);
  for (const text of theirs) {
    writeFileSync(join(folder, "theirs.jsonl"), text);
    const found = run("estimate", "--against", "theirs.jsonl", "--input", "groups.jsonl");
    const ours = await page.evaluate((good, text) => {
      try {
        return { out: grpoLambda.against(good, text, "", "", false, 1e-5) };
      } catch (error) {
        return { error: String(error) };
      }
    }, good, text);
    check(`--against ${text}`, ours.out === found.out && ours.error === found.error, `${ours.error ?? ours.out} / ${found.error ?? found.out}`);
  }
}

// Of several trials: the shortest by the clock, and the mean processor time of the page's thread, which does not depend on what else the
// machine does. Times are printed and not judged: a slow machine is no fault of the page.
async function timed(trials, call) {
  const client = await page.createCDPSession();
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const processor = async () => 1e3 * (await client.send("Performance.getMetrics")).metrics.find((m) => m.name === "ThreadTime").value;
  const before = await processor();
  const clock = [];
  for (let i = 0; i < trials; i++) clock.push(await call(i));
  const found = { clock: Math.round(Math.min(...clock)), processor: Math.round((await processor() - before) / trials) };
  await client.detach();
  return found;
}

// From one input event of a slider to the next frame.
const moved = (selector, value) => page.evaluate((selector, value) => new Promise((resolve) => {
  const slider = document.querySelector(selector);
  const began = performance.now();
  slider.value = value;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began), 0));
}), selector, value);

// The grader in the page against the native one, on lines of its labelled texts, and the mark of its view.
async function grading() {
  const table = readFileSync(new URL("../../../llm/crates/grade/tests/pool/blind.tsv", import.meta.url), "utf8").trim().split("\n");
  const requests = table.filter((_, i) => i % 5 === 0).flatMap((line) => {
    const [, response, ...references] = line.replaceAll("⏎", "\n").split("\t");
    return references.filter((r) => r !== "-").map((reference, i) => ({ call: "graded", reference, response, free: i % 3 !== 2 }));
  });
  const [theirs, ours] = [asked(requests), await answered(requests)];
  const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
  const plain = ({ answer }) => JSON.stringify(answer ?? null, sorted);
  requests.forEach((request, i) => check(`graded, ${JSON.stringify(request)}`, plain(ours[i]) === plain(theirs[i]), `${plain(ours[i])} / ${plain(theirs[i])}`));
  console.log(`grade: ${requests.length} verdicts, equal in the page and natively`);
  await go("#grade?reference=9&response=It+is+not+7+but+9.");
  const shown = await page.evaluate(() => [document.querySelector("mark").textContent, document.querySelector(".said").textContent]);
  check("the answer is marked", shown[0] === "9" && shown[1].startsWith("Right"), String(shown));
}

async function views() {
  const first = { clock: Infinity };
  for (let i = 0; i < 4; i++) {
    await go("#credit");
    first.clock = Math.min(first.clock, Number(await page.evaluate(() => document.documentElement.dataset.ready)));
  }
  console.log(`first picture: ${first.clock} ms`);
  for (const width of [400, 1600]) {
    await page.setViewport({ width, height: 900 });
    for (const hash of ["", "#credit", "#group", "#truth", "#truth?guide=length", "#truth?guide=inversion", "#codes", "#codes?task=random&size=64&sets=16", "#check", "#grade", ...linked]) {
      await go(hash);
      await new Promise((r) => setTimeout(r, 700));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      const said = await page.evaluate(() => [...document.querySelectorAll(".problem")].map((p) => p.textContent).join(""));
      check(`${hash || "start"} at ${width} pixels`, wide <= width && said === "", `${wide} pixels wide; ${said}`);
    }
  }
  await page.setViewport({ width: 1600, height: 1000 });
  await go("");
  const before = await page.evaluate(() => document.querySelector(".plot svg").outerHTML);
  await moved("input[type=range]", "0.5");
  await new Promise((r) => setTimeout(r, 200));
  const [turned, after, weight] = await page.evaluate(() => {
    const found = new grpoLambda.Profile("grpo_lambda", "lambda=0.5", 8, 2, 32, 0);
    return [document.querySelector(".said").textContent, document.querySelector(".plot svg").outerHTML, found.right[0] / found.grpo_right[0]];
  });
  check("the first screen turns λ", before !== after && turned.startsWith(`At λ = 0.5 the first token of a right response counts ${Number(weight.toPrecision(3))} ×`), turned);
  await moved("input[type=number]", "2");
  const outside = await page.evaluate(() => [document.querySelector(".problem").textContent, document.querySelectorAll(".stale").length]);
  check("the first screen refuses λ = 2", outside[0].includes("lambda") && outside[1] === 2, String(outside));
  for (const [hash, words] of [
    ["#credit?method=dapo&length=8&drift=0.2", "GRPO’s gradient is 0 on right responses here"],
    ["#credit?length=2.5", "length = 2.5; must be a whole number"],
    ["#credit?length=99999", "length = 99999; must be from 1 to 4096"],
    ["#credit?size=1&right=1", "group size = 1; must be from 2 to 64"],
  ]) {
    await go(hash);
    const reported = await page.evaluate(() => document.querySelector(".problem").textContent + document.querySelector(".said").textContent);
    check(hash, reported.includes(words), reported);
  }
  await go("#codes?task=fork&size=8&sets=8");
  const independent = await page.evaluate(() => document.querySelector(".said").textContent);
  check("a set of one response is independent sampling", independent.endsWith("has 1 × the variance that it has with independent responses."), independent);
  await go("#credit?method=grpo_lambda&settings=lambda%3D9");
  const dimmed = await page.evaluate(() => [document.querySelector(".stale") !== null, document.querySelector(".problem").textContent]);
  check("old numbers are dimmed under an error", dimmed[0] && dimmed[1].includes("lambda"), String(dimmed));
  await go("#credit?method=grpo_lambda&settings=lambda%3D0.5&length=7");
  const again = await page.evaluate(() => [document.querySelector("select").value, document.querySelector("input[placeholder]").value, location.hash]);
  check("the address holds the view", again[0] === "grpo_lambda" && again[1] === "lambda=0.5" && again[2].includes("length=7"), String(again));
  await go("#group?beside=false");
  await page.evaluate(() => [...document.querySelectorAll("button")].find((b) => b.textContent.startsWith("64 responses")).click());
  await new Promise((r) => setTimeout(r, 1500));
  const tokens = await page.evaluate(() => document.querySelectorAll(".note")[1].textContent + document.querySelectorAll(".note")[0].textContent);
  await moved("input[type=range]", "0.4");
  const lambda = await timed(10, (i) => moved("input[type=range]", String(0.5 + i / 20)));
  const reward = await timed(10, (i) => moved("td input[type=range]", String(i / 10)));
  const words = (t) => `${t.processor} ms of processor, ${t.clock} ms by the clock`;
  console.log(`a slider at 64 responses of up to 4096 tokens (${tokens.match(/\d+ tokens/)}): lambda ${words(lambda)}; reward ${words(reward)}`);
}

try {
  for (const part of [estimates, oracle, refusals, grading, views]) {
    if (only.length === 0 || only.includes(part.name)) await part();
  }
  check("no error, no request", trouble.length === 0, trouble.slice(0, 5).join("; "));
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
