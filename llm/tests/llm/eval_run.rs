//! A model from a run is asked as the run asked it: `eval` and `generate` on runs and their checkpoints, through the binary.

use std::path::Path;

use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest};
use grpo_lambda_decoder::model::{self, Decoder, weights};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::eval::completion::CompletionRecord;
use grpo_lambda_trainer::input::task::{Problem, Split};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::problems::{Problems, Stage};
use grpo_lambda_trainer::run;
use serde_json::Value;

use crate::common::{Done, TINY_MODEL, assert_has, copy, with};
use crate::long;

/// A system prompt in words that the preset's tokenizer has.
const SYSTEM: &str = "Tom has 3 apples.";

/// A chat template as a Jinja file. A run that began with random weights has no checkpoint whose end token it could write.
const JINJA: &str = "{% for m in messages %}{{ m.role[0] }}{{ eos_token }} {{ m.content }}\n{% endfor %}";

/// Runs on sums, and files next to them.
struct Place(crate::common::Place);

impl std::ops::Deref for Place {
    type Target = crate::common::Place;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Place {
    fn new() -> Place {
        let place = Place(crate::common::Place::new());
        place.sums("sums.jsonl", 0..81);
        place.sums("mine.jsonl", (0..81).step_by(9));
        place.write("own.jinja", JINJA);
        place
    }

    fn sums(&self, name: &str, sums: impl Iterator<Item = u32>) {
        let row = |i: u32| {
            let (a, b) = (i / 9, i % 9);
            format!("{{\"question\":\"{a}+{b}=?\",\"answer\":\"{}\"}}\n", a + b)
        };
        self.write(name, sums.map(row).collect::<String>());
    }

    fn settings(&self, more: &[&str]) -> Vec<String> {
        let data = format!("task.data={}", self.text("sums.jsonl"));
        let small = "sft.steps=3 sft.batch=4 rl.steps=0 rl.max_new_tokens=12 eval.n=99 checkpoint.every=2";
        let own = ["task.kind=dataset", &data].into_iter().chain(TINY_MODEL.iter().copied());
        own.chain(with(small, more)).map(str::to_owned).collect()
    }

    fn train(&self, run: &str, more: &[&str]) {
        let settings = self.settings(more);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        self.run_with(&format!("train --run {}", self.text(run)), &settings, "").output();
    }

    fn eval(&self, model: &str, out: &str, more: &[&str]) -> Done {
        let (model, out) = (self.text(model), self.text(out));
        let line = format!("eval --model {model} --out {out} --max-new-tokens 12 --threads 1");
        self.run_with(&line, more, "")
    }

    /// The problems of training, as training opens them.
    fn problems(&self, more: &[&str]) -> Problems {
        let config = Config::resolve("tiny", &self.settings(more)).unwrap();
        Problems::open(&config, &ModelTokenizer::tiny(), 4096, &mut |_| ()).unwrap()
    }
}

/// The most probable responses to problems as training encodes them, one by one.
fn responses(run: &Path, problems: &[Problem]) -> Vec<String> {
    let checkpoint = run::latest(run).unwrap().unwrap();
    let shape = model::ModelConfig::load(checkpoint.path()).unwrap();
    let model = Decoder::new(shape.clone(), weights::load(checkpoint.path(), &shape).unwrap()).unwrap();
    let tokens = ModelTokenizer::load(checkpoint.path()).unwrap();
    let sampling = SamplingParams::new(12, 0.0);
    let address = |_, _| Address::new(0, Purpose::Evaluation);
    let one = |problem: &Problem| {
        let prompt = problem.encode(&tokens).unwrap();
        let sampled = model
            .generate(&SamplingRequest::new(&[prompt.ids()], 1, tokens.eos(), sampling, &address))
            .unwrap();
        tokens.text(&sampled[0][0].tokens).unwrap()
    };
    problems.iter().map(one).collect()
}

/// Ids of the prompts that an evaluation recorded.
fn prompt_ids(place: &Place, benchmark: &str) -> Vec<Vec<u32>> {
    let problems: Vec<Value> = place.lines(&format!("{benchmark}/problems.jsonl"));
    let ids = |problem: &Value| {
        ModelTokenizer::tiny().prompt(problem["prompt"].as_str().unwrap()).unwrap().ids().to_vec()
    };
    problems.iter().map(ids).collect()
}

/// Whatever the template, a problem of training is asked with the ids that training gave it, from the run and from its checkpoint; and the
/// model answers as it does to these ids, which is not how it answers to others.
#[test]
fn the_prompts_of_an_evaluation_are_those_of_training() {
    let place = Place::new();
    let (jinja, system) =
        (format!("task.template={}", place.text("own.jinja")), format!("task.system={SYSTEM}"));
    let ways = [
        ("system", &[&jinja[..], &system][..]),
        ("line", &["task.template=line"]),
        ("r1", &["task.template=r1"]),
        ("jinja", &[&jinja]),
    ];
    let all = ["--with-trained", "--benchmarks", &place.text("sums.jsonl")];
    for (name, settings) in ways.into_iter().take(long::of(2, 4)) {
        let settings = [settings, &["sft.lr=0.05"]].concat();
        place.train(name, &settings);
        let problems = place.problems(&settings);
        let trained: Vec<Problem> = (0..65).map(|i| problems.problem(Stage::Sft, i).unwrap()).collect();
        for (model, out) in [(name.to_owned(), "run"), (format!("{name}/checkpoints/step-00000003"), "step")]
        {
            let out = format!("{name}-{out}");
            place.eval(&model, &out, &all).output();
            let asked: Vec<Value> = place.lines(&format!("{out}/sums/problems.jsonl"));
            let ids = prompt_ids(&place, &format!("{out}/sums"));
            let said: Vec<CompletionRecord> = place.lines(&format!("{out}/sums/completions.jsonl"));
            let expected = responses(&place.at(name), &trained);
            for (problem, response) in trained.iter().zip(expected) {
                let at = asked.iter().position(|a| a["problem"] == problem.canonical.as_str()).unwrap();
                assert_eq!(
                    ids[at],
                    problem.encode(&ModelTokenizer::tiny()).unwrap().ids(),
                    "{out}: {}",
                    asked[at]["prompt"]
                );
                assert!(response.starts_with(&said[at].text), "{out}: {response} and {}", said[at].text);
            }
            let plain = format!("{out}-no");
            place.eval(&model, &plain, &[&all[..], &["--template", "no"]].concat()).output();
            assert_ne!(prompt_ids(&place, &format!("{plain}/sums")), ids);
        }
    }
}

/// The template decides: the same model on the same problems is right or wrong by it, and without a word about it it is right.
#[test]
fn a_run_is_evaluated_on_what_it_held_out_and_as_well_as_training_found() {
    let place = Place::new();
    let settings =
        ["sft.steps=200", "sft.lr=0.005", "sft.batch=32", "task.template=line", "checkpoint.every=1000"];
    place.train("run", &settings);
    let done = place.eval("run", "out", &[]);
    let held_out = place.problems(&settings).distinct(Split::Test, 99).unwrap();
    let n = held_out.len();
    let reported = format!(
        "run:held-out: {n} problems of the held-out split of {}, of which training",
        place.text("run")
    );
    done.tells(&reported);
    done.says("run:held-out");
    let asked: Vec<Value> = place.lines("out/run-held-out/problems.jsonl");
    let problems: Vec<&str> = asked.iter().map(|problem| problem["problem"].as_str().unwrap()).collect();
    assert_eq!(problems, held_out.iter().map(|p| p.canonical.as_str()).collect::<Vec<_>>());
    assert!(asked.iter().all(|problem| !problem["golds"].as_array().unwrap().is_empty()));
    let said: Vec<CompletionRecord> = place.lines("out/run-held-out/completions.jsonl");
    assert_eq!(
        said.iter().map(|c| c.text.clone()).collect::<Vec<_>>(),
        responses(&place.at("run"), &held_out)
    );
    let found = place.json("out/summary.json")["benchmarks"][0]["accuracy"]["value"].as_f64().unwrap();
    assert_eq!(found, place.json("run/summary.json")["accuracy_after"].as_f64().unwrap());

    let on = |out: &str, more: &[&str]| {
        let all = place.text("sums.jsonl");
        place.eval("run", out, &[&["--with-trained", "--benchmarks", &all], more].concat()).output();
        place.json(&format!("{out}/summary.json"))["benchmarks"][0]["accuracy"]["value"].as_f64().unwrap()
    };
    let (trained, other) = (on("trained", &[]), on("other", &["--template", "r1"]));
    assert!(trained > 0.5 && other < 0.2, "{trained} as trained and {other} with another template");
    // Fewer are the first of them, as in training.
    place.eval("run", "few", &["--limit", "2", "--benchmarks", "run:held-out,tiny:addition"]).output();
    assert_eq!(place.lines::<Value>("few/run-held-out/problems.jsonl"), asked[..2]);
}

/// Answers are read where the run read them, unless another template or place is asked for.
#[test]
fn answers_are_read_where_training_read_them() {
    let place = Place::new();
    place.train("run", &["task.template=line", "task.extract=free"]);
    for (more, expected) in [
        (&[][..], "free"),
        (&["--template", "line"], "boxed"),
        (&["--template", "line", "--extract", "any"], "any"),
    ] {
        let out = format!("out-{}", more.len());
        place.eval("run", &out, &[&["--limit", "1"], more].concat()).output();
        let settings = place.read(&format!("{out}/eval.toml"));
        assert!(settings.contains(&format!("extract = \"{expected}\"")), "{more:?}: {settings}");
        std::fs::remove_dir_all(place.at(&out)).unwrap();
    }
}

/// The problems of training are left out of a file and counted, also those of a run that this one started from.
#[test]
fn problems_that_were_trained_on_are_left_out_unless_asked_for() {
    let place = Place::new();
    place.sums("mine.jsonl", 0..9);
    place.train("first", &["task.template=line"]);
    let problems = place.problems(&["task.template=line"]);
    let trained = problems.training().unwrap();
    let is_trained = |problem: &Value| trained.iter().any(|t| problem["problem"] == t.as_str());
    let all = place.text("sums.jsonl");
    let done = place.eval("first", "out", &["--benchmarks", &all]);
    let reported = format!(
        "sums: {} of 81 problems were trained on in {} (task.data = {all}) and are left out; --with-trained asks them too",
        trained.len(),
        place.text("first")
    );
    done.says(&reported);
    done.tells(&reported);
    let asked: Vec<Value> = place.lines("out/sums/problems.jsonl");
    assert_eq!(asked.len(), 81 - trained.len());
    assert!(!asked.iter().any(is_trained));
    assert!(place.read("out/report.html").contains("problems were trained on"));
    assert!(place.json("out/summary.json")["notes"].to_string().contains("were trained on"));
    place.eval("first", "both", &["--benchmarks", &all, "--with-trained"]).output();
    assert_eq!(place.lines::<Value>("both/sums/problems.jsonl").len(), 81);
    // Both numbers are said, and the second is that of the evaluation without them.
    let accuracy =
        |out: &str| place.json(out)["finding"].as_str().unwrap().split_once(": ").unwrap().1.to_owned();
    let without = accuracy("out/summary.json");
    let note = format!("sums: without the {} problems of training accuracy {without}", trained.len());
    assert!(place.json("both/summary.json")["notes"].to_string().contains(&note), "{note}");
    // A file of them alone is refused; those that are right to ask are named.
    let rows: String = place
        .read("sums.jsonl")
        .lines()
        .filter(|l| trained.iter().any(|t| l.contains(&format!("\"{t}\""))))
        .map(|l| format!("{l}\n"))
        .collect();
    place.write("seen.jsonl", rows);
    let seen = place.text("seen.jsonl");
    place
        .eval("first", "none", &["--benchmarks", &seen])
        .refused(2, "were trained on in … run:held-out … --with-trained");
    assert!(!place.at("none").exists());
    // The second run is on other rows; what the first one learned is no news to it.
    place.write("other.jsonl", "{\"question\":\"9+9=?\",\"answer\":\"18\"}\n");
    let second = format!(
        "train --run {} model.checkpoint={} task.data={} task.test={} task.kind=dataset task.template=line sft.steps=1 rl.steps=0 \
         rl.max_new_tokens=12 threads=1",
        place.text("second"),
        place.text("first/checkpoints/step-00000003"),
        place.text("other.jsonl"),
        place.text("mine.jsonl")
    );
    place.run(&second).output();
    let done = place.eval("second", "chain", &["--benchmarks", &all]);
    done.tells(&format!("sums: {} of 81 problems were trained on in", trained.len()));
    done.tells(&format!("other.jsonl) and  … {}", place.text("first")));
}

/// The held-out problems of a run are asked of a model from elsewhere as the run asks them, so that the two are compared in pairs.
#[test]
fn what_a_run_held_out_is_asked_of_any_model() {
    let place = Place::new();
    place.train("run", &["task.template=line"]);
    copy(&place.at("run/checkpoints/step-00000003"), &place.at("copy"));
    let held_out = format!("{}:held-out", place.text("run"));
    place.eval("copy", "base", &["--benchmarks", &held_out]).output();
    place.eval("run", "own", &[]).output();
    assert_eq!(place.read("base/run-held-out/problems.jsonl"), place.read("own/run-held-out/problems.jsonl"));
    assert_eq!(place.json("base/summary.json")["settings"]["template"], "line");
    let pair = place.run("compare base own");
    pair.says("B against A: no difference shown (+0.0 points, 95 % interval");
    let none = format!("{}:held-out", place.text("nowhere"));
    place.eval("copy", "none", &["--benchmarks", &none]).refused(2, "nowhere is no run of llm-train");
    // The problems that an evaluation wrote down are a benchmark themselves.
    let written = place.text("own/run-held-out/problems.jsonl");
    place.eval("copy", "again", &["--benchmarks", &written, "--template", "line"]).output();
    let golds =
        |name: &str| place.lines::<Value>(name).iter().map(|p| p["golds"].clone()).collect::<Vec<_>>();
    assert_eq!(golds("again/problems/problems.jsonl"), golds("own/run-held-out/problems.jsonl"));
}

/// What was asked, who said so, and where training did otherwise: on stderr, in the files and on the page.
#[test]
fn an_option_wins_over_the_run_and_both_are_reported() {
    let place = Place::new();
    let (jinja, system) = (place.text("own.jinja"), format!("task.system={SYSTEM}"));
    place.train("run", &[&format!("task.template={jinja}"), &system]);
    let config = place.text("run/config.toml");
    let mine = ["--with-trained", "--benchmarks", &place.text("mine.jsonl")];
    let in_training = format!(
        "where training asked with prompt template {jinja} with the system prompt \"{SYSTEM}\" ({config})"
    );
    for (out, more, template, system, from, reported) in [
        ("inherited", &[][..], jinja.as_str(), SYSTEM, format!("training: {config}"), None),
        ("named", &["--template", &jinja], &jinja, SYSTEM, "--template".to_owned(), None),
        (
            "other",
            &["--template", "line"],
            "line",
            "none",
            "--template".to_owned(),
            Some("asked with prompt template line (--template), ".to_owned()),
        ),
        (
            "paper",
            &["--protocol", "paper"],
            "qwen_math",
            "none",
            "--protocol paper".to_owned(),
            Some("asked with prompt template qwen_math (--protocol paper), ".to_owned()),
        ),
        (
            "system",
            &["--system", "Be brief."],
            &jinja,
            "Be brief.",
            format!("training: {config}"),
            Some(format!(
                "asked with prompt template {jinja} with the system prompt \"Be brief.\" (training: {config}), "
            )),
        ),
    ] {
        let done = place.eval("run", out, &[&mine[..], more].concat());
        done.output();
        let settings = &place.json(&format!("{out}/summary.json"))["settings"];
        for (key, value) in [("template", template), ("system", system), ("template_from", &from)] {
            assert_eq!(settings[key], value, "{out}: {key}");
            let line = format!("{key} = {}\n", toml::Value::from(value));
            assert!(place.read(&format!("{out}/eval.toml")).contains(&line), "{out}: {line}");
        }
        let page = place.read(&format!("{out}/report.html"));
        assert_has(&page, &format!("template from <b> … {}", template.rsplit('/').next().unwrap()));
        let lines: Vec<&str> =
            done.stderr.lines().filter(|line| line.contains("where training asked")).collect();
        let expected: Vec<String> = reported.into_iter().map(|reported| reported + &in_training).collect();
        assert_eq!(lines, expected, "{out}");
    }
    let texts: Vec<Value> = place.lines("system/mine/problems.jsonl");
    assert_eq!(texts[0]["prompt"], "s Be brief.\nu 0+0=?\n");
}

/// Who chose the template is no setting; which system prompt it has is one.
#[test]
fn an_evaluation_goes_on_under_the_same_template_whoever_chose_it() {
    let place = Place::new();
    let (jinja, system) = (place.text("own.jinja"), format!("task.system={SYSTEM}"));
    place.train("run", &[&format!("task.template={jinja}"), &system]);
    let mine = ["--benchmarks", &place.text("mine.jsonl")];
    place.eval("run", "inherited", &mine).output();
    place.eval("run", "inherited", &[&mine[..], &["--template", &jinja]].concat()).output();
    place
        .eval("run", "inherited", &[&mine[..], &["--system", "x"]].concat())
        .refused(2, &format!("system: … {SYSTEM} … -> \"x\""));
    place.eval("run", "other", &[&mine[..], &["--template", "line"]].concat()).output();
    place.run("compare other inherited").output();
}

/// A run on an embedded task learned on problems that end with a line break.
#[test]
fn a_run_on_an_embedded_task_is_asked_as_it_was_trained_too() {
    let place = Place::new();
    let sums = ["task.kind=addition", "sft.steps=2", "sft.batch=4", "rl.steps=0", "eval.n=2"];
    crate::common::train(&place.at("run"), &[&sums]).output();
    place.eval("run", "bare", &[]).says("tiny:addition");
    assert_eq!(place.json("bare/summary.json")["settings"]["template"], "no");
    place.eval("run", "mine", &["--benchmarks", &place.text("mine.jsonl")]).output();
    assert_eq!(place.json("mine/summary.json")["settings"]["template"], "line");
    let both =
        [place.lines::<Value>("bare/tiny-addition/problems.jsonl"), place.lines("mine/mine/problems.jsonl")];
    let prompt = |problems: &[Value]| {
        problems.iter().find(|p| p["prompt"].as_str().unwrap().starts_with("3+0")).unwrap()["prompt"].clone()
    };
    assert_eq!(prompt(&both[0]), prompt(&both[1]));
}

#[test]
fn what_cannot_be_inherited_is_refused_with_the_way_out() {
    let place = Place::new();
    place.train("run", &[&format!("task.template={}", place.text("own.jinja"))]);
    let (mine, config) = (place.text("mine.jsonl"), place.text("run/config.toml"));
    let refused = |model: &str, more: &[&str], expected: &str| {
        place.eval(model, "out", more).refused(2, expected);
        assert!(!place.at("out").exists(), "{more:?}");
    };
    // A copy of a checkpoint knows no run.
    copy(&place.at("run/checkpoints/step-00000003"), &place.at("copy"));
    refused(
        "copy",
        &["--benchmarks", "run:held-out"],
        "--benchmarks run:held-out … --model is from no such run",
    );
    refused(
        "run",
        &["--template", "line", "--system", "x"],
        "--system \"x\": template `line`: has no place for a system prompt",
    );
    // Rows that changed, and rows that went.
    let rows = place.read("sums.jsonl");
    place.sums("sums.jsonl", 1..81);
    refused("run", &[], "sums.jsonl … are not those that … checksum … --benchmarks");
    std::fs::remove_file(place.at("sums.jsonl")).unwrap();
    refused("run", &[], "held-out problems of … sums.jsonl: no such file … relative path … --benchmarks");
    place.eval("run", "named", &["--benchmarks", &mine]).output();
    place.write("sums.jsonl", rows);
    // A template that went.
    std::fs::remove_file(place.at("own.jinja")).unwrap();
    refused(
        "run",
        &["--benchmarks", &mine],
        &format!("{config} … task.template: template ` … own.jinja … --template"),
    );
    let done = place.eval("run", "instead", &["--benchmarks", &mine, "--template", "line"]);
    done.says("mine");
    done.tells("where training asked with");
}

#[test]
fn a_run_whose_configuration_cannot_be_read_is_evaluated_where_nothing_is_taken_from_it() {
    let place = Place::new();
    place.train("run", &[]);
    let mine = place.text("mine.jsonl");
    let refused = |more: &[&str], expected: &str| place.eval("run", "out", more).refused(2, expected);
    place.write("run/config.toml", "[task]\nkind = \"poems\"\n");
    let hint = "--template and --benchmarks together do without it";
    refused(&["--benchmarks", &mine], &format!("config.toml … poems … {hint}"));
    refused(&["--template", "line"], &format!("config.toml … poems … {hint}"));
    let done = place.eval("run", "without", &["--benchmarks", &mine, "--template", "line"]);
    done.says("mine");
    done.tells("warning: how the model was trained");
}

#[test]
fn generate_asks_a_run_as_it_was_trained() {
    let place = Place::new();
    let settings = ["task.template=r1", "sft.steps=60", "sft.lr=0.01", "checkpoint.every=1000"];
    place.train("run", &settings);
    let generate =
        |more: &[&str]| place.run_with("generate --model run --greedy --max-new-tokens 60", more, "");
    let problems = place.problems(&settings);
    let problem = problems.distinct(Split::Test, 1).unwrap().remove(0);
    let ids: Vec<u32> = problem.encode(&ModelTokenizer::tiny()).unwrap().ids().to_vec();
    place.write("ids.jsonl", serde_json::json!({ "ids": ids }).to_string());
    let asked = generate(&["--prompt", &problem.canonical]);
    let expected = generate(&["--prompts", &place.text("ids.jsonl")]);
    assert_eq!(asked.json(), expected.json());
    assert_eq!(asked.json(), generate(&["--task", "1"]).json());
    let reported = "texts are asked with prompt template r1, from training: ";
    assert!(asked.stderr.contains(reported) && !expected.stderr.contains(reported), "{}", asked.stderr);
    // The stop string of the template ends the response and belongs to it.
    let one = &asked.json()[0];
    assert!(one["text"].as_str().unwrap().ends_with("</answer>") && one["finish"] == "stop", "{one}");
    // As they stand.
    let plain = generate(&["--prompt", &problem.canonical, "--template", "no"]);
    plain.tells("where training asked with prompt template r1");
    assert_ne!(plain.json(), asked.json());
    let rendered = generate(&["--prompt", &problem.prompt, "--template", "no"]).json();
    let [whole, ended] = [&rendered[0], one].map(|answer| answer["text"].as_str().unwrap());
    assert!(whole.starts_with(ended), "{whole:?} and {ended:?}");
    // The problems of the run under another template.
    let other = generate(&["--task", "1", "--template", "line"]);
    other.tells(&format!("{}\nanswer: ", problem.canonical));
    generate(&["--prompt", "3", "--template", "lne"]).refused(2, "--template: template `lne` … `line`");
}
