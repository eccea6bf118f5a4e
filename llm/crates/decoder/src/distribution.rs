//! [`Distribution`]: the categorical distribution that scores of tokens give, and the token with the largest score.

use crate::model::ops::real::Real;
use crate::model::ops::simd::kernel;
use crate::model::ops::sums::{max_of, sum_by};

/// Tokens whose masses are computed together.
const CHUNK: usize = 512;

/// Scores that cannot be sampled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// A NaN, or +infinity.
    #[error("the score of token {0} is NaN or +infinity")]
    NotANumber(usize),
    /// A NaN or +infinity, on a device that does not report the token.
    #[error("a score is NaN or +infinity")]
    Somewhere,
    /// No token has a finite score.
    #[error("no token has a finite score")]
    Empty,
}

/// The token with the largest score, the first of equals.
///
/// # Errors
/// [`ScoreError`].
pub fn greedy(scores: &[f32]) -> Result<usize, ScoreError> {
    let top = top(scores)?;
    scores.iter().position(|&x| x == top).ok_or(ScoreError::Empty)
}

/// The largest score.
fn top(scores: &[f32]) -> Result<f32, ScoreError> {
    match largest(scores) {
        top if top.is_nan() || top == f32::INFINITY => {
            let place = scores.iter().position(|&x| x.is_nan() || x == f32::INFINITY);
            Err(place.map_or(ScoreError::Somewhere, ScoreError::NotANumber))
        }
        f32::NEG_INFINITY => Err(ScoreError::Empty),
        top => Ok(top),
    }
}

kernel! {
    fn largest(scores: &[f32]) -> f32 {
        max_of(scores)
    }
}

kernel! {
    /// Writes the mass `e^z` of every score, with `z = (x - top) inverse`, and returns the sum of `z e^z`.
    fn write_masses(scores: &[f32], top: f64, inverse: f64, out: &mut [f64]) -> f64 {
        let z = |x: f32| (f64::from(x) - top) * inverse;
        for (out, &x) in out.iter_mut().zip(scores) {
            *out = Real::exp(z(x));
        }
        // A score of minus infinity has mass 0 and adds nothing, rather than 0 * inf.
        sum_by(scores.len(), |i| if out[i] > 0.0 { out[i] * z(scores[i]) } else { 0.0 })
    }
}

/// The categorical distribution `softmax(scores / temperature)`, drawn from by its inverse distribution function in id order.
///
/// Scores are log-probabilities or logits (a common constant changes nothing); `-infinity` means never. Exponentials and
/// their sum are taken in f64 from the smallest id upwards, so the same scores and number always give the same token.
///
/// ```
/// use grpo_lambda_decoder::distribution::Distribution;
/// let logps = [0.25f32.ln(), 0.5f32.ln(), 0.25f32.ln()];
/// let distribution = Distribution::new(&logps, 1.0).unwrap();
/// assert_eq!([0.2, 0.3, 0.7, 0.8].map(|u| distribution.token(u)), [0, 1, 1, 2]);
/// ```
#[derive(Clone, Debug)]
pub struct Distribution<'s> {
    scores: &'s [f32],
    top: f64,
    /// `1 / temperature`.
    inverse: f64,
    /// The sum of the masses before every chunk of tokens.
    before: Vec<f64>,
    total: f64,
    /// The sum of `z e^z`.
    slope: f64,
}

impl<'s> Distribution<'s> {
    /// The distribution of these scores at this temperature.
    ///
    /// # Errors
    /// [`ScoreError`].
    ///
    /// # Panics
    /// If `temperature` is not positive and finite.
    pub fn new(scores: &'s [f32], temperature: f32) -> Result<Self, ScoreError> {
        assert!(
            temperature > 0.0 && temperature.is_finite(),
            "temperature {temperature} is not positive and finite"
        );
        let (top, inverse) = (f64::from(top(scores)?), 1.0 / f64::from(temperature));
        let (mut total, mut slope, mut masses) = (0.0, 0.0, [0.0; CHUNK]);
        let mut before = Vec::with_capacity(scores.len().div_ceil(CHUNK));
        for chunk in scores.chunks(CHUNK) {
            before.push(total);
            slope += write_masses(chunk, top, inverse, &mut masses);
            total = masses[..chunk.len()].iter().fold(total, |sum, mass| sum + mass);
        }
        Ok(Distribution { scores, top, inverse, before, total, slope })
    }

    /// The scores.
    pub fn scores(&self) -> &'s [f32] {
        self.scores
    }

    /// The masses of the tokens of a chunk, in their order.
    fn masses(&self, chunk: usize) -> impl Iterator<Item = f64> + use<> {
        let start = chunk * CHUNK;
        let scores = &self.scores[start..self.scores.len().min(start + CHUNK)];
        let mut masses = [0.0; CHUNK];
        write_masses(scores, self.top, self.inverse, &mut masses);
        masses.into_iter().take(scores.len())
    }

    /// The token at `u`. The caller computes its log-probability, from `scores / temperature` as well.
    ///
    /// # Panics
    /// If `u` is outside `[0, 1)`.
    pub fn token(&self, u: f64) -> usize {
        assert!((0.0..1.0).contains(&u), "u = {u} is not in [0, 1)");
        let target = u * self.total;
        let chunk = self.before.partition_point(|before| *before <= target) - 1;
        let mut below = self.before[chunk];
        let passes = |mass| {
            below += mass;
            target < below
        };
        // The largest u, 1 - 2^-53, leaves at least half a unit in the last place of the sum: some token with mass passes.
        self.masses(chunk).position(passes).map_or(self.scores.len() - 1, |place| chunk * CHUNK + place)
    }

    /// The numbers at which [`Distribution::token`] gives `token`: where they begin, and their share of `[0, 1)`.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn interval(&self, token: usize) -> (f64, f64) {
        assert!(token < self.scores.len(), "token {token} of {}", self.scores.len());
        let mut masses = self.masses(token / CHUNK);
        let below =
            masses.by_ref().take(token % CHUNK).fold(self.before[token / CHUNK], |sum, mass| sum + mass);
        (below / self.total, masses.next().unwrap_or_default() / self.total)
    }

    /// The entropy in nats: with `S` the sum of masses, `ln S - sum z e^z / S`.
    pub fn entropy(&self) -> f64 {
        self.total.ln() - self.slope / self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Address, Purpose};
    use proptest::prelude::*;

    fn categorical(scores: &[f32], temperature: f32, u: f64) -> Result<usize, ScoreError> {
        Distribution::new(scores, temperature).map(|distribution| distribution.token(u))
    }

    #[test]
    fn sampled_frequencies_follow_the_tempered_softmax() {
        let scores = [1.0f32, -0.5, f32::NEG_INFINITY, 2.0];
        for temperature in [0.5f32, 1.0, 2.0] {
            let weights = scores.map(|x| f64::from(x / temperature).exp());
            let total: f64 = weights.iter().sum();
            let n = 20_000;
            let mut counts = [0.0; 4];
            for i in 0..n {
                let u = Address::new(1, Purpose::Rollout).unit(i);
                counts[categorical(&scores, temperature, u).expect("finite scores")] += 1.0;
            }
            for (count, weight) in counts.iter().zip(weights) {
                assert!((count / n as f64 - weight / total).abs() < 0.015, "{counts:?} at {temperature}");
            }
            assert_eq!(counts[2], 0.0);
        }
    }

    #[test]
    fn the_inverse_distribution_function_at_its_steps() {
        assert_eq!([0.0, 0.499, 0.5].map(|u| categorical(&[0.0, 0.0], 1.0, u)), [Ok(0), Ok(0), Ok(1)]);
        // Logits as large as they come: their exponentials are not numbers, those of their differences are.
        assert_eq!([0.2, 0.7].map(|u| categorical(&[1e30, 1e30], 1.0, u)), [Ok(0), Ok(1)]);
        // At the largest u the last token with mass is taken, however the sum of masses rounds.
        for smallest in 40..56 {
            let scores = [0.0, smallest as f32 * -std::f32::consts::LN_2, f32::NEG_INFINITY];
            let token = categorical(&scores, 1.0, 1.0 - f64::EPSILON / 2.0);
            assert_eq!(token, Ok(usize::from(smallest < 53)), "2^-{smallest}");
        }
    }

    #[test]
    fn a_token_has_the_interval_at_which_it_is_drawn() {
        let scores = [0.25f32.ln(), f32::NEG_INFINITY, 0.5f32.ln(), 0.25f32.ln()];
        let distribution = Distribution::new(&scores, 1.0).expect("finite scores");
        for (token, want) in [(0, (0.0, 0.25)), (2, (0.25, 0.5)), (3, (0.75, 0.25))] {
            let (below, share) = distribution.interval(token);
            assert!((below - want.0).abs() < 1e-7 && (share - want.1).abs() < 1e-7);
            assert_eq!(distribution.token(below + share / 2.0), token);
        }
    }

    /// Several chunks, against the definition with the library's exponential.
    #[test]
    fn chunks_change_neither_tokens_nor_intervals_nor_the_entropy() {
        let scores: Vec<f32> = (0..1300).map(|i| ((i * 7919 + 13) % 1009) as f32 / 150.0 - 3.0).collect();
        let distribution = Distribution::new(&scores, 0.8).expect("finite scores");
        let masses: Vec<f64> = scores.iter().map(|x| (f64::from(*x) / f64::from(0.8f32)).exp()).collect();
        let total: f64 = masses.iter().sum();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let mut below = 0.0;
        for (token, mass) in masses.iter().enumerate() {
            let (from, share) = distribution.interval(token);
            assert!(near(from, below / total) && near(share, mass / total), "token {token}");
            assert_eq!(distribution.token(from + share / 2.0), token);
            below += mass;
        }
        let entropy: f64 = masses.iter().map(|m| -m / total * (m / total).ln()).sum();
        assert!((distribution.entropy() - entropy).abs() < 1e-11, "{} {entropy}", distribution.entropy());
    }

    #[test]
    fn a_token_that_cannot_be_drawn_has_no_part_in_the_entropy() {
        let entropy = |scores: &[f32]| Distribution::new(scores, 1.0).expect("finite scores").entropy();
        assert_eq!(entropy(&[0.0, f32::NEG_INFINITY]), 0.0);
        assert!((entropy(&[0.5f32.ln(), f32::NEG_INFINITY, 0.5f32.ln()]) - 2f64.ln()).abs() < 1e-6);
    }

    #[test]
    fn scores_without_a_distribution_are_refused() {
        assert_eq!(categorical(&[0.0, f32::NAN], 1.0, 0.5), Err(ScoreError::NotANumber(1)));
        assert_eq!(categorical(&[f32::INFINITY], 1.0, 0.5), Err(ScoreError::NotANumber(0)));
        assert_eq!(categorical(&[f32::NEG_INFINITY; 3], 1.0, 0.5), Err(ScoreError::Empty));
        assert_eq!(greedy(&[]), Err(ScoreError::Empty));
        assert_eq!(greedy(&[1.0, 3.0, 3.0]), Ok(1));
    }

    proptest! {
        #[test]
        fn a_common_constant_changes_nothing_and_u_near_one_stays_inside(
            scores in proptest::collection::vec(-8i32..8, 1..20), u in 0.0..1.0f64, shift in -64i32..64,
        ) {
            let raw: Vec<f32> = scores.iter().map(|&x| x as f32 * 0.5).collect();
            let moved: Vec<f32> = raw.iter().map(|x| x + shift as f32).collect();
            prop_assert_eq!(categorical(&raw, 0.7, u), categorical(&moved, 0.7, u));
            prop_assert!(categorical(&raw, 0.7, 1.0 - f64::EPSILON / 2.0).is_ok());
        }
    }
}
