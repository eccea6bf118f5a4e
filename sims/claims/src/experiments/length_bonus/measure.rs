//! What is computed.

use super::identities::{AtLambda, WithRewards, mean_advantage, noise, with_rewards};
use super::rationals::{Rationals, in_rationals};
use super::slope::{Slope, map};
use crate::experiment::Context;
use grpo_lambda_tools::length_direction::{CLAMP, GROUP, Point, sweep};

pub(super) struct Numbers {
    pub(super) rationals: Rationals,
    pub(super) noise: Vec<AtLambda>,
    pub(super) with_rewards: WithRewards,
    pub(super) slopes: Vec<Slope>,
    pub(super) sweep: Vec<Point>,
    /// `ā` in groups of eight at success rate 1/2, with the paper's clamp.
    pub(super) mean_advantage: f64,
    /// `ā` against the success rate, by clamp.
    pub(super) pushes: Vec<(&'static str, Vec<(f64, f64)>)>,
}

/// `ā` in groups of eight at success rates from 0 to 1.
fn pushes() -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let of = |clamp| {
        let at = |i: i32| (f64::from(i) / 40.0, mean_advantage(clamp, GROUP, f64::from(i) / 40.0));
        // At 0 and 1 every group agrees and teaches nothing.
        std::iter::once((0.0, 0.0)).chain((1..40).map(at)).chain([(1.0, 0.0)]).collect()
    };
    vec![("none", of(None)), ("-0.1", of(Some(CLAMP))), ("0", of(Some(0.0)))]
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let rationals = in_rationals()?;
    (context.progress)(0.1, "identities");
    let noise = noise(context.seed)?;
    let with_rewards = with_rewards(context.seed)?;
    (context.progress)(0.4, "slope of the length");
    let slopes = map()?;
    (context.progress)(0.7, "horizons");
    let sweep = sweep();
    let mean_advantage = mean_advantage(Some(CLAMP), GROUP, 0.5);
    Ok(Numbers { rationals, noise, with_rewards, slopes, sweep, mean_advantage, pushes: pushes() })
}
