//! What is computed: the forms point by point, on-policy, after a step off-policy, and over many updates on one batch.

use super::forms::{Point, advantages, ratios};
use super::reuse::{AfterStep, Drift, OnPolicy, drifts, off_policy, on_policy};
use crate::experiment::Context;

pub(super) struct Numbers {
    /// Row by row of the map, advantages from the top.
    pub(super) points: Vec<Point>,
    /// At ratios 0.5 and 1.5 and advantage -1.
    pub(super) examples: [Point; 2],
    pub(super) on_policy: OnPolicy,
    pub(super) off_policy: Vec<AfterStep>,
    pub(super) drifts: Vec<Drift>,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let row = |a: f64| ratios().into_iter().map(move |ratio| Point::new(ratio, a));
    let points = advantages().into_iter().flat_map(row).collect();
    (context.progress)(0.2, "on-policy");
    let (on_policy, off_policy) = (on_policy()?, off_policy()?);
    (context.progress)(0.6, "inner updates");
    let examples = [0.5, 1.5].map(|ratio| Point::new(ratio, -1.0));
    Ok(Numbers { points, examples, on_policy, off_policy, drifts: drifts()? })
}
