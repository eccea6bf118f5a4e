//! The efficiency `η` of weights over that of uniform weights, on families of MDPs that did not choose them.

use grpo_lambda_mdp::Tabular;
use grpo_lambda_stats::{Interval, OverTasks, mean};
use rayon::prelude::*;

use super::instances::{families, family, stages};
use super::quadratic::{Quadratic, solve};
use super::spans::{SPANS, Span};
use crate::experiments::common::vectors::dot;
use crate::training::GROUP;
use crate::training::task::Task;

/// The moments of every span at every policy.
pub(super) struct Moments<'t> {
    tasks: &'t [Task],
    pub(super) families: Vec<String>,
    /// `[span][task][stage]`; the first span is uniform.
    quadratics: Vec<Vec<Vec<Quadratic>>>,
}

/// The comparison in efficiency of one span.
pub(super) struct Efficiency {
    pub(super) span: &'static Span,
    /// Geometric mean over families of `η/η(uniform)`, each family held out; log.
    pub(super) held_out: OverTasks,
    /// Geometric mean with `α` chosen on all families; log.
    pub(super) in_sample: f64,
    /// Per family, log, held out.
    pub(super) families: Vec<f64>,
    /// Policies at which the expected update, `α` chosen elsewhere, points away from `∇J`.
    pub(super) astray: usize,
    /// `α` chosen on all families, first entry 1 where it is not 0.
    pub(super) alpha: Vec<f64>,
}

/// The policies at which the moments are taken, by task.
pub(super) fn policies(tasks: &[Task]) -> Vec<Vec<Tabular>> {
    tasks.par_iter().map(stages).collect()
}

impl<'t> Moments<'t> {
    pub(super) fn new(tasks: &'t [Task], policies: &[Vec<Tabular>]) -> Moments<'t> {
        let of_span = |span: &Span| {
            let of_task = |(task, policies): (&Task, &Vec<Tabular>)| {
                policies.iter().map(|p| Quadratic::new(&task.tree, p, span.features, GROUP)).collect()
            };
            tasks.iter().zip(policies).map(of_task).collect()
        };
        Moments { tasks, families: families(tasks), quadratics: SPANS.par_iter().map(of_span).collect() }
    }

    /// The places of a family's tasks.
    fn members<'a>(&'a self, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        (0..self.tasks.len()).filter(move |&t| family(&self.tasks[t]) == name)
    }

    /// `α` of a span, chosen on every family but one; families weigh the same, and so do the policies of one.
    pub(super) fn fit(&self, span: usize, without: Option<&str>) -> Vec<f64> {
        if !SPANS[span].fitted {
            return vec![1.0];
        }
        let mut all = Vec::new();
        for name in self.families.iter().filter(|name| Some(name.as_str()) != without) {
            let members: Vec<&Quadratic> =
                self.members(name).flat_map(|t| &self.quadratics[span][t]).collect();
            let weight = 1.0 / members.len() as f64;
            all.extend(members.into_iter().map(|q| (q, weight)));
        }
        choose(&all)
    }

    /// `None` when a family has no policy with a gradient.
    pub(super) fn efficiency(&self, span: usize) -> Option<Efficiency> {
        let all = self.fit(span, None);
        let (mut held_out, mut in_sample, mut astray) = (Vec::new(), Vec::new(), 0);
        for name in &self.families {
            let alpha = self.fit(span, Some(name));
            let ratio = |alpha: &[f64]| {
                let ratios = self.members(name).flat_map(|t| self.ratios(span, t, alpha));
                mean(&ratios.collect::<Vec<f64>>())
            };
            held_out.push(ratio(&alpha)?);
            in_sample.push(ratio(&all)?);
            let members = self.members(name).flat_map(|t| &self.quadratics[span][t]);
            astray += members.filter(|q| dot(&q.b, &alpha) <= 0.0).count();
        }
        let first = if all[0].abs() > 1e-9 { all[0] } else { 1.0 };
        Some(Efficiency {
            span: &SPANS[span],
            held_out: OverTasks::new(&held_out)?,
            in_sample: mean(&in_sample)?,
            families: held_out,
            astray,
            alpha: all.iter().map(|a| a / first).collect(),
        })
    }

    /// `log η/η(uniform)` of weights `alpha` at every policy of a task.
    fn ratios(&self, span: usize, task: usize, alpha: &[f64]) -> Vec<f64> {
        let ratio = |(own, uniform): (&Quadratic, &Quadratic)| {
            // An update that points away has no good step size: counted as next to nothing.
            let eta = if dot(&own.b, alpha) > 0.0 { own.efficiency(alpha) } else { 0.0 };
            (eta.max(1e-6) / uniform.efficiency(&[1.0])).ln()
        };
        self.quadratics[span][task].iter().zip(&self.quadratics[0][task]).map(ratio).collect()
    }

    /// The best weight per prefix of each policy, known to the oracle: log of `η/η(uniform)`.
    pub(super) fn ceiling(&self) -> Option<Interval> {
        let of_family = |name: &String| {
            let members = self.members(name).flat_map(|t| &self.quadratics[0][t]);
            mean(&members.map(|q| (q.ceiling / q.efficiency(&[1.0])).ln()).collect::<Vec<_>>())
        };
        let all: Vec<f64> = self.families.iter().map(of_family).collect::<Option<_>>()?;
        Some(OverTasks::new(&all)?.interval)
    }
}

/// `α` that maximises the mean of `log η` over `all`, each with its weight.
///
/// ```text
/// 0 = Σ_m w_m ( b_m / (b_m·α) - M_m α / (αᵀM_mα) )     is solved by iterating
/// α ← ( Σ_m w_m M_m / (αᵀM_mα) )⁻¹ Σ_m w_m b_m / (b_m·α)
/// ```
/// On one MDP that is `M⁻¹b` at the first step. A learning rate is tuned per task, so that only the shape of `α` counts: `log η` does
/// not see its length.
pub(super) fn choose(all: &[(&Quadratic, f64)]) -> Vec<f64> {
    let n = all.first().map_or(0, |(q, _)| q.b.len());
    let mut alpha: Vec<f64> = (0..n).map(|j| f64::from(j == 0)).collect();
    let mut best = (score(all, &alpha), alpha.clone());
    for _ in 0..300 {
        let (mut m, mut b) = (vec![vec![0.0; n]; n], vec![0.0; n]);
        for (q, weight) in all {
            let (along, spread) = (dot(&q.b, &alpha), q.spread(&alpha));
            for j in 0..n {
                b[j] += weight * q.b[j] / along;
                for k in 0..n {
                    m[j][k] += weight * q.m[j][k] / spread;
                }
            }
        }
        let next = solve(m, b);
        let norm = dot(&next, &next).sqrt();
        if !norm.is_finite() || norm == 0.0 {
            break;
        }
        // Half way: the full step may run to and fro.
        let before = dot(&alpha, &alpha).sqrt();
        alpha = alpha.iter().zip(&next).map(|(a, x)| 0.5 * a / before + 0.5 * x / norm).collect();
        let now = score(all, &alpha);
        if now > best.0 {
            best = (now, alpha.clone());
        }
    }
    best.1
}

/// The mean of `log η`; minus infinity where an update points away from `∇J`.
fn score(all: &[(&Quadratic, f64)], alpha: &[f64]) -> f64 {
    let log_efficiency = |(q, weight): &(&Quadratic, f64)| {
        if dot(&q.b, alpha) > 0.0 { weight * q.efficiency(alpha).ln() } else { f64::NEG_INFINITY }
    };
    all.iter().map(log_efficiency).sum()
}

#[cfg(test)]
mod tests {
    use super::super::spans::find;
    use super::*;
    use crate::atlas::tasks::tasks;

    #[test]
    fn on_one_policy_it_is_the_closed_form_and_on_several_no_neighbour_is_better() {
        let span = find("start and entropy").unwrap();
        let tasks = tasks(false).unwrap();
        let all: Vec<Quadratic> =
            tasks[7..11].iter().map(|t| Quadratic::new(&t.tree, &t.start, span.features, 8)).collect();
        let one = choose(&[(&all[3], 1.0)]);
        assert!((all[3].efficiency(&one) - all[3].efficiency(&all[3].best())).abs() < 1e-9);
        let weighted: Vec<(&Quadratic, f64)> = all.iter().map(|q| (q, 0.25)).collect();
        let alpha = choose(&weighted);
        let top = score(&weighted, &alpha);
        let size = dot(&alpha, &alpha).sqrt();
        for j in 0..alpha.len() {
            for step in [-0.01, 0.01] {
                let mut moved = alpha.clone();
                moved[j] += step * size;
                assert!(score(&weighted, &moved) <= top + 1e-7, "feature {j}");
            }
        }
    }
}
