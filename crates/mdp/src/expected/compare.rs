//! [`compare`]: an expected update against the policy gradient, in a few numbers.

use super::Expected;
use crate::Oracle;

/// Distance of an expected update from a positive multiple of the policy gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Cosine between `E[g]` and `∇J`, in `[-1, 1]`; NaN when either is 0.
    pub cosine: f64,
    /// The multiple `κ = <E[g], ∇J> / <∇J, ∇J>` that fits best.
    pub scale: f64,
    /// The relative rest: `|E[g] - κ ∇J| / |κ ∇J|`. 0 for an update unbiased up to scale.
    pub bias: f64,
    /// Share of visits (weighted by `b(s,a)`) at which the centred credit `ω(s,a) - Σ π ω` has the sign of `A(s,a)`, among edges with `A ≠ 0`.
    pub sign_agreement: f64,
    /// Signal to noise: `|E[g]|^2 / tr Cov(g)`, for one group.
    pub signal_to_noise: f64,
}

impl Comparison {
    /// The mean squared error of one group's update as an estimate of `∇J`, at the multiple that serves it best, relative to `|∇J|²`:
    ///
    /// ```text
    /// min_(c >= 0) E|c g - ∇J|² / |∇J|²  =  1 - max(cosine, 0)² s / (1 + s),      s = signal_to_noise
    /// ```
    /// In `[0, 1]`: 1 for an update that is no help at any learning rate, as one of pure noise or one that points away from `∇J`.
    pub fn mean_squared_error(&self) -> f64 {
        // s / (1 + s), which is 1 for an update without noise.
        let share = 1.0 / (1.0 + 1.0 / self.signal_to_noise);
        1.0 - self.cosine.max(0.0).powi(2) * share
    }
}

/// Cosine of the angle between two vectors; NaN when either is 0.
pub fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Compares `expected` with the exact gradient and advantages of `oracle`'s policy.
pub fn compare(expected: &Expected, oracle: &Oracle) -> Comparison {
    let grad = oracle.grad_j();
    let scale = dot(&expected.update, &grad) / dot(&grad, &grad);
    let rest: Vec<f64> = expected.update.iter().zip(&grad).map(|(u, g)| u - scale * g).collect();
    let norm = |v: &[f64]| dot(v, v).sqrt();
    let (mut agree, mut all) = (0.0, 0.0);
    for node in oracle.tree.nodes() {
        let edges = oracle.tree.edges_of(node);
        let mean: f64 = edges.clone().map(|e| oracle.probs[e] * expected.credit[e]).sum();
        for edge in edges {
            let (a, credit) = (oracle.advantage(edge), expected.credit[edge] - mean);
            // Rounding leaves about 1e-16 where the advantage is 0.
            if a.abs() > 1e-12 {
                all += oracle.edge_visit(edge);
                agree += if a * credit > 0.0 { oracle.edge_visit(edge) } else { 0.0 };
            }
        }
    }
    Comparison {
        cosine: cosine(&expected.update, &grad),
        scale,
        bias: norm(&rest) / (scale.abs() * norm(&grad)),
        sign_agreement: agree / all,
        signal_to_noise: dot(&expected.update, &expected.update) / expected.total_variance(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expected::{Situation, implied};
    use crate::zoo;
    use grpo_lambda::methods;

    /// `E|c g - ∇J|² = c² (|m|² + tr Cov) - 2 c <m, ∇J> + |∇J|²`, over a grid of multiples.
    #[test]
    fn the_mean_squared_error_is_the_least_over_all_multiples() {
        for (task, method, settings) in [
            ("pivot", "rloo", ""),
            ("eos_hazard_dependent", "grpo_lambda", "lambda=0.99"),
            ("fork", "grpo_lambda", ""),
        ] {
            let named = zoo::find(task).expect("known");
            let tree = (named.build)();
            let policy = (named.initial)(&tree);
            let method = methods::parse(method, settings).expect("valid").method;
            let expected = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, 4)).expect("small");
            let oracle = Oracle::new(&tree, &policy);
            let (m, grad) = (&expected.update, oracle.grad_j());
            let square = dot(m, m) + expected.total_variance();
            let error = |c: f64| c * c * square - 2.0 * c * dot(m, &grad) + dot(&grad, &grad);
            let unit = (dot(&grad, &grad) / square).sqrt();
            let least =
                (0..=200_000).map(|i| error(unit * f64::from(i) * 1e-5)).fold(f64::INFINITY, f64::min);
            let found = compare(&expected, &oracle).mean_squared_error();
            assert!((found - least / dot(&grad, &grad)).abs() < 1e-9, "{task}: {found} for {least}");
        }
    }

    #[test]
    fn an_update_that_points_away_is_no_help_at_any_rate() {
        let at = |cosine, signal_to_noise| Comparison {
            cosine,
            scale: 1.0,
            bias: 0.0,
            sign_agreement: 1.0,
            signal_to_noise,
        };
        assert_eq!(at(-0.9, f64::INFINITY).mean_squared_error(), 1.0);
        assert_eq!(at(1.0, f64::INFINITY).mean_squared_error(), 0.0);
        assert_eq!(at(1.0, 1.0).mean_squared_error(), 0.5);
        assert_eq!(at(1.0, 0.0).mean_squared_error(), 1.0);
    }
}
