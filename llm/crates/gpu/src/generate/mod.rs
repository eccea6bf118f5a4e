//! Sampling on a device: the counterpart of [`grpo_lambda_decoder::generate`].
//!
//! Tokens are drawn on the device, and no logits leave it: a step of decoding, the sampler included, is captured once and replayed, its
//! random numbers are uploaded beforehand, and the host asks only now and then which rows are still active. The next responses that wait
//! take the slots of those that ended ([`grpo_lambda_decoder::slots`]). Until then, and where none waits, a finished row is computed like the
//! others, and the sampler leaves it as it is.
//!
//! The host also asks then whether a response is complete without an end token (a stop string), and drops the tokens that a row sampled
//! beyond its end.
//!
//! Responses are the CPU's for the same weights and addresses, up to rounding: the device sums in another order, so a random
//! number within rounding of a boundary between two tokens can fall on the other side. A response that is decoded from a code
//! ([`grpo_lambda::systematic::Code`]) carries that rounding on, divided by the probability of what it has written: it is the policy's
//! whatever is rounded, but beyond some ten bits not the CPU's, nor that of a batch whose products are rounded otherwise.

mod on_device;

use std::time::Duration;

use grpo_lambda_decoder::generate::SamplingRequest;
use grpo_lambda_decoder::generate::{RolloutError, SampledResponse};
use grpo_lambda_decoder::model::check_tokens;

use super::decode::Decoding;
use super::decoder::GpuDecoder;
use super::pages::PageTable;
use super::projection::Network;

/// Options of sampling; they change no response, but for rounding if `prefill_tokens` changes the sizes of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerateOptions {
    /// Tokens of prompts that are read at once.
    pub prefill_tokens: usize,
    /// True to capture a step once and replay it, instead of launching it again.
    pub capture: bool,
    /// Steps between two questions whether a row is still active.
    pub poll_every: usize,
}

impl Default for GenerateOptions {
    /// Captures nothing with `CUDA_LAUNCH_BLOCKING=1`: it is set to learn which launch fails, and a replay has no names.
    fn default() -> Self {
        let capture = !blocks(std::env::var("CUDA_LAUNCH_BLOCKING").ok().as_deref());
        GenerateOptions { prefill_tokens: 8192, capture, poll_every: 8 }
    }
}

/// True if this value of the variable makes the driver wait for every launch.
fn blocks(value: Option<&str>) -> bool {
    value.is_some_and(|value| value.trim().parse::<i64>().is_ok_and(|n| n != 0))
}

/// The time that sampling took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The time of reading the prompts.
    pub prefill: Duration,
    /// The time after that.
    pub decode: Duration,
    /// Steps of decoding: if all responses start together, the tokens that the longest reads after its prompt.
    pub steps: usize,
}

/// The responses, by prompt, as [`grpo_lambda_decoder::generate::Sampler::generate`] gives them, and the time they took.
///
/// # Errors
/// [`RolloutError`].
pub fn run(
    decoder: &GpuDecoder,
    network: Network<'_>,
    request: &SamplingRequest<'_>,
    options: GenerateOptions,
) -> Result<(Vec<Vec<SampledResponse>>, Times), RolloutError> {
    let config = decoder.config();
    request.check(config.max_position_embeddings)?;
    for (i, prompt) in request.prompts.iter().enumerate() {
        check_tokens(i, prompt, config)?;
    }
    if request.responses() == 0 {
        return Ok((vec![Vec::new(); request.prompts.len()], Times::default()));
    }
    let pages = PageTable::for_request(request);
    let decoding = Decoding::new(decoder, network, &pages)?;
    on_device::sample(&decoding, request, pages, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_captured_unless_every_launch_is_waited_for() {
        assert!([None, Some(""), Some("0"), Some("no")].into_iter().all(|value| !blocks(value)));
        assert!(blocks(Some("1")) && blocks(Some(" 1")));
    }
}
