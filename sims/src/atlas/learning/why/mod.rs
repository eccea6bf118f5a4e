//! Where GRPO-lambda gains or loses, and which exact quantities say so beforehand.

mod cases;
mod correlations;
mod quantities;

use grpo_lambda::stats::{Bootstrap, holm};
use rayon::prelude::*;

use super::field::{Field, Lab};
use cases::{Ground, Place};
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

/// Compares the readings with GRPO under every regime on the tasks of both fields: the ranked ones and more.
///
/// # Errors
/// If settings are refused or the store cannot write.
pub(super) fn explain(
    lab: &Lab,
    (named, random): (&Field, &Field),
    bootstrap: Bootstrap,
    tick: &(dyn Fn() + Sync),
) -> anyhow::Result<Why> {
    let grounds = |field: &Field| -> anyhow::Result<Vec<Ground>> {
        (0..field.tasks.len()).into_par_iter().map(|t| Ground::new(lab, field, t)).collect()
    };
    let (of_named, of_random) = (grounds(named)?, grounds(random)?);
    let mut cases = Vec::new();
    for reading in 0..READINGS.len() {
        let of_field = |field: &Field, grounds: &[Ground], named: bool| -> anyhow::Result<Vec<Case>> {
            let case = |task: usize| {
                let place = Place { field, ground: &grounds[task], task, named };
                let case = Case::new(lab, place, reading, bootstrap);
                tick();
                case
            };
            (0..field.tasks.len()).into_par_iter().filter_map(|t| case(t).transpose()).collect()
        };
        let mut own = of_field(named, &of_named, true)?;
        own.extend(of_field(random, &of_random, false)?);
        let corrected = holm(&own.iter().map(|case| case.p).collect::<Vec<_>>());
        own.iter_mut().zip(corrected).for_each(|(case, p)| case.p_holm = p);
        cases.extend(own);
    }
    let keys: Vec<(usize, Regime)> =
        (0..READINGS.len()).flat_map(|r| Regime::ALL.into_iter().map(move |regime| (r, regime))).collect();
    let of = |&(reading, regime): &(usize, Regime)| correlate(&cases, reading, regime, bootstrap);
    let correlations = keys.par_iter().map(of).collect::<Vec<_>>().concat();
    Ok(Why { cases, correlations })
}
