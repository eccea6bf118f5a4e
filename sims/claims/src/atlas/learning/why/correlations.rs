//! Correlations of the quantities with the gains, over tasks.

use super::cases::Case;
use super::{QUANTITIES, Regime};
use grpo_lambda_stats::{Bootstrap, Interval, holm, spearman};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

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
pub(super) fn correlate(
    cases: &[Case],
    reading: usize,
    regime: Regime,
    bootstrap: Bootstrap,
) -> Vec<Correlation> {
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
