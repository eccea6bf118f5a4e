//! `length_bonus`: the force on the length of responses that the trace and the clamp make together, whatever the reward
//! says.
//!
//! On-policy, with γ = 1, style recent and a constant reduction GRPO-λ's update is `Σ_k c_k(T) A ∇_k`, where `∇_k =
//! ∇log π(a_k|s_k)` and
//! `c_k(T) = Σ_(t=k)^(T-1) λ^(t-k)`.
//!
//! ```text
//! S   any A          E[update] = Σ_t E[ A 1{T>t} Σ_(k≤t) λ^(t-k) ∇_k ]                 every token that is written is paid A, discounted by λ
//! R   λ = 1          E[update] = ∇E[A T] - Σ_k k ∇_(k)E[A]                             A(y) = E[A_i | y_i = y], frozen; ∇_(k)E[f] := E[f ∇_k]
//! N   A noise        E[update] = ā Σ_t Σ_(k≤t) λ^(t-k) E[∇_k 1{T>t}],   ā = E[A]
//! B   noise, λ = 1   E[update] = ā ∇E[T]
//! ```
//!
//! **Proof.** S: `c_k(T) = Σ_(t≥k) λ^(t-k) 1{T>t}`; exchange the sums. R: at λ = 1, `c_k(T) = T - k`, and `E[A T Σ_k
//! ∇_k] = ∇E[A T]`; what is left, `-Σ_k k E[A ∇_k]`, is `-Σ_k k ∇_(k)E[A]`, since `E[A ∇_k]` is the part of `∇E[A]`
//! that belongs to depth k. N:
//! A is independent of
//! the tokens, so its mean comes out. B: whether token t is written is decided by the tokens before it, so that
//! `Σ_(k≤t) E[∇_k 1{T>t}] = ∇P(T>t)` (the term k = t is 0), and `Σ_t P(T>t) = E[T]`. ∎
//!
//! In R the gradient acts on the law of this response alone: A depends on the whole group, whose other responses are
//! held. With the ordinary gradient of all responses `E[A] = 0` for every policy without a clamp, and R would be wrong.
//!
//! Without a clamp `ā = 0`: a group's advantages sum to 0. With one, `ā = E[max(A, clamp)] > 0` for every success rate
//! in (0, 1), if the clamp is above the least z-score of the group, `-(G-1)/√G`; at or below it nothing is clamped. The
//! clamp pays for every token, and the trace hands the
//! payment to the tokens before it. `law` says the same of every reduction and of other maps from rewards to
//! advantages.

mod findings;
mod identities;
mod law;
mod shown;
pub(crate) mod spread;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::mean_update;
use crate::experiments::common::{cosine, dot, norm};
use findings::findings;
use grpo_lambda_mdp::zoo::{EosHazard, Family};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};
use grpo_lambda_tools::length_direction::{CLAMP, GROUP, Point, sweep};
use identities::{AtLambda, length_gradient, mean_advantage, noise};
use law::{LawRow, Rationals, in_rationals, law};
use rayon::prelude::*;
use serde::{Serialize, Serializer};
use shown::{figures, tables};
use spread::{CreditRow, OnTask, credit, spread};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "length_bonus",
    title: "Does the update lengthen responses whatever the reward says?",
    claim: "With rewards that are independent of the responses the expected update is ā ∇E[T] at λ = 1, and ā > 0 \
        under the clamp",
    source: "Our question, on GRPO-λ's Eq. 1 and its clamp at -0.1",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

#[derive(Default)]
struct Numbers {
    rationals: Rationals,
    noise: Vec<AtLambda>,
    slopes: Vec<Slope>,
    law: Vec<LawRow>,
    tasks: Vec<OnTask>,
    sweep: Vec<Point>,
    credit: Vec<CreditRow>,
    /// `ā` in groups of eight at success rate 1/2, with the paper's clamp.
    mean_advantage: f64,
    /// `ā` against the success rate, by clamp.
    pushes: Vec<(&'static str, Vec<(f64, f64)>)>,
}

/// `ā` in groups of eight at success rates from 0 to 1.
fn pushes() -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let push = |clamp| {
        let at = |i: i32| (f64::from(i) / 40.0, mean_advantage(clamp, GROUP, f64::from(i) / 40.0));
        // At 0 and 1 every group agrees and teaches nothing.
        std::iter::once((0.0, 0.0)).chain((1..40).map(at)).chain([(1.0, 0.0)]).collect()
    };
    vec![("none", push(None)), ("-0.1", push(Some(CLAMP))), ("0", push(Some(0.0)))]
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let rationals = in_rationals()?;
    (context.progress)(0.1, "identities");
    let noise = noise(context.seed)?;
    (context.progress)(0.4, "slope of the length");
    let slopes = slopes()?;
    (context.progress)(0.7, "horizons");
    let (law, tasks) = (law()?, spread(context.seed)?);
    (context.progress)(0.9, "tasks");
    let (sweep, credit) = (sweep(), credit()?);
    let mean_advantage = mean_advantage(Some(CLAMP), GROUP, 0.5);
    let pushes = pushes();
    Ok(Numbers { rationals, noise, slopes, law, tasks, sweep, credit, mean_advantage, pushes })
}

/// The longest response.
const HORIZON: usize = 24;
/// The chance of EOS after every token.
const HAZARD: f64 = 0.08;

const LAMBDAS: [f64; 6] = [0.0, 0.5, 0.9, 0.98, 0.99, 1.0];
const RATES: [f64; 3] = [0.1, 0.5, 0.9];
const CLAMPS: [&str; 2] = ["none", "-0.1"];
const REDUCTIONS: [&str; 3] = ["response_sum", "token_mean", "response_mean"];
const STYLES: [&str; 2] = ["recent", "both"];
const UPDATES: [&str; 2] = ["trace", "weight"];

/// The direction of the expected length under one setting; a row of `length_bonus_slope.csv`.
#[derive(Clone, Debug, Default, Serialize)]
struct Slope {
    update: &'static str,
    style: &'static str,
    reduction: &'static str,
    clamp: &'static str,
    lambda: f64,
    #[serde(rename = "success_rate")]
    rate: f64,
    /// `<E[update], ∇E[T]>`: tokens per unit of learning rate, to first order.
    #[serde(rename = "slope_of_length")]
    slope: f64,
    /// `<E[update], ∇E[T]> / |∇E[T]|²`.
    multiple_of_length_gradient: f64,
    /// Cosine with `∇E[T]`; `None` if the update is 0.
    #[serde(rename = "cosine_with_length_gradient", serialize_with = "or_none")]
    cosine: Option<f64>,
}

/// Serializes a number, or the word `none`.
fn or_none<S: Serializer>(x: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    x.map_or("none".to_owned(), |x| x.to_string()).serialize(serializer)
}

/// The chain with its start policy, rewards right with probability `rate`.
fn chain(rate: f64) -> anyhow::Result<(Tree, Tabular)> {
    let family = EosHazard { hazard: HAZARD, symbols: 1, horizon: HORIZON };
    let tree = family.tree()?;
    let policy = family.initial(&tree);
    Ok((tree.with_rewards(|_| rate), policy))
}

/// The slope under every setting: rewards are noise, responses a chain that may end after every token.
fn slopes() -> anyhow::Result<Vec<Slope>> {
    let mut settings = Vec::new();
    for update in UPDATES {
        for style in STYLES {
            for reduction in REDUCTIONS {
                for clamp in CLAMPS {
                    for lambda in LAMBDAS {
                        settings.extend(RATES.map(|rate| (update, style, reduction, clamp, lambda, rate)));
                    }
                }
            }
        }
    }
    let slope = |&(update, style, reduction, clamp, lambda, rate): &_| -> anyhow::Result<Slope> {
        let (tree, policy) = chain(rate)?;
        let oracle = Oracle::new(&tree, &policy);
        let length = length_gradient(&oracle);
        let words =
            format!("lambda={lambda} clamp={clamp} reduction={reduction} style={style} update={update}");
        let step = mean_update(("grpo_lambda", &words), (&tree, &policy), GROUP)?;
        let slope = dot(&step, &length);
        // An update of 0, up to rounding, has no direction.
        let moves = norm(&step) > 1e-12;
        Ok(Slope {
            update,
            style,
            reduction,
            clamp,
            lambda,
            rate,
            slope: if moves { slope } else { 0.0 },
            multiple_of_length_gradient: if moves { slope / dot(&length, &length) } else { 0.0 },
            cosine: moves.then(|| cosine(&step, &length)),
        })
    };
    settings.par_iter().map(slope).collect()
}
