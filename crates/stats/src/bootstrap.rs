//! The stratified percentile bootstrap over tasks and runs.

use super::interval::{Interval, check_level};
use super::{check, iqm, quantile_of_sorted, sorted};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Settings of a bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// Number of times the runs are redrawn.
    pub resamples: usize,
    /// The confidence level, in 0..1.
    pub level: f64,
    /// The seed of all draws.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// 2000 resamples at 95 % with seed 0.
    fn default() -> Self {
        Bootstrap { resamples: 2000, level: 0.95, seed: 0 }
    }
}

impl Bootstrap {
    /// The percentile interval of a statistic of several strata: the runs of each stratum are drawn with
    /// replacement within the stratum, so the strata themselves (the tasks) count as fixed. `mid` is the
    /// statistic of the data itself.
    ///
    /// `None` when there is no stratum, a stratum is empty, or every stratum has a single run (the
    /// spread is unknown then, and a percentile interval would have no width).
    ///
    /// With few runs per stratum the interval is somewhat too narrow, as every percentile bootstrap is.
    ///
    /// # Panics
    /// When a value is not finite, there are no resamples, or the level lies outside 0..1.
    #[track_caller]
    pub fn interval(&self, strata: &[Vec<f64>], statistic: impl Fn(&[Vec<f64>]) -> f64) -> Option<Interval> {
        self.intervals(strata, |drawn| vec![statistic(drawn)])?.pop()
    }

    /// [`interval`](Bootstrap::interval) for several statistics of the same draws, so that their order can be one of them.
    ///
    /// `None` as [`Bootstrap::interval`], and no interval at all where `statistics` gives none.
    ///
    /// # Panics
    /// As [`Bootstrap::interval`]; also when the number of statistics differs between draws.
    ///
    /// ```
    /// # use grpo_lambda_stats::{Bootstrap, iqm, ranks};
    /// let methods = [vec![0.1, 0.2, 0.3, 0.2], vec![0.5, 0.6, 0.6, 0.7]];
    /// let ranked = |drawn: &[Vec<f64>]| ranks(&[iqm(&drawn[0]).unwrap(), iqm(&drawn[1]).unwrap()]);
    /// let order = Bootstrap::default().intervals(&methods, ranked).unwrap();
    /// assert_eq!((order[1].low, order[1].mid, order[1].high), (2.0, 2.0, 2.0)); // never the lesser
    /// ```
    #[track_caller]
    pub fn intervals(
        &self,
        strata: &[Vec<f64>],
        statistics: impl Fn(&[Vec<f64>]) -> Vec<f64>,
    ) -> Option<Vec<Interval>> {
        check_level(self.level);
        assert!(self.resamples > 0, "a bootstrap needs resamples");
        strata.iter().for_each(|s| check(s));
        if strata.iter().any(Vec::is_empty) || strata.iter().all(|s| s.len() < 2) {
            return None;
        }
        let mids = statistics(strata);
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut drawn = strata.to_vec();
        let mut samples = vec![Vec::with_capacity(self.resamples); mids.len()];
        for _ in 0..self.resamples {
            for (drawn, stratum) in drawn.iter_mut().zip(strata) {
                // A u32 index draws the same numbers on 32- and 64-bit machines.
                let n = u32::try_from(stratum.len()).expect("fewer than 2³² runs");
                drawn.iter_mut().for_each(|d| *d = stratum[rng.random_range(0..n) as usize]);
            }
            let values = statistics(&drawn);
            assert_eq!(values.len(), samples.len(), "as many statistics of every draw");
            samples.iter_mut().zip(values).for_each(|(all, value)| all.push(value));
        }
        let tail = (1.0 - self.level) / 2.0;
        let interval = |(mut all, mid): (Vec<f64>, f64)| {
            all.sort_by(f64::total_cmp);
            let (low, high) = (quantile_of_sorted(&all, tail)?, quantile_of_sorted(&all, 1.0 - tail)?);
            Some(Interval { low, mid, high, level: self.level })
        };
        samples.into_iter().zip(mids).map(interval).collect()
    }

    /// The interquartile mean of all scores of all tasks together, with its stratified bootstrap interval,
    /// as in `rliable` (see [`iqm`] for how boundary values count). `tasks[i]` holds the runs of task i;
    /// a task with more runs weighs more.
    ///
    /// `None` and panics as [`Bootstrap::interval`].
    ///
    /// ```
    /// # use grpo_lambda_stats::Bootstrap;
    /// let tasks = [vec![0.1, 0.2, 0.3, 0.4], vec![0.5, 0.6, 0.7, 0.8]];
    /// let i = Bootstrap::default().iqm(&tasks).unwrap();
    /// assert!((i.mid - 0.45).abs() < 1e-12 && i.low < 0.45 && 0.45 < i.high);
    /// assert_eq!(Bootstrap::default().iqm(&tasks), Some(i));
    /// assert_eq!(Bootstrap::default().iqm(&[vec![0.1], vec![0.5]]), None);
    /// ```
    #[track_caller]
    pub fn iqm(&self, tasks: &[Vec<f64>]) -> Option<Interval> {
        self.interval(tasks, |tasks| iqm(&tasks.concat()).unwrap_or(f64::NAN))
    }

    /// [`probability_of_improvement`] of X over Y with a bootstrap interval; the runs of both are drawn
    /// independently within each task.
    ///
    /// `None` and panics as [`Bootstrap::interval`]; also panics when the numbers of tasks differ.
    #[track_caller]
    pub fn probability_of_improvement(&self, x: &[Vec<f64>], y: &[Vec<f64>]) -> Option<Interval> {
        assert_eq!(x.len(), y.len(), "X and Y must have the same tasks");
        let both = [x, y].concat();
        self.interval(&both, |both| {
            let (x, y) = both.split_at(x.len());
            probability_of_improvement(x, y).unwrap_or(f64::NAN)
        })
    }
}

/// Probability that a run of X is better than a run of Y on the same task, averaged over tasks; ties count
/// half. In 0..=1, and 1/2 for equal methods. `None` when there is no task or a task without runs.
///
/// ```text
/// P = (1/M) Σₘ (1/(N K)) Σᵢ Σⱼ (1[xₘᵢ > yₘⱼ] + ½ 1[xₘᵢ = yₘⱼ])
/// ```
///
/// # Panics
/// When the numbers of tasks differ or a value is not finite.
///
/// ```
/// # use grpo_lambda_stats::probability_of_improvement;
/// let p = probability_of_improvement(&[vec![1.0, 3.0]], &[vec![1.0, 2.0]]);
/// // 1 > 1? tie; 1 > 2 no; 3 > 1 and 3 > 2 yes
/// assert_eq!(p, Some(2.5 / 4.0));
/// ```
#[track_caller]
pub fn probability_of_improvement(x: &[Vec<f64>], y: &[Vec<f64>]) -> Option<f64> {
    assert_eq!(x.len(), y.len(), "X and Y must have the same tasks");
    let mut sum = 0.0;
    for (x, y) in x.iter().zip(y) {
        check(x);
        let y = sorted(y);
        if x.is_empty() || y.is_empty() {
            return None;
        }
        let wins: f64 = x
            .iter()
            .map(|v| (y.partition_point(|w| w < v) + y.partition_point(|w| w <= v)) as f64 / 2.0)
            .sum();
        sum += wins / (x.len() * y.len()) as f64;
    }
    (!x.is_empty()).then(|| sum / x.len() as f64)
}
