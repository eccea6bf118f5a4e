//! An expected update taken apart, against the policy gradient.
//!
//! With `m = E[g]`, `m_s` and `∇_s` the parts of `m` and `∇J` that belong to the logits of prefix `s`, and `T = tr Cov g`,
//!
//! ```text
//! κ    = <m, ∇J> / |∇J|²                    the scale: the multiple of the gradient that fits best
//! κ(s) = <m_s, ∇_s> / |∇_s|²                the same prefix by prefix
//! m - κ ∇J  =  Σ_s (m_s - κ(s) ∇_s)  +  Σ_s (κ(s) - κ) ∇_s          orthogonal: direction within prefixes, rescaling between them
//! bias² = |m - κ ∇J|² / |κ ∇J|² = direction² + rescaling² = 1/cos² - 1
//! ```
//!
//! The error of one update `g` at the best step size `c ≥ 0`:
//!
//! ```text
//! MSE = min_c E|c g - ∇J|² / |∇J|²,      c = <m, ∇J> / (|m|² + T)
//!     = |c m - ∇J|² / |∇J|²  +  c² T / |∇J|²          bias part + variance part
//!     = 1 - <m, ∇J>² / (|∇J|² (|m|² + T))
//! ```
//! 1 is the error of no update at all; it is reached where `<m, ∇J> ≤ 0`, with `c = 0`.
//!
//! Where `m` is the mean of independent draws `m_j`, every quadratic form `q` of it is taken without the noise it adds,
//! `q(m) - Σ_j q(m_j - m) / (n(n-1))`, and the cosine has a jackknife standard error.

use super::expectation::Expectation;
use super::row::Column;
use crate::experiments::common::dot;
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Expected, compare};

/// A prefix counts among the extremes of `κ(s)` and as reversed when its part of the gradient is at least this share of the whole.
const COUNTS: f64 = 1e-3;

/// The gradient prefix by prefix.
struct Prefixes {
    gradient: Vec<f64>,
    /// Edges and `|∇_s|²` of the prefixes where the gradient is not 0, with `d(s)`.
    parts: Vec<(std::ops::Range<usize>, f64, f64)>,
    /// `|∇J|²`.
    square: f64,
}

/// Quadratic forms of a vector `v`: `|v|²`, `Σ_s <v_s, ∇_s>²/|∇_s|²`, `<v, ∇J>²/|∇J|²`.
type Forms = [f64; 3];

impl Prefixes {
    fn new(oracle: &Oracle) -> Prefixes {
        let gradient = oracle.grad_j();
        let square = dot(&gradient, &gradient);
        let part = |node| {
            let edges = oracle.tree.edges_of(node);
            let own = dot(&gradient[edges.clone()], &gradient[edges.clone()]);
            // Rounding leaves about 1e-32 where the gradient is 0.
            (own > 1e-24 * square).then_some((edges, own, oracle.visit[node]))
        };
        let parts = oracle.tree.nodes().filter_map(part).collect();
        Prefixes { gradient, parts, square }
    }

    /// `κ(s)` of every prefix of `parts`.
    fn kappas(&self, v: &[f64]) -> Vec<f64> {
        let kappa = |(edges, own, _): &(std::ops::Range<usize>, f64, f64)| {
            dot(&v[edges.clone()], &self.gradient[edges.clone()]) / own
        };
        self.parts.iter().map(kappa).collect()
    }

    fn forms(&self, v: &[f64]) -> Forms {
        let along: f64 = self.kappas(v).iter().zip(&self.parts).map(|(k, (_, own, _))| k * k * own).sum();
        [dot(v, v), along, dot(v, &self.gradient).powi(2) / self.square]
    }

    /// The forms of the mean of `draws` without the noise of it.
    fn forms_of(&self, mean: &[f64], draws: &[Vec<f64>]) -> Forms {
        let mut forms = self.forms(mean);
        let n = draws.len() as f64;
        for draw in draws {
            let apart: Vec<f64> = draw.iter().zip(mean).map(|(d, m)| d - m).collect();
            for (form, noise) in forms.iter_mut().zip(self.forms(&apart)) {
                *form -= noise / (n * (n - 1.0));
            }
        }
        // |v|² is at least what lies along the gradient, up to noise.
        forms[2] = forms[2].max(0.0);
        forms[1] = forms[1].max(forms[2]);
        forms[0] = forms[0].max(forms[1]);
        forms
    }
}

/// Takes an expected update apart: its numbers by column; `None` if it is 0, and nothing but its spread means anything.
pub(super) fn anatomy(found: &Expectation, oracle: &Oracle) -> Option<Vec<(Column, f64)>> {
    let prefixes = Prefixes::new(oracle);
    let scale = dot(&found.update, &prefixes.gradient) / prefixes.square;
    let [total, along_prefixes, along] = prefixes.forms_of(&found.update, &found.draws);
    let second_moment = total + found.variance;
    if total <= 1e-24 * second_moment.max(prefixes.square) {
        return None;
    }
    let expected = Expected {
        update: found.update.clone(),
        credit: found.credit.clone(),
        variance: vec![found.variance],
    };
    let (rank_correlation, r_squared) = credit_agreement(&found.credit, oracle);
    let [kappa_min, kappa_max, kappa_cv, reversed] = prefix_multipliers(found, &prefixes, scale.abs());
    let shrink = if scale > 0.0 { along / second_moment } else { 0.0 };
    Some(vec![
        (Column::Cosine, (along / total).sqrt() * scale.signum()),
        (Column::CosineSe, jackknife(found, &prefixes)),
        (Column::Bias, ((total - along) / along).sqrt()),
        (Column::BiasDirection, ((total - along_prefixes) / along).sqrt()),
        (Column::BiasRescaling, ((along_prefixes - along) / along).sqrt()),
        (Column::Scale, scale),
        (Column::SignAgreement, compare(&expected, oracle).sign_agreement),
        (Column::KappaMin, kappa_min),
        (Column::KappaMax, kappa_max),
        (Column::KappaCv, kappa_cv),
        (Column::ReversedVisits, reversed),
        (Column::SignalToNoise, total / found.variance),
        (Column::Mse, 1.0 - shrink),
        // c = sqrt(along)/second_moment in units of 1/|∇J|; |c m - ∇J|² = c²|m|² - 2 c <m, ∇J> + |∇J|².
        (Column::MseBias, 1.0 - 2.0 * shrink + shrink * total / second_moment),
        (Column::MseVariance, shrink * found.variance / second_moment),
        (Column::MseSe, shrink / second_moment * found.variance_se),
        (Column::CreditRankCorrelation, rank_correlation),
        (Column::CreditR2, r_squared),
    ])
}

/// `κ(s)`: least and greatest relative to the scale, coefficient of variation over prefixes weighted by visits, share of visits at reversed ones.
fn prefix_multipliers(found: &Expectation, prefixes: &Prefixes, scale: f64) -> [f64; 4] {
    let kappas = prefixes.kappas(&found.update);
    let errors = standard_errors(found, prefixes, kappas.len());
    let weight: f64 = prefixes.parts.iter().map(|p| p.2).sum();
    let mean = |f: &dyn Fn(f64) -> f64| {
        kappas.iter().zip(&prefixes.parts).map(|(k, p)| p.2 * f(*k)).sum::<f64>() / weight
    };
    let centre = mean(&|k| k);
    let variation = mean(&|k| (k - centre).powi(2)).sqrt() / centre.abs();
    let (mut least, mut greatest, mut reversed) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
    for ((kappa, error), (_, own, visit)) in kappas.iter().zip(errors).zip(&prefixes.parts) {
        if *own < (COUNTS * COUNTS) * prefixes.square {
            continue;
        }
        least = least.min(kappa / scale);
        greatest = greatest.max(kappa / scale);
        // Rounding is no reversal, nor is what three standard errors allow.
        if *kappa < -3.0 * error - 1e-9 * scale {
            reversed += visit / weight;
        }
    }
    [least, greatest, variation, reversed]
}

/// Standard errors of `κ(s)`; 0 where the update is exact.
fn standard_errors(found: &Expectation, prefixes: &Prefixes, len: usize) -> Vec<f64> {
    let n = found.draws.len() as f64;
    let mut squares = vec![0.0; len];
    for draw in &found.draws {
        let apart: Vec<f64> = draw.iter().zip(&found.update).map(|(d, m)| d - m).collect();
        for (s, k) in squares.iter_mut().zip(prefixes.kappas(&apart)) {
            *s += k * k;
        }
    }
    if n > 1.0 {
        squares.iter_mut().for_each(|s| *s = (*s / (n * (n - 1.0))).sqrt());
    }
    squares
}

/// The jackknife standard error of the cosine; 0 where the update is exact.
fn jackknife(found: &Expectation, prefixes: &Prefixes) -> f64 {
    let n = found.draws.len() as f64;
    let without = |draw: &Vec<f64>| {
        let rest: Vec<f64> = found.update.iter().zip(draw).map(|(m, d)| (n * m - d) / (n - 1.0)).collect();
        let [total, _, along] = prefixes.forms(&rest);
        (along / total).sqrt()
    };
    let cosines: Vec<f64> = found.draws.iter().map(without).collect();
    let mean = cosines.iter().sum::<f64>() / n;
    let spread: f64 = cosines.iter().map(|c| (c - mean).powi(2)).sum();
    if found.draws.is_empty() { 0.0 } else { ((n - 1.0) / n * spread).sqrt() }
}

/// The implied credit, centred at each prefix, against the true advantage, over (prefix, token) pairs with a choice, weighted by their probability: rank
/// correlation (Spearman) and the share of the advantage's variance that a multiple of the credit explains.
fn credit_agreement(credit: &[f64], oracle: &Oracle) -> (f64, f64) {
    let tree = oracle.tree;
    let (mut own, mut truth, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for node in tree.nodes().filter(|&n| tree.edges_of(n).len() > 1) {
        let edges = tree.edges_of(node);
        let mean: f64 = edges.clone().map(|e| oracle.probs[e] * credit[e]).sum();
        for e in edges {
            own.push(credit[e] - mean);
            truth.push(oracle.advantage(e));
            weights.push(oracle.edge_visit(e));
        }
    }
    let sum =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).zip(&weights).map(|((a, b), w)| w * a * b).sum() };
    let r_squared = sum(&own, &truth).powi(2) / (sum(&own, &own) * sum(&truth, &truth));
    let (mut a, mut b) = (ranks(&own), ranks(&truth));
    let total: f64 = weights.iter().sum();
    for ranks in [&mut a, &mut b] {
        let mean = ranks.iter().zip(&weights).map(|(r, w)| r * w).sum::<f64>() / total;
        ranks.iter_mut().for_each(|r| *r -= mean);
    }
    (sum(&a, &b) / (sum(&a, &a) * sum(&b, &b)).sqrt(), r_squared)
}

/// Ranks; values equal up to rounding share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let unit = values.iter().fold(0.0f64, |m, v| m.max(v.abs())) * 1e-9;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let tied = |&&i: &&usize| values[i] - values[order[start]] <= unit;
        let end = start + order[start..].iter().take_while(tied).count();
        for &i in &order[start..end] {
            ranks[i] = (start + end - 1) as f64 / 2.0;
        }
        start = end;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_by_hand() {
        assert_eq!(ranks(&[0.3, -1.0, 0.3 + 1e-15, 7.0]), [1.5, 0.0, 1.5, 3.0]);
        assert_eq!(ranks(&[]), Vec::<f64>::new());
    }
}
