//! Sampling on a device: the twin of [`grpo_lambda_decoder::generate`].
//!
//! Tokens are drawn on the device, and no logits leave it: a step of decoding, the sampler included, is captured once and replayed, its
//! random numbers are uploaded beforehand, and the host asks only now and then which rows are still active. The next responses that wait
//! take the slots of those that ended ([`grpo_lambda_decoder::slots`]). Until then, and where none waits, a finished row is computed like the
//! others, and the sampler leaves it as it is.
//!
//! Whether a response is complete without an end token (a stop string) is asked of its tokens on the host, at the same times: what a row
//! sampled beyond its end until then is dropped.
//!
//! Responses are the CPU's for the same weights and addresses, up to rounding: the device sums in another order, so a random
//! number within rounding of a boundary between two tokens can fall on the other side.

mod on_device;
mod options;

use std::time::Duration;

use grpo_lambda_decoder::generate::SamplingRequest;
use grpo_lambda_decoder::generate::{RolloutError, SampledResponse};
use grpo_lambda_decoder::model::rows::check_tokens;

use super::decode::Decoding;
use super::decoder::GpuDecoder;
use super::pages::PageTable;
use super::projection::Network;
pub use options::RolloutOptions;

/// Where the time of a rollout went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Reading the prompts.
    pub prefill: Duration,
    /// Everything after.
    pub decode: Duration,
    /// Steps of decoding: where all responses start together, the tokens read after the prompts by the longest.
    pub steps: usize,
}

/// The responses, by prompt, as [`grpo_lambda_decoder::generate::Sampler::generate`] gives them, and where the time went.
///
/// # Errors
/// [`RolloutError`].
pub fn run(
    decoder: &GpuDecoder,
    network: Network<'_>,
    request: &SamplingRequest<'_>,
    options: RolloutOptions,
) -> Result<(Vec<Vec<SampledResponse>>, Times), RolloutError> {
    let config = decoder.config();
    request.check(config.max_position_embeddings)?;
    for (i, prompt) in request.prompts.iter().enumerate() {
        check_tokens(i, prompt, config)?;
    }
    if request.responses() == 0 {
        return Ok((vec![Vec::new(); request.prompts.len()], Times::default()));
    }
    let pages = PageTable::of(request);
    let decoding = Decoding::new(decoder, network, &pages)?;
    on_device::sample(&decoding, request, pages, options)
}
