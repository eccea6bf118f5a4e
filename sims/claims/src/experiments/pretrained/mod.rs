//! `pretrained`: RL of SmolLM2-135M-Instruct on small sums. Which estimators of credit learn faster, and how long do responses get?
//!
//! The runs are recorded: `llm/scripts/pretrained.py` makes them by `paper/protocols/pretrained.toml`, which was committed first, and this claim reads
//! their file. Nothing is concluded before every run of the methods that choose their own rate is there. A second protocol, `pretrained_rate.toml`,
//! compares methods at one rate.

mod shown;
#[cfg(test)]
mod tests;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::record::recorded;
use grpo_lambda_stats::{Interval, mean, t_interval};
use grpo_lambda_trials::{
    Comparison, Curve, Difference, End, Point, Rows, Stage, Study, Trial, Verdict, correct,
};
use serde::Deserialize;
use shown::{figures, findings, tables};
use std::collections::BTreeMap;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "pretrained",
    title: "With which methods does a pretrained model learn small sums faster, and how long do its responses get?",
    claim: "GRPO-λ as published is better than GRPO on a pretrained model",
    source: "Our question; its protocol, `paper/protocols/pretrained.toml`, was committed before the runs",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const PROTOCOL: &str = include_str!("../../../../../paper/protocols/pretrained.toml");
const RUNS: &str = include_str!("../../../../../paper/data/pretrained_runs.csv");
/// The protocol of a control and the runs that it adds, those of GRPO at the rate of the others.
const RATE_PROTOCOL: &str = include_str!("../../../../../paper/protocols/pretrained_rate.toml");
const RATE_RUNS: &str = include_str!("../../../../../paper/data/pretrained_rate_runs.csv");

/// The methods of the protocol that findings name.
const GRPO: &str = "grpo";
const CLAMP: &str = "grpo_clamp";
const PAPER: &str = "grpo_lambda";
const TRACE: &str = "trace";
const RLOO: &str = "rloo";

/// The part of the protocol's setup that judges.
#[derive(Clone, Debug, Deserialize)]
struct Setup {
    /// Methods that take the rate of another.
    rates_of: BTreeMap<String, String>,
}

/// A run as `llm/scripts/pretrained.py` writes it: a [`Trial`], and what the second reader and the second endpoint need.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    stage: Stage,
    method: String,
    rate: f64,
    seed: u64,
    ended: End,
    steps: u64,
    tokens: u64,
    /// Mean length of the responses sampled between the last two exams.
    length: Option<f64>,
    start_steps: u64,
    seconds: f64,
    curve: Curve,
    /// The curve by the last number of a response that ended by itself.
    read_curve: Curve,
    #[allow(dead_code)] // for readers of the file: mean length of the answers of each exam
    lengths: String,
    /// The problems that each exam solved, by the reward and by the other reader: a bit a problem in hexadecimal digits.
    right: String,
    #[allow(dead_code)] // for readers of the file
    read: String,
}

impl Run {
    /// The run with one of its curves.
    fn trial(&self, curve: &Curve) -> Trial {
        Trial {
            stage: self.stage,
            method: self.method.clone(),
            rate: self.rate,
            seed: self.seed,
            ended: self.ended,
            steps: self.steps,
            tokens: self.tokens,
            length: self.length.unwrap_or_default(),
            start_steps: self.start_steps,
            seconds: self.seconds,
            curve: curve.clone(),
            ..Trial::default()
        }
    }

    /// The mean over the budget of each problem's answers, 1 where right.
    fn by_problem(&self, budget: f64) -> Option<Vec<f64>> {
        let exams: Vec<Vec<bool>> = self.right.split(' ').map(bits).collect::<Option<_>>()?;
        let of_problem = |k: usize| {
            let at = |(point, exam): (&Point, &Vec<bool>)| {
                Some(Point { accuracy: f64::from(*exam.get(k)?), ..*point })
            };
            let curve = Curve(self.curve.0.iter().zip(&exams).map(at).collect::<Option<_>>()?);
            self.trial(&curve).score(budget)
        };
        (0..PROBLEMS).map(of_problem).collect()
    }
}

/// The number of held-out problems.
const PROBLEMS: usize = 98;

/// A bit a problem: the last [`PROBLEMS`] of hexadecimal digits; none where there are fewer.
fn bits(digits: &str) -> Option<Vec<bool>> {
    let values: Vec<u32> = digits.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let all: Vec<bool> = values.iter().flat_map(|value| [8, 4, 2, 1].map(|bit| value & bit != 0)).collect();
    Some(all[all.len().checked_sub(PROBLEMS)?..].to_vec())
}

/// A comparison of the protocol with its runs.
#[derive(Clone, Debug)]
struct Compared {
    pair: Comparison,
    difference: Difference,
    /// The difference by the second reader.
    read: Interval,
    /// The interval of the same mean over problems.
    over_problems: Interval,
}

impl Compared {
    /// The verdict by the reward; an effect of the other sign by the second reader is none.
    fn effect(&self, margin: f64) -> Verdict {
        match self.difference.verdict(margin) {
            Verdict::Higher if self.read.mid <= 0.0 => Verdict::Inconclusive,
            Verdict::Lower if self.read.mid >= 0.0 => Verdict::Inconclusive,
            verdict => verdict,
        }
    }

    /// True if the reward shows an effect that the second reader does not.
    fn is_contradicted(&self, margin: f64) -> bool {
        self.effect(margin) != self.difference.verdict(margin)
    }
}

/// A method with its evaluation runs.
#[derive(Clone, Debug)]
struct Evaluated {
    name: String,
    label: String,
    rate: f64,
    /// The accuracy over the budget, by seed, and its interval.
    scores: Vec<f64>,
    accuracy: Interval,
    /// Accuracy at the last exam minus that at the first, then the same by the second reader.
    gains: [Interval; 2],
    /// The length at the end, by seed; none if a run ended before its first exam.
    lengths: Option<Vec<f64>>,
}

/// The protocol with what its rows give; methods and comparisons are empty until every run of the methods with a rate of their own is there.
struct Numbers {
    study: Study<Setup>,
    methods: Vec<Evaluated>,
    compared: Vec<Compared>,
}

impl Numbers {
    fn pair(&self, method: &str, with: &str) -> Option<&Compared> {
        self.compared.iter().find(|c| c.pair.method == method && c.pair.with == with)
    }

    /// The difference of the length at the end.
    fn length(&self, method: &str, with: &str) -> Option<Interval> {
        let lengths = |name: &str| self.methods.iter().find(|m| m.name == name)?.lengths.as_deref();
        t_interval(&minus(lengths(method)?, lengths(with)?), self.study.level)
    }
}

/// The methods at the rates that they chose, and at one rate.
struct Rates {
    chosen: Numbers,
    one: Numbers,
}

impl Rates {
    /// GRPO at the rate of the others minus GRPO at its own.
    fn of_grpo(&self) -> Option<Interval> {
        let scores = |n: &'_ Numbers| Some(n.methods.iter().find(|m| m.name == GRPO)?.scores.clone());
        t_interval(&minus(&scores(&self.one)?, &scores(&self.chosen)?), self.one.study.level)
    }
}

fn measure(_: &Context) -> anyhow::Result<Rates> {
    let (runs, added): (Vec<Run>, Vec<Run>) = (recorded(RUNS)?, recorded(RATE_RUNS)?);
    let one = judged(RATE_PROTOCOL, added.into_iter().chain(runs.clone()).collect())?;
    Ok(Rates { chosen: judged(PROTOCOL, runs)?, one })
}

/// Runs at the rates of a protocol, read by it.
fn judged(protocol: &str, mut runs: Vec<Run>) -> anyhow::Result<Numbers> {
    let study: Study<Setup> = Study::read(protocol)?;
    runs.retain(|run| study.rates.contains(&run.rate));
    let mut methods: Vec<Evaluated> =
        study.methods.iter().filter_map(|method| evaluated(&study, &runs, &method.name)).collect();
    let is_there = |name: &str| methods.iter().any(|method| method.name == name);
    let mut own = study.methods.iter().filter(|method| !study.setup.rates_of.contains_key(&method.name));
    let is_complete = own.all(|method| is_there(&method.name));
    let pairs = study.comparisons.iter().filter(|_| is_complete);
    let mut compared: Vec<Compared> = pairs.filter_map(|pair| comparison(&study, &runs, pair)).collect();
    correct(compared.iter_mut().map(|c| &mut c.difference), study.comparisons.len());
    methods.retain(|_| is_complete);
    Ok(Numbers { study, methods, compared })
}

/// The evaluation runs of a method in the order of the seeds, once all are there.
fn of_method<'a>(study: &Study<Setup>, runs: &'a [Run], method: &str) -> Option<Vec<&'a Run>> {
    let own = |seed| move |r: &&Run| r.stage == Stage::Evaluation && r.method == method && r.seed == seed;
    study.seeds.evaluation.iter().map(|seed| runs.iter().find(own(*seed))).collect()
}

fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn evaluated(study: &Study<Setup>, runs: &[Run], name: &str) -> Option<Evaluated> {
    let own = of_method(study, runs, name)?;
    let score = |run: &&Run| run.trial(&run.curve).score(study.budget);
    let scores: Vec<f64> = own.iter().map(score).collect::<Option<_>>()?;
    let gain = |curve: fn(&Run) -> &Curve| {
        let of_run = |run: &&Run| Some(curve(run).0.last()?.accuracy - curve(run).0.first()?.accuracy);
        t_interval(&own.iter().map(of_run).collect::<Option<Vec<_>>>()?, study.level)
    };
    Some(Evaluated {
        name: name.to_owned(),
        label: study.methods.iter().find(|method| method.name == name)?.label.clone(),
        rate: own.first()?.rate,
        accuracy: t_interval(&scores, study.level)?,
        scores,
        gains: [gain(|run| &run.curve)?, gain(|run| &run.read_curve)?],
        lengths: own.iter().map(|run| run.length).collect(),
    })
}

fn comparison(study: &Study<Setup>, runs: &[Run], pair: &Comparison) -> Option<Compared> {
    let by = |curve: fn(&Run) -> &Curve| {
        let trials: Vec<Trial> = runs.iter().map(|run| run.trial(curve(run))).collect();
        Rows { study, trials: &trials }.difference(pair)
    };
    let sides = [of_method(study, runs, &pair.method)?, of_method(study, runs, &pair.with)?];
    let problems = |runs: &[&Run]| -> Option<Vec<f64>> {
        let each: Vec<Vec<f64>> =
            runs.iter().map(|run| run.by_problem(study.budget)).collect::<Option<_>>()?;
        let of_problem = |k: usize| mean(&each.iter().map(|of_run| of_run[k]).collect::<Vec<_>>());
        (0..PROBLEMS).map(of_problem).collect()
    };
    let over_problems = minus(&problems(&sides[0])?, &problems(&sides[1])?);
    Some(Compared {
        pair: pair.clone(),
        difference: by(|run| &run.curve)?,
        read: by(|run| &run.read_curve)?.interval,
        over_problems: t_interval(&over_problems, study.level)?,
    })
}
