//! `addition`: methods on a transformer that learns single-digit addition, each at the learning rate that other seeds choose.
//!
//! The runs are recorded, and this claim reads their files. Each file of `paper/protocols` was written before its runs. It names their program and says
//! what is measured, at which rates, on which seeds, and when an effect counts as shown.

mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::record::recorded;
use crate::experiments::common::{distinct, mean};
use anyhow::Context as _;
use grpo_lambda_stats::{Interval, t_interval};
use grpo_lambda_trials::{Difference, Verdict as Effect};
use serde::Deserialize;
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "addition",
    title: "What do systematic groups, the trace and the clamp change for a transformer that learns addition, each \
        at its best rate?",
    claim: "Systematic groups have 0.65 to 0.8 of RLOO's variance on a transformer, as predicted before the runs",
    source: "Our question; its protocols are in `paper/protocols`",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// The recorded runs of a protocol.
struct Source {
    name: &'static str,
    protocol: &'static str,
    runs: &'static str,
}

/// The protocols; their places below.
const SOURCES: [Source; 3] = [
    Source {
        name: "systematic groups",
        protocol: include_str!("../../../../../paper/protocols/systematic.toml"),
        runs: include_str!("../../../../../paper/data/addition_systematic_runs.csv"),
    },
    Source {
        name: "long budget",
        protocol: include_str!("../../../../../paper/protocols/long_budget.toml"),
        runs: include_str!("../../../../../paper/data/addition_long_budget_runs.csv"),
    },
    Source {
        name: "divergence",
        protocol: include_str!("../../../../../paper/protocols/kl.toml"),
        runs: include_str!("../../../../../paper/data/addition_kl_runs.csv"),
    },
];
const SYSTEMATIC: usize = 0;
const LONG: usize = 1;
const KL: usize = 2;

/// The variance of one group's gradient over RLOO's, by seed, weights and method.
const VARIANCE: &str = include_str!("../../../../../paper/data/addition_systematic_variance.csv");
/// The confidence at which the fourteen measurements of the variance, seven methods at two places, hold together with 95 %.
const VARIANCE_LEVEL: f64 = 1.0 - 0.05 / 14.0;

/// The parts of a protocol that this claim reads.
#[derive(Clone, Debug, Deserialize)]
struct Protocol {
    rates: Vec<f64>,
    evaluation: Vec<u64>,
    measure: Measure,
    margin: f64,
    level: f64,
    arms: Vec<ArmName>,
}

#[derive(Clone, Debug, Deserialize)]
struct ArmName {
    method: String,
    #[serde(default)]
    settings: String,
}

/// The number of a run that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Measure {
    Learning,
    Accuracy,
    LogKl,
}

impl Measure {
    fn words(self) -> &'static str {
        match self {
            Measure::Learning => "mean reward of a token sampled in training",
            Measure::Accuracy => "share of the problems solved greedily at the end",
            Measure::LogKl => "logarithm of the divergence from the start at the end",
        }
    }
}

/// An arm whose evaluation runs are all there.
#[derive(Clone, Debug)]
struct Arm {
    name: String,
    rate: f64,
    /// True if the chosen rate is the first or last of several.
    is_at_end: bool,
    /// The measure of every seed, in order, and its mean.
    values: Vec<f64>,
    mean: f64,
    /// The difference from the first arm; none for that arm.
    over_first: Option<Difference>,
}

impl Protocol {
    /// The difference of two arms, from their values by seed.
    fn difference(&self, values: &[f64], reference: &[f64]) -> Option<Difference> {
        Difference::new(values, reference, self.level)
    }

    /// True differences exclude 0 by interval and sign flips; an interval within the margin is equality.
    fn effect(&self, d: &Difference) -> Effect {
        let i = d.interval;
        let is_shown = d.p <= 1.0 - self.level && (i.low > 0.0 || i.high < 0.0);
        match (i.low.abs().max(i.high.abs()) <= self.margin, is_shown) {
            (true, _) => Effect::Equivalent,
            (false, true) if i.mid > 0.0 => Effect::Higher,
            (false, true) => Effect::Lower,
            (false, false) => Effect::Inconclusive,
        }
    }
}

impl Arm {
    /// The effect relative to the first arm.
    fn effect(&self, protocol: &Protocol) -> Option<Effect> {
        Some(protocol.effect(self.over_first.as_ref()?))
    }
}

/// A protocol with its arms; those without all their runs are left out.
#[derive(Clone, Debug)]
struct Trial {
    name: &'static str,
    protocol: Protocol,
    arms: Vec<Arm>,
}

impl Trial {
    fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }
}

/// A method's share of RLOO's variance at the start and after RL with RLOO.
struct Share {
    method: String,
    start: Interval,
    after_rl: Interval,
}

struct Numbers {
    trials: Vec<Trial>,
    shares: Vec<Share>,
}

fn measure(_: &Context) -> anyhow::Result<Numbers> {
    let trials = SOURCES.iter().map(|source| trial(source).context(source.name));
    Ok(Numbers { trials: trials.collect::<anyhow::Result<_>>()?, shares: shares(VARIANCE)? })
}

fn trial(source: &Source) -> anyhow::Result<Trial> {
    let protocol: Protocol = toml::from_str(source.protocol)?;
    let runs: Vec<Run> = recorded(source.runs)?;
    let mut arms: Vec<Arm> = Vec::new();
    for named in &protocol.arms {
        let name = format!("{} {}", named.method, named.settings).trim().to_owned();
        // Every comparison is with the first arm.
        let Some((rate, values)) = evaluated(&protocol, &runs, &name)? else {
            if arms.is_empty() {
                break;
            }
            continue;
        };
        let over_first = arms.first().and_then(|first| protocol.difference(&values, &first.values));
        let ends = [
            protocol.rates.iter().copied().reduce(f64::min),
            protocol.rates.iter().copied().reduce(f64::max),
        ];
        let is_at_end = protocol.rates.len() > 1 && ends.contains(&Some(rate));
        arms.push(Arm { name, rate, is_at_end, mean: mean(&values), values, over_first });
    }
    Ok(Trial { name: source.name, protocol, arms })
}

/// A run of a protocol; it has the number that the protocol measures.
#[derive(Deserialize)]
struct Run {
    arm: String,
    rate: f64,
    seed: u64,
    learning: Option<f64>,
    accuracy: Option<f64>,
    kl: Option<f64>,
}

/// The rate of an arm's evaluation runs and its measure on their seeds; none before all are there.
fn evaluated(protocol: &Protocol, runs: &[Run], arm: &str) -> anyhow::Result<Option<(f64, Vec<f64>)>> {
    let (mut rate, mut values) = (f64::NAN, Vec::new());
    for seed in &protocol.evaluation {
        for run in runs.iter().filter(|run| run.arm == arm && run.seed == *seed) {
            rate = run.rate;
            let value = match protocol.measure {
                Measure::Learning => run.learning,
                Measure::Accuracy => run.accuracy,
                Measure::LogKl => run.kl.map(f64::ln),
            };
            values.push(value.with_context(|| format!("{arm}, seed {seed}: no number of the measure"))?);
        }
    }
    Ok((values.len() == protocol.evaluation.len()).then_some((rate, values)))
}

fn shares(text: &str) -> anyhow::Result<Vec<Share>> {
    #[derive(Deserialize)]
    struct Row {
        method: String,
        weights: String,
        over_rloo: f64,
    }
    let rows: Vec<Row> = recorded(text)?;
    let methods = distinct(rows.iter().map(|row| row.method.as_str()).filter(|method| *method != "rloo"));
    let over = |method: &str, weights: &str| {
        let own = rows.iter().filter(|row| row.method == method && row.weights == weights);
        t_interval(&own.map(|row| row.over_rloo).collect::<Vec<_>>(), VARIANCE_LEVEL)
            .with_context(|| format!("{method}, {weights}: fewer than two rows"))
    };
    let share = |method: &str| {
        let (start, after_rl) = (over(method, "start")?, over(method, "after RL")?);
        Ok(Share { method: method.to_owned(), start, after_rl })
    };
    methods.into_iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOCOL: &str = "rates = [0.1, 0.2, 0.4]\nevaluation = [1, 2, 3, 4, 5, 6]\nmeasure = \"accuracy\"\nmargin = 0.05\nlevel = 0.95\n\
                            [[arms]]\nmethod = \"rloo\"\n[[arms]]\nmethod = \"x\"\nsettings = \"a=1\"\n";

    /// Runs of two arms whose difference is `gain`, with a noise of ±0.01, and a run of selection that does not count.
    fn runs(gain: f64, seeds: u32) -> String {
        let of_seed = |seed: u32| {
            let noise = if seed.is_multiple_of(2) { 0.01 } else { -0.01 };
            format!("rloo,0.2,{seed},0.5\nx a=1,0.4,{seed},{}\n", 0.5 + gain + noise)
        };
        format!(
            "# c\narm,rate,seed,accuracy\nrloo,0.1,100,0.9\n{}",
            (1..=seeds).map(of_seed).collect::<String>()
        )
    }

    fn read(runs: &str) -> Trial {
        let text: &'static str = Box::leak(runs.to_owned().into_boxed_str());
        trial(&Source { name: "made up", protocol: PROTOCOL, runs: text }).unwrap()
    }

    #[test]
    fn readings_follow_the_protocol() {
        for (gain, effect) in
            [(0.2, Effect::Higher), (-0.2, Effect::Lower), (0.0, Effect::Equivalent), (0.045, Effect::Higher)]
        {
            let found = read(&runs(gain, 6));
            assert_eq!(found.arms[1].effect(&found.protocol), Some(effect), "{gain}");
            assert_eq!(
                (found.arms[0].is_at_end, found.arms[1].is_at_end, found.arms[0].mean),
                (false, true, 0.5)
            );
        }
        let wide = Trial {
            protocol: Protocol { margin: 0.001, ..read(&runs(0.0, 6)).protocol },
            ..read(&runs(0.0, 6))
        };
        assert_eq!(wide.arms[1].effect(&wide.protocol), Some(Effect::Inconclusive));
    }

    #[test]
    fn an_arm_without_all_its_runs_is_left_out_and_all_are_without_the_first() {
        let text = runs(0.1, 6);
        assert_eq!(read(&text.replace("x a=1,0.4,6", "x a=1,0.4,7")).arms.len(), 1);
        assert!(read(&text.replace("rloo,0.2,6", "rloo,0.2,7")).arms.is_empty());
    }
}
