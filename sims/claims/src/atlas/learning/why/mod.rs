//! Gains and losses of GRPO-lambda, and exact quantities that predict them.

mod cases;
mod correlations;
mod quantities;

use grpo_lambda_stats::{Bootstrap, holm};
use rayon::prelude::*;

use super::results::{Trainer, TrainingResults};
use cases::{GrpoOnTask, TaskResults};
use correlations::correlate;

pub(super) use cases::Case;
pub(super) use correlations::Correlation;
pub(super) use quantities::{CLAMP, CLAMP_GAIN, LOG2_STEP, MEASURED, QUANTITIES, READINGS, Regime};

/// Everything about GRPO-lambda against GRPO.
pub(super) struct Why {
    /// Every reading on every task.
    pub(super) cases: Vec<Case>,
    /// Every quantity with every reading and regime.
    pub(super) correlations: Vec<Correlation>,
}

/// Compares the readings with GRPO under every regime on the tasks of both results: the ranked ones and random ones.
pub(super) fn explain(
    trainer: &Trainer,
    (named, random): (&TrainingResults, &TrainingResults),
    bootstrap: Bootstrap,
    tick: &(dyn Fn() + Sync),
) -> anyhow::Result<Why> {
    let grpo = |results: &TrainingResults| -> anyhow::Result<Vec<GrpoOnTask>> {
        (0..results.tasks.len()).into_par_iter().map(|t| GrpoOnTask::new(trainer, results, t)).collect()
    };
    let (of_named, of_random) = (grpo(named)?, grpo(random)?);
    let mut cases = Vec::new();
    for reading in 0..READINGS.len() {
        let of_results =
            |results: &TrainingResults, grpo: &[GrpoOnTask], named: bool| -> anyhow::Result<Vec<Case>> {
                let case = |task: usize| {
                    let on_task = TaskResults { results, grpo: &grpo[task], task, named };
                    let case = Case::new(trainer, on_task, reading, bootstrap);
                    tick();
                    case
                };
                (0..results.tasks.len()).into_par_iter().filter_map(|t| case(t).transpose()).collect()
            };
        let mut own = of_results(named, &of_named, true)?;
        own.extend(of_results(random, &of_random, false)?);
        let corrected = holm(&own.iter().map(|case| case.p).collect::<Vec<_>>());
        own.iter_mut().zip(corrected).for_each(|(case, p)| case.p_holm = p);
        cases.extend(own);
    }
    let keys: Vec<(usize, Regime)> =
        (0..READINGS.len()).flat_map(|r| Regime::ALL.into_iter().map(move |regime| (r, regime))).collect();
    let correlated = |&(reading, regime): &(usize, Regime)| correlate(&cases, reading, regime, bootstrap);
    let correlations = keys.par_iter().map(correlated).collect::<Vec<_>>().concat();
    Ok(Why { cases, correlations })
}
