//! Counter-based random numbers: each is a pure function of its address.
//!
//! No generator is carried along: the number for token `position` of response `response` to prompt `prompt` in step
//! `step` is read from ChaCha8 at
//!
//! ```text
//! key    = seed (8 bytes) | purpose (8) | step (8) | prompt (8)     little endian
//! stream = response
//! words  = 2 position, 2 position + 1
//! ```
//!
//! so it cannot depend on which other responses are in the batch, on the number of threads, or on whether the run was
//! interrupted. Different addresses are different places of the cipher's output: nothing is hashed, so nothing can collide.

use grpo_lambda::systematic::Code;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The purpose of random numbers; two purposes never share numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Sampling training responses.
    Rollout,
    /// Sampling responses for evaluation.
    Evaluation,
    /// Drawing the problems of a task.
    Problems,
    /// Initial weights.
    Weights,
    /// Choosing the supervised examples that show worked steps.
    Demonstrations,
    /// The order in which a dataset is read.
    Order,
    /// Moving input embeddings for saliencies.
    Perturbation,
    /// Rewards that are drawn, as a control.
    Coin,
    /// Shifts of the sets of a systematic group.
    Shift,
}

impl Purpose {
    fn tag(self) -> [u8; 8] {
        *match self {
            Purpose::Rollout => b"rollout ",
            Purpose::Evaluation => b"evaluate",
            Purpose::Problems => b"problems",
            Purpose::Weights => b"weights ",
            Purpose::Demonstrations => b"demonstr",
            Purpose::Order => b"order   ",
            Purpose::Perturbation => b"perturb ",
            Purpose::Coin => b"coin    ",
            Purpose::Shift => b"shift   ",
        }
    }
}

/// The address of the random numbers of one response (or one problem, or one tensor).
///
/// ```
/// use grpo_lambda_decoder::rng::{Address, Purpose};
/// let address = Address::new(7, Purpose::Rollout).step(3).prompt(1).response(2);
/// let (first, third) = (address.unit(0), address.unit(2));
/// assert_eq!([address.unit(2), address.unit(0)], [third, first]); // any order, any number of times
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    seed: u64,
    purpose: Purpose,
    step: u64,
    prompt: u64,
    response: u64,
    /// The number from which the response is decoded, as 64 bits of which [`unit`] takes the first 53.
    code: Option<u64>,
}

impl Address {
    /// Step, prompt and response 0 of `purpose` under `seed`.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Address { seed, purpose, step: 0, prompt: 0, response: 0, code: None }
    }

    /// This address in another step.
    pub fn step(self, step: u64) -> Self {
        Address { step, ..self }
    }

    /// This address for another prompt.
    pub fn prompt(self, prompt: u64) -> Self {
        Address { prompt, ..self }
    }

    /// This address for another response.
    pub fn response(self, response: u64) -> Self {
        Address { response, ..self }
    }

    /// This address for a response that is decoded from a number in `[0, 1)`; its own numbers serve once that one is used up.
    pub fn decoded_from(self, number: f64) -> Self {
        Address { code: Some((number * 2f64.powi(64)) as u64), ..self }
    }

    /// The code from which the response is decoded; none where every token has a number of its own.
    pub fn code(self) -> Option<Code> {
        self.code.map(|bits| Code::new(unit(bits)))
    }

    /// A generator that starts at `position`, for things that need many numbers in a row.
    pub fn generator(self, position: u64) -> impl Rng + use<> {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&self.purpose.tag());
        key[16..24].copy_from_slice(&self.step.to_le_bytes());
        key[24..].copy_from_slice(&self.prompt.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(self.response);
        rng.set_word_pos(2 * u128::from(position));
        rng
    }

    /// The 64 random bits of `position`.
    pub fn bits(self, position: u64) -> u64 {
        self.generator(position).next_u64()
    }

    /// A number in `[0, 1)`: the top 53 bits of [`Address::bits`].
    pub fn unit(self, position: u64) -> f64 {
        unit(self.bits(position))
    }
}

/// The top 53 of 64 random bits as a number in `[0, 1)`.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A standard normal number from the next two of `rng` (Box-Muller, one of the pair).
pub fn normal(rng: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - unit(rng.next_u64())).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(rng.next_u64())).cos()
}

/// A number in `0..n` from the next 64 bits of `rng`, by multiplication: `floor(bits n / 2^64)`; the bias is below `n / 2^64`.
///
/// # Panics
/// If `n` is 0.
pub fn below(rng: &mut impl Rng, n: u64) -> u64 {
    assert!(n > 0, "no number is below 0");
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_frozen() {
        let a = Address::new(7, Purpose::Rollout).step(3).prompt(1).response(2);
        let got = [a.bits(0), a.bits(1), a.bits(100), Address::new(0, Purpose::Weights).bits(0)];
        let frozen = [5135053430323227067, 2941018577215827385, 10990968809453330538, 5903382952198760042];
        assert_eq!(got, frozen, "a change here changes every run of every seed");
    }

    #[test]
    fn each_part_of_the_address_counts() {
        let a = Address::new(1, Purpose::Rollout);
        let all = [
            a,
            Address::new(2, Purpose::Rollout),
            Address::new(1, Purpose::Evaluation),
            a.step(1),
            a.prompt(1),
            a.response(1),
        ];
        let mut bits: Vec<u64> = all.iter().flat_map(|a| (0..4).map(|p| a.bits(p))).collect();
        bits.sort_unstable();
        bits.dedup();
        assert_eq!(bits.len(), 24);
    }

    #[test]
    fn a_stream_reads_the_same_numbers_as_single_positions() {
        let a = Address::new(9, Purpose::Problems).prompt(5);
        let mut stream = a.generator(0);
        for position in 0..40 {
            assert_eq!(stream.next_u64(), a.bits(position));
        }
    }

    #[test]
    fn numbers_are_uniform() {
        let n = 20_000u64;
        let mut bins = [0u32; 16];
        let mut sum = 0.0;
        for response in 0..n {
            let u = Address::new(3, Purpose::Rollout).response(response).unit(17);
            sum += u;
            bins[(u * 16.0) as usize] += 1;
        }
        let expected = n as f64 / 16.0;
        let chi2: f64 = bins.iter().map(|&b| (f64::from(b) - expected).powi(2) / expected).sum();
        assert!(chi2 < 37.7, "chi2 {chi2} beyond its 0.999 quantile at 15 degrees of freedom");
        assert!((sum / n as f64 - 0.5).abs() < 0.01);
    }

    #[test]
    fn normal_numbers_have_the_moments_of_the_normal_distribution() {
        let n = 40_000;
        let mut rng = Address::new(3, Purpose::Perturbation).generator(0);
        let draws: Vec<f64> = (0..n).map(|_| normal(&mut rng)).collect();
        let moment = |k: i32| draws.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
        for (k, want, error) in [(1, 0.0, 0.02), (2, 1.0, 0.03), (3, 0.0, 0.08), (4, 3.0, 0.2)] {
            assert!((moment(k) - want).abs() < error, "moment {k}: {}", moment(k));
        }
    }

    #[test]
    fn any_bits_of_an_address_are_a_code() {
        let a = Address::new(1, Purpose::Rollout);
        let number = |a: Address| a.code().map(|code| code.number(|| 0.0));
        assert_eq!(
            [0.0, 0.625, 1.0 - f64::EPSILON / 2.0].map(|u| number(a.decoded_from(u))),
            [Some(0.0), Some(0.625), Some(1.0 - f64::EPSILON / 2.0)]
        );
        assert_eq!(
            (number(a), number(Address { code: Some(u64::MAX), ..a })),
            (None, Some(1.0 - f64::EPSILON / 2.0))
        );
    }

    #[test]
    fn a_number_below_a_power_of_two_is_the_first_bits() {
        for position in 0..50 {
            let bits = Address::new(5, Purpose::Problems).bits(position);
            let drawn = |n: u64| below(&mut Address::new(5, Purpose::Problems).generator(position), n);
            assert_eq!([drawn(1), drawn(2), drawn(1 << 20)], [0, bits >> 63, bits >> 44]);
            assert!(drawn(10) == (bits as f64 / 2f64.powi(64) * 10.0) as u64);
        }
    }
}
