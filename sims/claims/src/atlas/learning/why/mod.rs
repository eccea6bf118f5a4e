//! Gains and losses of GRPO-lambda, and exact quantities that predict them.

mod cases;

use super::results::{Trainer, TrainingResults};
pub(super) use cases::Case;
use cases::{GrpoOnTask, TaskResults};
use grpo_lambda_stats::{Bootstrap, Interval, holm, spearman};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
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

/// Shuffles drawn per test.
const DRAWS: usize = 4999;

/// A quantity against the gains of a reading over tasks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Correlation {
    /// Index into [`super::READINGS`].
    pub(crate) reading: usize,
    pub(crate) regime: Regime,
    /// Index into [`QUANTITIES`].
    pub(crate) quantity: usize,
    /// Spearman's rank correlation, with its interval over draws of tasks.
    pub(crate) rho: Interval,
    /// Permutation test of no association.
    pub(crate) p: f64,
    /// `p` corrected over the quantities.
    pub(crate) p_holm: f64,
    pub(crate) tasks: usize,
    /// Tasks with a decided gain: those with the quantity's sign, and all.
    pub(crate) agree: (usize, usize),
    /// The tasks with a decided gain of the other sign.
    pub(crate) against: Vec<String>,
}

impl Correlation {
    /// True if the association survives correction and its interval excludes 0.
    pub(crate) fn explains(&self) -> bool {
        self.p_holm <= 0.05 && !self.rho.contains(0.0)
    }
}

/// The correlations of all quantities with the gains of a reading.
fn correlate(cases: &[Case], reading: usize, regime: Regime, bootstrap: Bootstrap) -> Vec<Correlation> {
    let own: Vec<&Case> = cases.iter().filter(|case| case.reading == reading).collect();
    let gains: Vec<f64> = own.iter().map(|case| case.gains[regime as usize].mid).collect();
    let correlation = |q: usize| {
        let values: Vec<f64> = own.iter().map(|case| case.quantities[q]).collect();
        let numbers: Vec<f64> = (0..own.len()).map(|i| i as f64).collect();
        let rho = bootstrap.interval(&[numbers], |drawn| {
            let pick = |of: &[f64]| drawn[0].iter().map(|&i| of[i as usize]).collect::<Vec<_>>();
            spearman(&pick(&values), &pick(&gains)).unwrap_or(0.0)
        })?;
        let decided = || own.iter().filter(|case| case.sign(regime) != 0);
        let same = |case: &&&Case| case.quantities[q] * f64::from(case.sign(regime)) > 0.0;
        let against: Vec<String> = match QUANTITIES[q].signed {
            true => decided().filter(|case| !same(case)).map(|case| case.task.clone()).collect(),
            false => Vec::new(),
        };
        Some(Correlation {
            reading,
            regime,
            quantity: q,
            rho,
            p: association(&values, &gains, bootstrap.seed),
            p_holm: 1.0,
            tasks: own.len(),
            agree: (decided().filter(same).count(), decided().count()),
            against,
        })
    };
    let mut all: Vec<Correlation> = (0..QUANTITIES.len()).filter_map(correlation).collect();
    let corrected = holm(&all.iter().map(|c| c.p).collect::<Vec<_>>());
    all.iter_mut().zip(corrected).for_each(|(c, p)| c.p_holm = p);
    all
}

/// Permutation test of Spearman's correlation, two-sided: the share of shuffles at least as far from 0.
fn association(x: &[f64], y: &[f64], seed: u64) -> f64 {
    let Some(observed) = spearman(x, y) else { return 1.0 };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut shuffled = y.to_vec();
    let mut extreme = 0;
    for _ in 0..DRAWS {
        shuffled.shuffle(&mut rng);
        extreme += usize::from(spearman(x, &shuffled).is_some_and(|r| r.abs() >= observed.abs() - 1e-12));
    }
    (extreme + 1) as f64 / (DRAWS + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_of_their_quantities() {
        assert_eq!([LOG2_STEP, CLAMP_GAIN].map(|q| QUANTITIES[q].name), ["log2_step", "clamp_gain"]);
        assert!(MEASURED.iter().all(|name| QUANTITIES.iter().any(|q| q.name == *name)));
    }

    #[test]
    fn a_planted_explanation_is_found_and_noise_is_not() {
        let level = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let case = |i: usize| {
            let x = (i as f64 - 9.5) / 100.0;
            let noise =
                [3, 17, 8, 12, 0, 19, 5, 10, 14, 1, 7, 16, 2, 11, 18, 6, 13, 4, 9, 15][i] as f64 - 9.5;
            let mut quantities = [noise; QUANTITIES.len()];
            quantities[0] = x;
            Case {
                reading: 0,
                task: format!("{i}"),
                named: true,
                exact: true,
                gains: [level(x); 6],
                p: 1.0,
                p_holm: 1.0,
                quantities,
            }
        };
        let cases: Vec<Case> = (0..20).map(case).collect();
        let all = correlate(&cases, 0, Regime::Tuned, Bootstrap { resamples: 300, ..Bootstrap::default() });
        assert!(all[0].explains() && all[0].rho.mid == 1.0 && all[0].against.is_empty());
        assert_eq!(all[0].agree, (18, 18)); // |gain| <= 0.01 is not decided
        assert!(!all[1].explains(), "{:?}", all[1]);
    }
}
