//! Expected updates: exact if a sum is feasible, else simulated, and marked so.

use grpo_lambda::methods::Method;
use grpo_lambda::systematic::Sets;
use grpo_lambda_mdp::expected::{Situation, conditional, implied, multisets, sampled};

/// The most work of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// The most groups to sum exactly.
    pub(super) multisets: f64,
    /// Responses evaluated for the mean, where no exact way is feasible: every one there is, among each set of others that was simulated.
    pub(super) evaluations: f64,
    /// Whole groups simulated for the spread.
    pub(super) samples: usize,
}

impl Effort {
    /// The mean at a fraction of the work.
    pub(super) fn over(self, fraction: f64) -> Effort {
        Effort { evaluations: self.evaluations / fraction, ..self }
    }

    /// Sets of others to simulate.
    fn draws(self, situation: &Situation) -> usize {
        let responses: usize =
            situation.tree.leaves().map(|leaf| situation.tree.outcomes(leaf).count()).sum();
        ((self.evaluations / responses as f64) as usize).clamp(16, 1000)
    }
}

/// An expected update, its spread, and how they were obtained.
pub(super) struct Expectation {
    /// `E[g]` per edge, or its estimate.
    pub(super) update: Vec<f64>,
    /// `ω(s,a)` per edge.
    pub(super) credit: Vec<f64>,
    /// Independent estimates whose mean the update is; empty where it is exact.
    pub(super) draws: Vec<Vec<f64>>,
    /// The trace of the covariance of `g`.
    pub(super) variance: f64,
    /// Its standard error; 0 where it is exact.
    pub(super) variance_se: f64,
    /// `exact` or `sampled`, with the way.
    pub(super) how: String,
}

/// The expectation of a method. `repeats`: whether its extra inputs are the same when asked for twice; random inputs cannot be summed over.
pub(super) fn expectation(
    method: &dyn Method,
    situation: &Situation,
    effort: Effort,
    repeats: bool,
    seed: u64,
) -> Expectation {
    let exact = repeats.then(|| {
        let by_coupling = implied(method, situation).map(|e| (e, "exact: implied credit"));
        by_coupling.or_else(|_| {
            multisets(method, situation, Sets::SINGLE, effort.multisets).map(|e| (e, "exact: all groups"))
        })
    });
    if let Some(Ok((expected, how))) = exact {
        let variance = expected.total_variance();
        let (update, credit) = (expected.update, expected.credit);
        return Expectation {
            update,
            credit,
            draws: Vec::new(),
            variance,
            variance_se: 0.0,
            how: how.into(),
        };
    }
    let draws = effort.draws(situation);
    let mean = conditional(method, situation, draws, seed);
    let spread = sampled(method, situation, effort.samples, seed ^ 1);
    Expectation {
        update: mean.update,
        credit: mean.credit,
        draws: mean.draws,
        variance: spread.estimate.total_variance(),
        variance_se: spread.total_variance_se,
        how: format!("sampled: {} sets of others, {} groups for the spread", draws, effort.samples),
    }
}
