//! The families of weights that are searched.

use super::quadratic::{Features, Token};

/// Weights `w = Σ_j α_j φ_j`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) name: &'static str,
    /// True if a weight depends on the prefix only: the expected update is `∇J` with a factor per prefix, whatever the lengths.
    pub(super) by_prefix: bool,
    /// True if it can be computed during training, from a response and the entropies.
    pub(super) trainable: bool,
    /// `φ`; the first feature is 1 everywhere where [`Span::fitted`], and alone where not.
    pub(super) features: Features,
    /// True if `α` is chosen on training tasks; else there is one feature.
    pub(super) fitted: bool,
}

/// Column sum of the decayed trace: `Σ_{k<n} q^k`.
fn geometric(q: f64, n: usize) -> f64 {
    (1.0 - q.powi(n as i32)) / (1.0 - q)
}

fn power(q: f64, n: usize) -> f64 {
    q.powi(n as i32)
}

const fn fitted(name: &'static str, by_prefix: bool, features: Features) -> Span {
    Span { name, by_prefix, trainable: true, features, fitted: true }
}

const fn fixed(name: &'static str, by_prefix: bool, trainable: bool, features: Features) -> Span {
    Span { name, by_prefix, trainable, features, fitted: false }
}

/// The name of weights that are 1 everywhere.
pub(super) const UNIFORM: &str = "uniform (RLOO)";

/// All of them; the first is what the others are compared with.
pub(super) static SPANS: &[Span] = &[
    fixed(UNIFORM, true, true, |_| vec![1.0]),
    fixed("1/T (GRPO)", false, true, |x| vec![1.0 / x.len as f64]),
    fixed("recent 0.9 (GRPO-λ)", false, true, |x| vec![geometric(0.9, x.len - x.t)]),
    fixed("recent 0.99 (GRPO-λ)", false, true, |x| vec![geometric(0.99, x.len - x.t)]),
    fixed("both 0.99 (GRPO-λ)", false, true, |x| {
        let tail = x.len - 1 - x.t;
        let early = x.len.saturating_sub(1 + 2 * x.t) as f64;
        vec![geometric(0.99, x.t.min(tail) + 1) + early * power(0.99, x.t)]
    }),
    fixed("recent 0.99, fixed horizon", true, true, |x| vec![geometric(0.99, x.longest - x.t)]),
    fixed("recent 0.99, expected given the prefix", true, false, |x| vec![(1.0 - x.decay) / 0.01]),
    fitted("decay from the start", true, |x| vec![1.0, power(0.8, x.t), power(0.5, x.t)]),
    fitted("decay from the end", false, |x| {
        let left = x.len - 1 - x.t;
        vec![1.0, power(0.8, left), power(0.5, left)]
    }),
    fitted("length of the response", false, |x| {
        let len = x.len as f64;
        vec![1.0, 1.0 / len, 1.0 / len.sqrt()]
    }),
    fitted("traces of GRPO-λ", false, |x| {
        let left = x.len - x.t;
        vec![1.0, geometric(0.5, left), geometric(0.9, left), geometric(0.99, left)]
    }),
    fitted("entropy", true, |x| vec![1.0, x.entropy, x.entropy * x.entropy]),
    fitted("start and entropy", true, |x| {
        vec![1.0, power(0.8, x.t), power(0.5, x.t), x.entropy, x.entropy * power(0.5, x.t)]
    }),
    fixed("own probability π", false, true, |x| vec![x.probability]),
    fixed("own probability π²", false, true, |x| vec![x.probability * x.probability]),
    fitted("1 and own probability", false, |x| vec![1.0, x.probability]),
    fitted("own probability, quadratic", false, |x| vec![1.0, x.probability, x.probability * x.probability]),
    fitted("everything", false, everything),
];

fn everything(x: &Token) -> Vec<f64> {
    let (left, len) = (x.len - 1 - x.t, x.len as f64);
    vec![
        1.0,
        power(0.8, x.t),
        power(0.5, x.t),
        power(0.8, left),
        power(0.5, left),
        1.0 / len,
        x.entropy,
        x.entropy * power(0.5, x.t),
        x.probability,
    ]
}

/// The span of a name.
#[cfg(test)]
pub(super) fn find(name: &str) -> Option<&'static Span> {
    SPANS.iter().find(|s| s.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::trace::{Both, Recent, Trace};

    #[test]
    fn the_weights_of_grpo_lambda_are_its_column_sums() {
        for len in [1, 2, 5, 12] {
            for t in 0..len {
                let token = Token { t, len, entropy: 0.3, probability: 0.5, longest: 12, decay: 0.9 };
                let weight = |name: &str| (find(name).unwrap().features)(&token)[0];
                let recent = Recent { q: 0.99 }.column_sums(len)[t];
                let both = Both { q: 0.99 }.column_sums(len)[t];
                assert!((weight("recent 0.99 (GRPO-λ)") - recent).abs() < 1e-10);
                assert!((weight("both 0.99 (GRPO-λ)") - both).abs() < 1e-10, "{len} {t}");
                assert!(
                    (weight("recent 0.99, fixed horizon") - Recent { q: 0.99 }.column_sums(12)[t]).abs()
                        < 1e-10
                );
            }
        }
    }

    #[test]
    fn features_named_by_prefix_do_not_see_the_rest_of_the_response() {
        let token = |len| Token { t: 2, len, entropy: 0.7, probability: 0.5, longest: 12, decay: 0.9 };
        for span in SPANS.iter().filter(|s| s.by_prefix) {
            assert_eq!((span.features)(&token(4)), (span.features)(&token(9)), "{}", span.name);
        }
        assert!(SPANS.iter().all(|s| s.fitted || (s.features)(&token(5)).len() == 1));
    }
}
