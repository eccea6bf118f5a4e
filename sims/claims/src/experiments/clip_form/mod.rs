//! `clip_form`: PPO's clip, the one Algorithms 1 and 2 print, and the two-sided one.

mod findings;
mod reuse;
mod shown;

use grpo_lambda::surrogate::{Surrogate, ValueAndSlope};

use crate::experiment::{Context, Experiment, Parts};
use findings::findings;
use reuse::{AfterStep, Drift, OnPolicy, drifts, off_policy, on_policy};
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clip_form",
    title: "Is the clip printed in the algorithms PPO's?",
    claim: "Main text: \"ℓ_π = min(π^GAE_ratio(s_t) δ_t, clip(π^GAE_ratio(s_t), 1-ϵ, 1+ϵ) δ_t)\"; Algorithm 1: \"coef_2 ← clamp(coef_1, 1±ϵ_clip)\", \"ℓ ← -min(coef_1, coef_2) δ\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 3 against Algorithms 1 and 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

struct Numbers {
    /// Row by row of the map, advantages from the top.
    points: Vec<Point>,
    /// At ratios 0.5 and 1.5 and advantage -1.
    examples: [Point; 2],
    on_policy: OnPolicy,
    off_policy: Vec<AfterStep>,
    drifts: Vec<Drift>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    (context.progress)(0.2, "on-policy");
    let (on_policy, off_policy) = (on_policy()?, off_policy()?);
    (context.progress)(0.6, "inner updates");
    Ok(Numbers {
        points: Point::grid(),
        examples: Point::examples(),
        on_policy,
        off_policy,
        drifts: drifts()?,
    })
}

const EPSILON: f64 = 0.2;
const CAP: f64 = 1.6;

const PPO: Surrogate = Surrogate::Clip { low: EPSILON, high: EPSILON };
const PRINTED: Surrogate = Surrogate::Printed { high: EPSILON };
const TWO_SIDED: Surrogate = Surrogate::TwoSided { low: EPSILON, high: EPSILON, delta: CAP };

/// Loss of one token, with its derivative with respect to `log π`.
fn loss(form: Surrogate, ratio: f64, advantage: f64) -> ValueAndSlope {
    form.at(ratio.ln(), advantage).loss
}

/// The ratios of the maps; none is a bound of the clip.
fn ratios() -> Vec<f64> {
    (0..14).map(|i| 0.45 + 0.1 * f64::from(i)).collect()
}

/// The advantages of the maps, from the top.
fn advantages() -> Vec<f64> {
    (-4..=4).rev().map(|i| 0.5 * f64::from(i)).collect()
}

/// The three forms at one ratio and advantage.
#[derive(Clone)]
struct Point {
    ratio: f64,
    advantage: f64,
    ppo: ValueAndSlope,
    printed: ValueAndSlope,
    two_sided: ValueAndSlope,
}

impl Point {
    fn new(ratio: f64, advantage: f64) -> Point {
        let [ppo, printed, two_sided] = [PPO, PRINTED, TWO_SIDED].map(|form| loss(form, ratio, advantage));
        Point { ratio, advantage, ppo, printed, two_sided }
    }

    /// The points of the maps, advantages from the top.
    fn grid() -> Vec<Point> {
        let row = |a: f64| ratios().into_iter().map(move |ratio| Point::new(ratio, a));
        advantages().into_iter().flat_map(row).collect()
    }

    fn examples() -> [Point; 2] {
        [0.5, 1.5].map(|ratio| Point::new(ratio, -1.0))
    }

    /// The largest difference of the printed form's loss and slope from PPO's.
    fn apart(&self) -> f64 {
        let (a, b) = (self.ppo, self.printed);
        (a.value - b.value).abs().max((a.slope - b.slope).abs())
    }

    /// True if the advantage is negative and the ratio outside the clip interval.
    fn lowered_outside(&self) -> bool {
        self.advantage < 0.0 && !(1.0 - EPSILON..=1.0 + EPSILON).contains(&self.ratio)
    }

    /// The greater of the gaps from the printed loss to Algorithm 1's formula, and from that to `-min(ratio, 1+ε) A`.
    fn off_formula(&self) -> f64 {
        let (ratio, a) = (self.ratio, self.advantage);
        let literal = -ratio.min(ratio.clamp(1.0 - EPSILON, 1.0 + EPSILON)) * a;
        (self.printed.value - literal).abs().max((literal + ratio.min(1.0 + EPSILON) * a).abs())
    }
}
