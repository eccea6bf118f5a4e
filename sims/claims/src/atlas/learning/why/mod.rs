//! Gains and losses of GRPO-lambda, and exact quantities that predict them.

mod cases;
mod correlations;

use super::results::{Trainer, TrainingResults};
pub(super) use cases::Case;
use cases::{GrpoOnTask, TaskResults};
pub(super) use correlations::Correlation;
use correlations::correlate;
use grpo_lambda_stats::{Bootstrap, holm};
use rayon::prelude::*;

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

/// The readings of GRPO-lambda that are explained; the first is the headline's.
pub(crate) const READINGS: [&str; 4] =
    ["GRPO-λ recent", "GRPO-λ both", "GRPO-λ recent, no clamp", "GRPO-λ both, no clamp"];
/// GRPO with nothing of GRPO-lambda but its clamp.
pub(crate) const CLAMP: &str = "GRPO, clamp -0.1";

/// At what learning rate a reading and GRPO meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regime {
    /// Each at its own best rate.
    Tuned,
    /// Each at its own best rate, the reading's weights divided by their mean over each response.
    TunedUnit,
    /// Both at GRPO's best rate.
    Equal,
    /// Both at GRPO's best rate, weights divided by their mean over each response.
    EqualUnit,
    /// Both at a sixteenth of GRPO's best rate.
    Cautious,
    /// Both at a sixteenth of GRPO's best rate, weights divided by their mean over each response.
    CautiousUnit,
}

impl Regime {
    /// In the order of tables.
    pub(crate) const ALL: [Regime; 6] = [
        Regime::Tuned,
        Regime::TunedUnit,
        Regime::Equal,
        Regime::EqualUnit,
        Regime::Cautious,
        Regime::CautiousUnit,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Regime::Tuned => "tuned",
            Regime::TunedUnit => "tuned_unit_mean",
            Regime::Equal => "equal_rate",
            Regime::EqualUnit => "equal_rate_unit_mean",
            Regime::Cautious => "equal_rate_16th",
            Regime::CautiousUnit => "equal_rate_16th_unit_mean",
        }
    }
}

/// A possible cause of a gain.
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    /// For a reader of the table of correlations.
    pub(crate) about: &'static str,
    /// True if a positive value should go with a gain.
    pub(crate) signed: bool,
}

const fn quantity(name: &'static str, about: &'static str, signed: bool) -> Quantity {
    Quantity { name, about, signed }
}

/// The quantities, of the reading against GRPO. All but the last two are exact and known before any training.
pub(crate) const QUANTITIES: [Quantity; 11] = [
    quantity("cosine", "cosine of E[g] with ∇J, less GRPO's, initial policy", true),
    quantity("cosine_half_learned", "the same at the half-learned policy", true),
    quantity("log2_step", "log2 of |E[g]| over GRPO's, initial policy", true),
    quantity("log2_snr", "log2 of the signal to noise of the update over GRPO's, initial policy", true),
    quantity("log2_snr_half", "the same at the half-learned policy", true),
    quantity("longer_is_better", "correlation of advantage and expected length, initial policy", false),
    quantity("length_bias", "correlation of credit and expected length, less GRPO's, initial policy", false),
    quantity("helpful_length_bias", "length_bias times longer_is_better", true),
    quantity("start", "J/J* of the initial policy", false),
    quantity("clamp_gain", "measured gain of GRPO with the clamp alone, each at its own best rate", true),
    quantity(
        "final_gain",
        "measured difference of J/J* after the last update, each at its own best rate",
        true,
    ),
];

/// Places in [`QUANTITIES`].
pub(crate) const LOG2_STEP: usize = 2;
pub(crate) const CLAMP_GAIN: usize = 9;

/// Quantities that take training to know.
pub(crate) const MEASURED: [&str; 2] = ["clamp_gain", "final_gain"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_of_their_quantities() {
        assert_eq!([LOG2_STEP, CLAMP_GAIN].map(|q| QUANTITIES[q].name), ["log2_step", "clamp_gain"]);
        assert!(MEASURED.iter().all(|name| QUANTITIES.iter().any(|q| q.name == *name)));
    }
}
