//! Efficiency on held-out families, then learning at tuned rates.

use grpo_lambda_stats::{Bootstrap, Interval, OverTasks};
use rayon::prelude::*;

use super::efficiency::{Efficiency, Moments, policies};
use super::spans::SPANS;
use super::trained::{Overall, Trained, compare, train};
use crate::atlas::tasks::tasks;
use crate::experiment::Context;

pub(super) struct Numbers {
    pub(super) families: Vec<String>,
    /// One per span; the first is uniform.
    pub(super) efficiencies: Vec<Efficiency>,
    /// Log of the efficiency of the best weight per prefix over that of uniform weights.
    pub(super) ceiling: Interval,
    /// `None` when a span is missing or there is one family only.
    pub(super) without_length: Option<WithoutLength>,
    pub(super) trained: Vec<Trained>,
    pub(super) overall: Vec<Overall>,
}

/// GRPO-lambda with weights that do not depend on the length of the response, against GRPO-lambda, over families in pairs; log.
pub(super) struct WithoutLength {
    pub(super) fixed_horizon: OverTasks,
    pub(super) given_the_prefix: OverTasks,
}

/// GRPO-lambda, and its two readings without the length.
pub(super) const PLAIN: &str = "recent 0.99 (GRPO-λ)";
pub(super) const FIXED_HORIZON: &str = "recent 0.99, fixed horizon";
pub(super) const GIVEN_THE_PREFIX: &str = "recent 0.99, expected given the prefix";

impl Numbers {
    /// The efficiency of a span by name.
    pub(super) fn efficiency(&self, name: &str) -> Option<&Efficiency> {
        find(&self.efficiencies, name)
    }

    /// The candidates that are spans.
    pub(super) fn spans(&self) -> impl Iterator<Item = &Overall> {
        self.overall.iter().filter(|o| SPANS.iter().any(|span| span.name == o.name))
    }
}

fn find<'a>(efficiencies: &'a [Efficiency], name: &str) -> Option<&'a Efficiency> {
    efficiencies.iter().find(|e| e.span.name == name)
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let tasks = tasks(context.full)?;
    let policies = policies(&tasks);
    (context.progress)(0.1, "moments");
    let moments = Moments::new(&tasks, &policies);
    (context.progress)(0.3, "weights");
    let bootstrap = Bootstrap { seed: context.seed, ..Bootstrap::default() };
    let no_gradient = || anyhow::anyhow!("a family has no policy with a gradient");
    let efficiencies: Vec<Efficiency> = (0..SPANS.len())
        .into_par_iter()
        .map(|span| moments.efficiency(span))
        .collect::<Option<_>>()
        .ok_or_else(no_gradient)?;
    let ceiling = moments.ceiling().ok_or_else(no_gradient)?;
    let trained = train(context, &tasks, &moments, &efficiencies, bootstrap)?;
    Ok(Numbers {
        without_length: without_length(&efficiencies),
        ceiling,
        overall: compare(&trained, bootstrap),
        trained,
        efficiencies,
        families: moments.families,
    })
}

fn without_length(efficiencies: &[Efficiency]) -> Option<WithoutLength> {
    let plain = find(efficiencies, PLAIN)?;
    // Families in pairs: what differs between families does not count.
    let over = |name: &str| {
        let own = find(efficiencies, name)?;
        let pairs: Vec<f64> = own.families.iter().zip(&plain.families).map(|(x, y)| x - y).collect();
        OverTasks::new(&pairs)
    };
    Some(WithoutLength { fixed_horizon: over(FIXED_HORIZON)?, given_the_prefix: over(GIVEN_THE_PREFIX)? })
}
