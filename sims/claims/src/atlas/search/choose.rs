//! The weights of a span that are best over several policies.

use super::quadratic::{Quadratic, solve};
use crate::experiments::common::vectors::dot;

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
    let of = |(q, weight): &(&Quadratic, f64)| {
        if dot(&q.b, alpha) > 0.0 { weight * q.efficiency(alpha).ln() } else { f64::NEG_INFINITY }
    };
    all.iter().map(of).sum()
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
