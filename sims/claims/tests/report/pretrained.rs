//! The rows of `pretrained` against their protocol, by other code than the claim's: which runs there are, at which rates, what their exams say, and, once
//! all are there, the numbers of its tables.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::trials::{Compared, T_OF_12, area};
use crate::{committed, root, rows};
use grpo_lambda_trials::Curve;
use serde::Deserialize;

#[derive(Deserialize)]
struct Run {
    stage: String,
    method: String,
    rate: f64,
    seed: u64,
    ended: String,
    steps: u64,
    tokens: f64,
    curve: Curve,
    read_curve: Curve,
    right: String,
    read: String,
}

fn protocol(file: &str) -> toml::Table {
    std::fs::read_to_string(root().join("paper/protocols").join(file)).unwrap().parse().unwrap()
}

fn runs() -> Vec<Run> {
    committed("pretrained_runs.csv").to_rows().unwrap()
}

fn numbers(table: &toml::Table, key: &str) -> Vec<f64> {
    let all = table[key].as_array().unwrap().iter();
    all.map(|x| x.as_float().or(x.as_integer().map(|x| x as f64)).unwrap()).collect()
}

#[test]
fn runs_are_those_of_the_protocol_in_its_order() {
    let protocol = protocol("pretrained.toml");
    let (budget, rates) = (protocol["budget"].as_integer().unwrap() as f64, numbers(&protocol, "rates"));
    let seeds = protocol["seeds"].as_table().unwrap();
    let names: Vec<&str> =
        protocol["methods"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    let (own, others) = names.split_at(5);
    let runs = runs();
    let selection = numbers(seeds, "selection").into_iter();
    let mut wanted: Vec<(&str, &str, Option<f64>, f64)> = selection
        .flat_map(|seed| rates.iter().map(move |rate| (seed, *rate)))
        .flat_map(|(seed, rate)| own.iter().map(move |name| ("selection", *name, Some(rate), seed)))
        .collect();
    for group in [own, others] {
        let seeds = numbers(seeds, "evaluation").into_iter();
        wanted.extend(seeds.flat_map(|seed| group.iter().map(move |name| ("evaluation", *name, None, seed))));
    }
    assert_eq!(wanted.len(), 114);
    // A run that failed is made later; the others keep the order.
    let mut wanted = wanted.into_iter();
    for run in &runs {
        let is_own = |(stage, method, rate, seed): &(&str, &str, Option<f64>, f64)| {
            (run.stage.as_str(), run.method.as_str(), run.seed as f64) == (*stage, *method, *seed)
                && rate.is_none_or(|rate| rate == run.rate)
        };
        let (_, method, rate, seed) = wanted.find(is_own).expect("a run of the protocol, in its order");
        let chosen = || {
            let source = match method {
                "dr_grpo" => "grpo",
                "systematic_rloo" => "rloo",
                own => own,
            };
            let score = |rate: f64| -> f64 {
                let own =
                    runs.iter().filter(|r| r.stage == "selection" && r.method == source && r.rate == rate);
                own.map(|r| area(&r.curve, budget)).sum()
            };
            rates.iter().copied().max_by(|a, b| score(*a).total_cmp(&score(*b))).unwrap()
        };
        assert_eq!(run.rate, rate.unwrap_or_else(chosen), "{method} {seed}");
        // A run ends with the first exam at or beyond the budget, six steps after the one before, unless its numbers are not finite.
        let exams = &run.curve.0;
        let before = exams.iter().filter(|exam| exam.tokens < budget).count();
        let whole = usize::from(run.ended == "budget");
        assert!(["budget", "not_finite"].contains(&run.ended.as_str()), "{method} {seed}");
        assert_eq!(
            (exams.len(), run.steps),
            (before + whole, 6 * (exams.len() as u64 - 1)),
            "{method} {seed}"
        );
        assert!(exams[exams.len() - 1].tokens == run.tokens);
        for (curve, marks) in [(&run.curve, &run.right), (&run.read_curve, &run.read)] {
            let solved = marks.split(' ').map(|exam| u128::from_str_radix(exam, 16).unwrap());
            let counted: Vec<f64> = solved.map(|exam| f64::from(exam.count_ones()) / 98.0).collect();
            let shown: Vec<f64> = curve.0.iter().map(|point| point.accuracy).collect();
            assert_eq!(counted.len(), shown.len(), "{method} {seed}");
            assert!(counted.iter().zip(&shown).all(|(a, b)| (a - b).abs() < 6e-5), "{method} {seed}");
        }
    }
}

/// The scores of a method's evaluation runs, in the order of the seeds.
fn scores(runs: &[&Run], name: &str, curve: fn(&Run) -> &Curve) -> Vec<f64> {
    let mut own: Vec<&&Run> =
        runs.iter().filter(|run| run.stage == "evaluation" && run.method == name).collect();
    own.sort_by_key(|run| run.seed);
    own.into_iter().map(|run| area(curve(run), 20_000.0)).collect()
}

/// Checks every number of a file of comparisons against the rows, and its verdict, which an effect of the other sign by the second reader takes away.
fn check(file: &str, protocol: &toml::Table, runs: &[&Run]) {
    let compared: Vec<Compared> = rows(file);
    // Comparisons without runs yet count in the family with p = 1.
    let mut family: Vec<f64> = compared.iter().map(|row| row.p).collect();
    family.resize(protocol["comparisons"].as_array().unwrap().len(), 1.0);
    for row in compared {
        let minus = |curve: fn(&Run) -> &Curve| -> Vec<f64> {
            let [own, with] = [&row.method, &row.with].map(|name| scores(runs, name, curve));
            own.iter().zip(&with).map(|(a, b)| a - b).collect()
        };
        let values = minus(|run| &run.curve);
        assert_eq!(values.len(), 12);
        row.check(&values, T_OF_12, None);
        let read = minus(|run| &run.read_curve).iter().sum::<f64>();
        let verdict = match row.corrected_verdict(&family, protocol["margin"].as_float().unwrap()) {
            "higher" if read <= 0.0 => "inconclusive",
            "lower" if read >= 0.0 => "inconclusive",
            verdict => verdict,
        };
        assert_eq!(row.verdict, verdict, "{}", row.name());
    }
}

#[test]
fn comparisons_are_those_of_the_rows() {
    let runs = runs();
    check("pretrained_compared.csv", &protocol("pretrained.toml"), &runs.iter().collect::<Vec<_>>());
}

/// The runs of the control begin as those with which they are compared, and the front page has its numbers.
#[test]
fn the_control_compares_at_one_rate() {
    let (runs, added): (Vec<Run>, Vec<Run>) = (runs(), rows("pretrained_rate_runs.csv"));
    let protocol = protocol("pretrained_rate.toml");
    let seeds: Vec<f64> = added.iter().map(|run| run.seed as f64).collect();
    assert_eq!(seeds, numbers(protocol["seeds"].as_table().unwrap(), "evaluation"));
    for run in &added {
        assert_eq!((run.stage.as_str(), run.method.as_str(), run.rate), ("evaluation", "grpo", 1e-5));
        let others = runs.iter().filter(|other| other.stage == "evaluation" && other.seed == run.seed);
        let first =
            |run: &Run| [&run.right, &run.read].map(|marks| marks.split(' ').next().map(str::to_owned));
        let starts: Vec<_> = others.map(first).collect();
        assert!(starts.len() >= 5 && starts.iter().all(|start| *start == first(run)), "{}", run.seed);
    }
    let at_one_rate: Vec<&Run> = runs.iter().filter(|run| run.rate == 1e-5).chain(&added).collect();
    check("pretrained_one_rate.csv", &protocol, &at_one_rate);
    let mean = |runs: &[&Run], name: &str| scores(runs, name, |run| &run.curve).iter().sum::<f64>() / 12.0;
    let minus_grpo = |runs: &[&Run], name: &str| format!("{:+.3}", mean(runs, name) - mean(runs, "grpo"));
    let [clamp, trace] = ["grpo_clamp", "trace"].map(|name| minus_grpo(&at_one_rate, name));
    let both = minus_grpo(&runs.iter().collect::<Vec<_>>(), "grpo_lambda");
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let line = format!("| sums, SmolLM2-135M | {clamp} (equivalent) | {trace} | {both} |");
    assert!(page.contains(&line), "README.md: {line}");
}

/// Two exams of four problems, read by hand: the second response was cut off, so that only the reward reads it.
#[test]
fn a_run_directory_becomes_the_row_that_it_says() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("runs/selection-grpo-5e-06-330");
    std::fs::create_dir_all(&run).unwrap();
    let exam = |step: u64, answers: [(&str, &str, &str); 4]| {
        let line = |(verdict, finish, text): (&str, &str, &str)| {
            format!(
                r#"{{"step":{step},"of":4,"problem":{{"problem":"p","golds":["22"]}},"completion":{{"verdict":"{verdict}","finish":"{finish}","tokens":10,"text":"{text}"}}}}"#
            ) + "\n"
        };
        std::fs::write(run.join(format!("exam-{step}.jsonl")), answers.map(line).concat()).unwrap();
    };
    let wrong = ("wrong", "eos", "17 + 5 = 23");
    exam(0, [wrong, ("right", "length", "17 + 5 = 22, which"), wrong, wrong]);
    exam(
        6,
        [
            ("right", "eos", "It is 22."),
            ("right", "length", "17 + 5 = 22 and"),
            wrong,
            ("right", "eos", "17 and 5\\n22"),
        ],
    );
    let step =
        |k: u64| format!("{{\"step\":{k},\"stage\":\"rl\",\"tokens\":100.0,\"length\":{}.5}}\n", 10 + k);
    std::fs::write(run.join("metrics.jsonl"), (0..8).map(step).collect::<String>()).unwrap();
    std::fs::write(run.join("done.json"), r#"{"ended":"budget","exams":[0,6],"cpu_seconds":12.34}"#).unwrap();
    let script = root().join("llm/scripts/pretrained.py");
    let out = place.path().join("rows.csv");
    let protocol = root().join("paper/protocols/pretrained.toml");
    let python = std::process::Command::new("python3")
        .arg(script)
        .arg("rows")
        .arg(protocol)
        .arg(place.path())
        .arg(&out)
        .output();
    let Ok(python) = python else { return println!("no python3 here: the script is not run") };
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let text = std::fs::read_to_string(out).unwrap();
    // Six steps of 100 tokens before the second exam, of lengths 10.5 to 15.5.
    let row = "selection,grpo,5e-06,330,budget,6,600,13.0,10,12.3,0:0.2500 600:0.7500,0:0.0000 600:0.5000,0:10.00 600:10.00,4 d,0 9";
    assert_eq!(text.lines().last(), Some(row), "{text}");
}
