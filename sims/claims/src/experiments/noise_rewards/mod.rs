//! `noise_rewards`: a trace with clamped advantages on a transformer whose rewards are random, 0 or 1 with equal probability.
//!
//! The runs are recorded, and this claim reads their file; `paper/protocols/noise.toml` names the program that trains them.
//! With `u` the update of a step of plain gradient descent at rate `lr` the expected length changes by
//!
//! ```text
//! lr <E[u], ∇E[T]>,    E[u] = ā g_λ / E[T],    g_λ = E[ Σ_k c_k(T) ∇log π_k ],    g_1 = ∇E[T]          (token mean; N of `length_bonus`)
//! ```
//! to first order. `g_λ` and `∇E[T]` are estimated at the start weights of each seed, from batches that are independent of each other.

mod findings;
mod shown;

use crate::endpoints;
use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::record::recorded;
use crate::experiments::common::{average, extremes, grouped, mean};
use findings::findings;
use grpo_lambda::advantage::ClampPart;
use grpo_lambda_stats::{Interval, t_interval};
use serde::Deserialize;
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "noise_rewards",
    title: "Do random rewards lengthen the responses of a small transformer?",
    claim: "With rewards that are independent of the response only a trace with clamped advantages lengthens responses",
    source: "Our question: does the result of `length_bonus` hold on a transformer?",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const RUNS: &str = include_str!("../../../../../paper/data/noise_rewards_runs.csv");

/// The clamp of the paper.
const CLAMP: f64 = -0.1;
/// The reduction of the paper, as the runs name it.
const TOKEN_MEAN: &str = "token mean";

/// The clamp from above, as the runs name it.
const UPPER: &str = "upper clamp";

/// True for the settings of the first trial.
fn of_trace(reduction: &str, part: &str, clamp: f64) -> bool {
    reduction == TOKEN_MEAN && part != ClampPart::Offset.name() && clamp < 0.0
}

/// All seeds of one setting.
#[derive(Clone, Debug)]
struct Arm {
    optimiser: String,
    lambda: f64,
    /// The parts of the clamp that are on; a name of [`ClampPart`].
    part: String,
    clamp: f64,
    /// The weight of a response's tokens, in words.
    reduction: String,
    /// `ā`: the mean advantage.
    mean_advantage: f64,
    /// Change of the mean length over the run, in tokens: mean over seeds, Student's t interval at 95 %.
    change: Interval,
    /// The prediction at the start weights, the excess over it (the change minus that of the same random rewards without a clamp, minus the
    /// prediction, seed by seed), and the excess at the level of `together`; plain gradient descent only.
    predicted: Option<[Interval; 3]>,
    /// The interval of the change at a level at which, with 95 %, those of all settings hold together (Bonferroni).
    together: Interval,
    /// Mean norm of the gradient.
    grad_norm: f64,
}

impl Arm {
    /// True if the clamp is on and its offset left in.
    fn pays(&self) -> bool {
        self.part == ClampPart::Both.name()
    }

    /// True for a setting of the first trial, a trace with parts of a clamp under the paper's reduction; the others are of the length law.
    fn of_trace(&self) -> bool {
        of_trace(&self.reduction, &self.part, self.clamp)
    }

    /// True for plain gradient descent, the optimiser of the theorem.
    fn plain(&self) -> bool {
        self.optimiser == "SGD"
    }

    fn lengthens(&self) -> bool {
        self.together.low > 0.0
    }

    fn shortens(&self) -> bool {
        self.together.high < 0.0
    }

    fn name(&self) -> String {
        let clamp = match self.part.as_str() {
            "none" => "no clamp".to_owned(),
            "both (the clamp)" if self.clamp == 0.0 => "positive advantages only".to_owned(),
            UPPER => "negative advantages only".to_owned(),
            "offset only" => format!("the offset of clamp {} alone", self.clamp),
            "both (the clamp)" => format!("clamp {}", self.clamp),
            _ => format!("clamp {} put back to mean 0", self.clamp),
        };
        let reduction =
            if self.reduction == TOKEN_MEAN { String::new() } else { format!(", {}", self.reduction) };
        format!("{}, λ = {}, {clamp}{reduction}", self.optimiser, self.lambda)
    }
}

struct Numbers {
    arms: Vec<Arm>,
    seeds: usize,
    steps: f64,
    /// Learning rates of plain gradient descent and of AdamW.
    rates: [f64; 2],
    /// Mean length at the start, over seeds: least, mean, greatest.
    start: [f64; 3],
    /// The change, over the mean length at the start, within which a setting counts as unchanged.
    margin: f64,
}

impl Numbers {
    fn margin_in_tokens(&self) -> f64 {
        self.margin * self.start[1]
    }
}

/// A run, as it was recorded.
#[derive(Deserialize)]
struct Run {
    optimiser: String,
    lambda: f64,
    part: String,
    clamp: f64,
    reduction: String,
    seed: f64,
    steps: f64,
    learning_rate: f64,
    mean_advantage: f64,
    length_before: f64,
    change: f64,
    predicted_change: Option<f64>,
    grad_norm: f64,
}

impl Run {
    /// The settings that are shared by runs which differ in the clamp at most.
    fn trace(&self) -> (String, f64, String) {
        (self.optimiser.clone(), self.lambda, self.reduction.clone())
    }

    fn of_trace(&self) -> bool {
        of_trace(&self.reduction, &self.part, self.clamp)
    }
}

fn measure(_: &Context) -> anyhow::Result<Numbers> {
    from(RUNS)
}

fn from(text: &str) -> anyhow::Result<Numbers> {
    let runs: Vec<Run> = recorded(text)?;
    let steps = runs.last().map_or(0.0, |run| run.steps);
    let rate =
        |name: &str| runs.iter().rfind(|run| run.optimiser == name).map_or(f64::NAN, |run| run.learning_rate);
    let rates = ["SGD", "AdamW"].map(rate);
    let grouped = grouped(runs, |run| (run.trace(), run.part.clone(), run.clamp));
    let mut settings: Vec<Vec<Run>> = grouped.into_iter().map(|(_, runs)| runs).collect();
    let seeds = settings.iter().map(Vec::len).min().unwrap_or(0);
    anyhow::ensure!(seeds > 1, "the recorded runs hold {seeds} seeds; two are needed");
    let starts: Vec<f64> = settings[0].iter().map(|r| r.length_before).collect();
    settings.iter_mut().for_each(|s| s.sort_by(|a, b| a.seed.total_cmp(&b.seed)));
    let of_setting = |s: &Vec<Run>| {
        // The settings of the first trial are one family, and those of the length law.
        let family = settings.iter().filter(|t| t[0].of_trace() == s[0].of_trace()).count();
        arm(s, without_clamp(&settings, s), family)
    };
    let arms: Vec<Arm> = settings.iter().map(of_setting).collect();
    let (low, high) = extremes(starts.iter().copied());
    let margin = endpoints::margin("noise_rewards")?;
    Ok(Numbers { arms, seeds, steps, rates, start: [low, mean(&starts), high], margin })
}

/// The changes with the same random rewards, optimiser and trace but no clamp, by seed.
fn without_clamp(settings: &[Vec<Run>], of: &[Run]) -> Option<Vec<f64>> {
    let same = |s: &&Vec<Run>| s[0].trace() == of[0].trace() && s[0].part == ClampPart::None.name();
    let control = settings.iter().find(same)?;
    let seeds = |runs: &[Run]| runs.iter().map(|r| r.seed).collect::<Vec<_>>();
    (seeds(control) == seeds(of)).then(|| control.iter().map(|r| r.change).collect())
}

/// The numbers of the runs of one of `all` settings, with the changes of its control.
fn arm(runs: &[Run], control: Option<Vec<f64>>, all: usize) -> Arm {
    let change: Vec<f64> = runs.iter().map(|r| r.change).collect();
    let predicted: Option<Vec<f64>> = runs.iter().map(|r| r.predicted_change).collect();
    let at = |values: &[f64], level: f64| {
        let none = Interval { low: f64::NEG_INFINITY, mid: mean(values), high: f64::INFINITY, level };
        t_interval(values, level).unwrap_or(none)
    };
    let interval = |values: &[f64]| at(values, 0.95);
    let together = |values: &[f64]| at(values, 1.0 - 0.05 / all as f64);
    let beyond = |predicted: &[f64], control: &[f64]| {
        let excess = change.iter().zip(control).map(|(c, k)| c - k);
        excess.zip(predicted).map(|(e, p)| e - p).collect::<Vec<f64>>()
    };
    Arm {
        optimiser: runs[0].optimiser.clone(),
        lambda: runs[0].lambda,
        part: runs[0].part.clone(),
        clamp: runs[0].clamp,
        reduction: runs[0].reduction.clone(),
        mean_advantage: runs[0].mean_advantage,
        change: interval(&change),
        predicted: predicted.zip(control).map(|(p, k)| {
            let excess = beyond(&p, &k);
            [interval(&p), interval(&excess), together(&excess)]
        }),
        together: together(&change),
        grad_norm: average(runs.iter().map(|r| r.grad_norm)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_the_rows_of_its_seeds() {
        let head = "optimiser,lambda,part,clamp,reduction,seed,steps,learning_rate,mean_advantage,length_before,change,predicted_change,grad_norm";
        let rows = "SGD,0.9,none,-0.1,token mean,0,40,0.1,0,12,0.5,0,1\nSGD,0.9,none,-0.1,token mean,1,40,0.1,0,14,-0.5,0,3\n\
                    SGD,0.9,both (the clamp),-0.1,token mean,0,40,0.1,0.38,12,2,1.5,1\nSGD,0.9,both (the clamp),-0.1,token mean,1,40,0.1,0.38,14,4,2.5,1\n\
                    AdamW,0.9,none,-0.1,token mean,0,40,0.2,0,12,1,,1\nAdamW,0.9,none,-0.1,token mean,1,40,0.2,0,14,1,,1\n";
        let n = from(&format!("# x\n{head}\n{rows}")).unwrap();
        assert_eq!((n.arms.len(), n.seeds, n.start, n.rates), (3, 2, [12.0, 13.0, 14.0], [0.1, 0.2]));
        let clamped = &n.arms[1];
        let [predicted, beyond, jointly] = clamped.predicted.unwrap();
        // Without a clamp the same random rewards change it by 0.5 and -0.5: 1.5 and 4.5 are left, and 1.5 and 2.5 were predicted.
        assert_eq!((clamped.change.mid, predicted.mid, beyond.mid), (3.0, 2.0, 1.0));
        assert!((beyond.low - (1.0 - 12.706)).abs() < 1e-3 && jointly.low < beyond.low, "{beyond:?}");
        assert!(clamped.pays() && !n.arms[0].pays() && n.arms[0].grad_norm == 2.0);
        // Two seeds: t = 12.7 at 95 %, and wider for three settings together.
        assert!(
            (clamped.change.low - (3.0 - 12.706)).abs() < 1e-3 && clamped.together.low < clamped.change.low
        );
        assert!(n.arms[2].lengthens() && !clamped.lengthens() && !clamped.shortens());
        assert!(n.arms[2].predicted.is_none() && !n.arms[2].plain());
    }
}
