//! The ranking with its uncertainty, from scores `[competitor][task][run]` whose runs are paired by their stream.

use crate::experiments::common::mean;
use grpo_lambda_stats::{Bootstrap, Interval, OverTasks, holm, mean as average, paired_permutation, ranks};
use rayon::prelude::*;

/// Scores that differ by less are the same: what rounding makes of two formulas for one update.
pub(super) const SAME: f64 = 1e-9;

/// One competitor's place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    /// Mean over tasks of the mean over runs.
    pub(super) level: Interval,
    /// Its difference to the baseline's, runs drawn in pairs.
    pub(super) gain: Interval,
    /// The share of pairs of runs in which it is better than the baseline, averaged over tasks; a tie counts half.
    pub(super) improvement: Interval,
    /// Its place, 1 the best; the interval is over draws of the runs.
    pub(super) rank: Interval,
    /// Place with the tasks drawn as well.
    pub(super) rank_over_tasks: Interval,
    /// The gain with the tasks as the sample.
    pub(super) over_tasks: Option<OverTasks>,
    /// Difference to the baseline on each task.
    pub(super) gains: Vec<Interval>,
    /// Two-sided paired permutation test against the baseline, over all tasks and runs.
    pub(super) p: f64,
    /// `p` corrected for the number of competitors (Holm).
    pub(super) p_holm: f64,
}

impl Standing {
    /// Tasks on which the interval of the gain lies above 0.
    pub(super) fn better(&self) -> Vec<usize> {
        (0..self.gains.len()).filter(|&t| self.gains[t].low > SAME).collect()
    }

    /// Tasks on which it lies below 0.
    pub(super) fn worse(&self) -> Vec<usize> {
        (0..self.gains.len()).filter(|&t| self.gains[t].high < -SAME).collect()
    }

    /// Better (1), worse (-1) or not distinguishable (0): after correction over runs, and with the tasks as the sample.
    pub(super) fn sign(&self) -> i8 {
        let over = self.over_tasks.as_ref();
        match self.p_holm <= 0.05 {
            true if over.is_some_and(OverTasks::positive) => 1,
            true if over.is_some_and(OverTasks::negative) => -1,
            _ => 0,
        }
    }
}

/// Sign flips drawn per permutation test.
const FLIPS: usize = 9999;

/// The mean of drawn runs, per competitor and task.
fn drawn_means(scores: &[Vec<Vec<f64>>], drawn: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let drawn_mean = |(runs, picks): (&Vec<f64>, &Vec<f64>)| {
        average(&picks.iter().map(|&i| runs[i as usize]).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    scores.iter().map(|tasks| tasks.iter().zip(drawn).map(drawn_mean).collect()).collect()
}

/// Places, 1 the greatest; what is the same shares its place.
fn places(levels: &[f64]) -> Vec<f64> {
    ranks(&levels.iter().map(|x| -(x / SAME).round()).collect::<Vec<_>>())
}

/// Share of pairs won, ties half.
fn won(x: &[f64], y: &[f64], picks: &[f64]) -> f64 {
    let pair = |&i: &f64| {
        let d = x[i as usize] - y[i as usize];
        if d.abs() <= SAME { 0.5 } else { f64::from(d > 0.0) }
    };
    picks.iter().map(pair).sum::<f64>() / picks.len() as f64
}

/// Everyone's standing against competitor 0.
///
/// `None` when there are fewer than two runs.
pub(super) fn standings(scores: &[Vec<Vec<f64>>], bootstrap: Bootstrap) -> Option<Vec<Standing>> {
    let (n, tasks) = (scores.len(), scores[0].len());
    // What is drawn is the number of the run, the same for every competitor.
    let numbers: Vec<Vec<f64>> =
        scores[0].iter().map(|runs| (0..runs.len()).map(|i| i as f64).collect()).collect();
    let fixed = || {
        bootstrap.intervals(&numbers, |drawn| {
            let means = drawn_means(scores, drawn);
            let levels: Vec<f64> = means.iter().map(|row| mean(row)).collect();
            let mut all = levels.clone();
            all.extend(levels.iter().map(|level| level - levels[0]));
            all.extend(scores.iter().map(|of| {
                mean(&(0..tasks).map(|t| won(&of[t], &scores[0][t], &drawn[t])).collect::<Vec<_>>())
            }));
            all.extend(places(&levels));
            all.extend(means.iter().flat_map(|row| row.iter().zip(&means[0]).map(|(a, b)| a - b)));
            all
        })
    };
    let with_tasks = || {
        let mut strata = numbers.clone();
        strata.push((0..tasks).map(|t| t as f64).collect());
        bootstrap.intervals(&strata, |drawn| {
            let means = drawn_means(scores, &drawn[..tasks]);
            let level =
                |row: &Vec<f64>| mean(&drawn[tasks].iter().map(|&t| row[t as usize]).collect::<Vec<_>>());
            places(&means.iter().map(level).collect::<Vec<_>>())
        })
    };
    let tests = || -> Option<Vec<f64>> {
        let flat: Vec<Vec<f64>> = scores.iter().map(|tasks| tasks.concat()).collect();
        let test = |c: usize| Some(paired_permutation(&flat[c], &flat[0], FLIPS, bootstrap.seed)?.p);
        (1..n).into_par_iter().map(test).collect()
    };
    let (fixed, (with_tasks, tests)) = rayon::join(fixed, || rayon::join(with_tasks, tests));
    let (fixed, with_tasks, tests) = (fixed?, with_tasks?, tests?);
    let p = tests;
    let corrected = holm(&p);
    let standing = |c: usize| Standing {
        level: fixed[c],
        gain: fixed[n + c],
        improvement: fixed[2 * n + c],
        rank: fixed[3 * n + c],
        over_tasks: OverTasks::new(&mids(&fixed[4 * n + c * tasks..][..tasks])),
        gains: fixed[4 * n + c * tasks..][..tasks].to_vec(),
        rank_over_tasks: with_tasks[c],
        p: if c == 0 { 1.0 } else { p[c - 1] },
        p_holm: if c == 0 { 1.0 } else { corrected[c - 1] },
    };
    Some((0..n).map(standing).collect())
}

fn mids(intervals: &[Interval]) -> Vec<f64> {
    intervals.iter().map(|i| i.mid).collect()
}

/// Competitors, best first.
pub(super) fn order(standings: &[Standing]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..standings.len()).collect();
    order.sort_by(|&a, &b| standings[a].rank.mid.total_cmp(&standings[b].rank.mid));
    order
}

/// Groups of competitors whose every run is the same, with more than one member.
pub(super) fn identical(scores: &[Vec<Vec<f64>>]) -> Vec<Vec<usize>> {
    let same = |a: usize, b: usize| {
        let pairs = scores[a].iter().flatten().zip(scores[b].iter().flatten());
        pairs.into_iter().all(|(x, y)| (x - y).abs() <= SAME)
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for c in 0..scores.len() {
        match groups.iter_mut().find(|group| same(group[0], c)) {
            Some(group) => group.push(c),
            None => groups.push(vec![c]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// Scores with a common part per pair and a part of the competitor's own.
    fn planted(gains: &[f64]) -> Vec<Vec<Vec<f64>>> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
        let mut noise = |scale: f64| scale * (rng.random::<f64>() - 0.5);
        let common: Vec<Vec<f64>> = (0..6).map(|_| (0..40).map(|_| 0.5 + noise(0.4)).collect()).collect();
        let own = |gain: &f64| {
            common.iter().map(|runs| runs.iter().map(|x| x + gain + noise(0.02)).collect()).collect()
        };
        gains.iter().map(own).collect()
    }

    #[test]
    fn a_planted_better_method_ranks_first_and_equals_share_their_places() {
        let scores = planted(&[0.0, 0.0, 0.05, -0.05]);
        let all = standings(&scores, Bootstrap { resamples: 400, ..Bootstrap::default() }).unwrap();
        assert_eq!(order(&all)[0], 2);
        assert_eq!((all[2].rank.low, all[2].rank.mid, all[2].rank.high), (1.0, 1.0, 1.0));
        assert_eq!((all[3].rank.low, all[3].rank.high), (4.0, 4.0));
        assert_eq!((all[1].rank.low, all[1].rank.high), (2.0, 3.0));
        assert_eq!(all.iter().map(Standing::sign).collect::<Vec<_>>(), [0, 0, 1, -1]);
        assert!((all[2].gain.mid - 0.05).abs() < 0.01 && all[2].gain.low > 0.03, "{:?}", all[2].gain);
        assert!(all[2].improvement.low > 0.95 && all[3].improvement.high < 0.05);
        assert_eq!((all[2].better().len(), all[3].worse().len()), (6, 6));
        assert!(identical(&scores).is_empty());
    }

    #[test]
    fn common_random_numbers_pair_the_runs() {
        let scores = planted(&[0.0, 0.05]);
        let width = |scores: &[Vec<Vec<f64>>]| {
            standings(scores, Bootstrap { resamples: 400, ..Bootstrap::default() }).unwrap()[1].gain.width()
        };
        let mut unpaired = scores.clone();
        unpaired[1].iter_mut().for_each(|runs| runs.rotate_left(7));
        // The common part, 20 times as wide as the own one, is in the difference only without pairs.
        assert!(width(&scores) * 4.0 < width(&unpaired), "{} {}", width(&scores), width(&unpaired));
    }

    #[test]
    fn the_same_update_under_two_names_is_one_place() {
        let mut scores = planted(&[0.0, 0.05]);
        scores.push(scores[1].clone());
        scores[2][0][0] += 1e-14;
        let all = standings(&scores, Bootstrap { resamples: 50, ..Bootstrap::default() }).unwrap();
        assert_eq!((all[1].rank.mid, all[2].rank.mid, all[0].rank.mid), (1.5, 1.5, 3.0));
        assert_eq!(identical(&scores), [[1, 2]]);
        assert!(standings(&[vec![vec![1.0]]], Bootstrap::default()).is_none());
    }
}
