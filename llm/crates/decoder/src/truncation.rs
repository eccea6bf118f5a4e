//! Sampling from the most probable tokens only: top-k and top-p.
//!
//! For generation. Training samples from the whole distribution: a truncated one gives a token the log-probability `log pi(a) - log (mass
//! kept)`, the trainer computes `log pi(a)`, and the ratio of the two would carry the mass cut off into every update.

/// The tokens that may be drawn.
///
/// ```text
/// top_k    the k most probable
/// top_p    of those, renormalised, the fewest whose probabilities add up to p, most probable first
/// ```
/// Equal probabilities are taken in the order of ids. What is kept is renormalised.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Truncation {
    /// Most tokens, at least 1.
    pub top_k: Option<usize>,
    /// Mass that their probabilities must reach, in `(0, 1]`.
    pub top_p: Option<f64>,
}

impl Truncation {
    /// True if every token may be drawn.
    pub fn is_none(self) -> bool {
        self == Truncation::default()
    }

    /// Sets the scores of tokens that are cut off to minus infinity; `scores` are log-probabilities at the sampling
    /// temperature, up to a common constant.
    ///
    /// ```
    /// use grpo_lambda_decoder::truncation::Truncation;
    /// let mut scores = [0.5f32, 0.25, 0.15, 0.1].map(f32::ln);
    /// Truncation { top_k: None, top_p: Some(0.6) }.apply(&mut scores);
    /// assert_eq!(scores.map(f32::is_finite), [true, true, false, false]);
    /// ```
    pub fn apply(self, scores: &mut [f32]) {
        if self.is_none() {
            return;
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        let mut kept = self.top_k.unwrap_or(scores.len()).clamp(1, scores.len().max(1)).min(scores.len());
        if let (Some(p), Some(&first)) = (self.top_p, order.first()) {
            let top = f64::from(scores[first]);
            let mass = |i: usize| (f64::from(scores[i]) - top).exp();
            let wanted = p * order[..kept].iter().map(|&i| mass(i)).sum::<f64>();
            let mut sum = 0.0;
            let enough = |&i: &usize| {
                sum += mass(i);
                sum >= wanted
            };
            kept = order[..kept].iter().position(enough).map_or(kept, |last| last + 1);
        }
        order[kept..].iter().for_each(|&i| scores[i] = f32::NEG_INFINITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::rng::{Address, Purpose};

    const P: [f32; 4] = [0.15, 0.5, 0.1, 0.25];

    fn kept(top_k: Option<usize>, top_p: Option<f64>) -> [bool; 4] {
        let mut scores = P.map(|p| p.ln() + 3.0); // a constant changes nothing
        Truncation { top_k, top_p }.apply(&mut scores);
        scores.map(f32::is_finite)
    }

    #[test]
    fn tokens_kept_are_those_counted_by_hand() {
        let [a, b, c, d] = [true; 4];
        assert_eq!(kept(None, None), [a, b, c, d]);
        assert_eq!(kept(Some(1), None), [false, b, false, false]);
        assert_eq!(kept(Some(3), None), [a, b, false, d]);
        assert_eq!(kept(Some(9), None), [a, b, c, d]);
        // 0.5 + 0.25 = 0.75 is short of 0.8, 0.9 is not.
        assert_eq!(kept(None, Some(0.8)), [a, b, false, d]);
        assert_eq!(kept(None, Some(0.45)), [false, b, false, false]);
        assert_eq!(kept(None, Some(1.0)), [a, b, c, d]);
        // Of the three most probable, renormalised by 0.9: 0.556 + 0.278 = 0.833 reaches 0.8.
        assert_eq!(kept(Some(3), Some(0.8)), [false, b, false, d]);
        let mut large = P.map(|p| p.ln() + 500.0);
        Truncation { top_k: None, top_p: Some(0.8) }.apply(&mut large);
        assert_eq!(large.map(f32::is_finite), [a, b, false, d]);
        let mut equal = [0.0f32; 4];
        Truncation { top_k: Some(2), top_p: None }.apply(&mut equal);
        assert_eq!(equal.map(f32::is_finite), [true, true, false, false]);
    }

    #[test]
    fn what_is_kept_is_drawn_with_renormalised_probabilities() {
        let mut scores = P.map(f32::ln);
        Truncation { top_k: None, top_p: Some(0.7) }.apply(&mut scores);
        let n = 20_000;
        let mut counts = [0.0; 4];
        for i in 0..n {
            let u = Address::new(2, Purpose::Evaluation).unit(i);
            counts[Distribution::new(&scores, 1.0).expect("finite scores").token(u)] += 1.0 / n as f64;
        }
        for (found, expected) in counts.into_iter().zip([0.0, 2.0 / 3.0, 0.0, 1.0 / 3.0]) {
            assert!((found - expected).abs() < 0.01 && (expected > 0.0 || found == 0.0), "{counts:?}");
        }
    }
}
