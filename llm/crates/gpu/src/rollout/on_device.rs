//! Sampling where the logits are: a step of decoding with the sampler in it is captured once and replayed.

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::decoder::inverse;
use grpo_lambda_decoder::rng::{ScoreError, unit};
use grpo_lambda_decoder::rollout::SamplingRequest;
use grpo_lambda_decoder::rollout::{RolloutError, SampledResponse};
use rand_chacha::rand_core::Rng;

use super::options::RolloutOptions;
use crate::array::Array;
use crate::decode::Decoding;
use crate::kernels::{Advance, Sample, SampleState, Status};
use crate::ptr::Ptr;

/// Its use in the ledger.
const SAMPLER: &str = "sampler";

/// Arrays that the sampling kernels work on.
struct DeviceSampler<'d> {
    decoding: &'d Decoding<'d>,
    rows: usize,
    max_new_tokens: usize,
    produced: Array<u32>,
    status: Array<u32>,
    active: Array<u32>,
    tokens: Array<u32>,
    logps: Array<f32>,
    entropies: Array<f32>,
    limits: Array<u32>,
    uniforms: Array<f64>,
    eos: Array<u32>,
    eos_len: usize,
    inverse_temperature: f32,
    greedy: bool,
}

impl<'d> DeviceSampler<'d> {
    fn new(decoding: &'d Decoding<'d>, request: &SamplingRequest<'_>) -> Result<Self, DeviceError> {
        let device = &decoding.kernels().device;
        let limits = limits(request);
        let rows = limits.len();
        let max_new_tokens = limits.iter().max().map_or(1, |&most| most.max(1) as usize);
        let greedy = request.sampling.temperature <= 0.0;
        let uniforms = if greedy { vec![0.0; max_new_tokens] } else { uniforms(request, max_new_tokens) };
        Ok(DeviceSampler {
            decoding,
            rows,
            max_new_tokens,
            produced: Array::zeros(device, SAMPLER, rows)?,
            status: Array::zeros(device, SAMPLER, rows)?,
            active: Array::zeros(device, SAMPLER, 1)?,
            tokens: Array::zeros(device, SAMPLER, rows * max_new_tokens)?,
            logps: Array::zeros(device, SAMPLER, rows * max_new_tokens)?,
            entropies: Array::zeros(device, SAMPLER, rows * max_new_tokens)?,
            limits: Array::of(device, SAMPLER, &limits)?,
            uniforms: Array::of(device, SAMPLER, &uniforms)?,
            eos: Array::of(device, SAMPLER, request.eos)?,
            eos_len: request.eos.len(),
            inverse_temperature: inverse(request.temperature()),
            greedy,
        })
    }

    fn state(&self) -> SampleState {
        SampleState {
            rows: self.rows as u32,
            max_new_tokens: self.max_new_tokens as u32,
            lengths: self.decoding.lengths().ptr_mut(),
            produced: self.produced.ptr_mut(),
            status: self.status.ptr_mut(),
            limits: self.limits.ptr(),
            next: self.decoding.next().ptr_mut(),
            uniforms: self.uniforms.ptr(),
            tokens: self.tokens.ptr_mut(),
            logps: self.logps.ptr_mut(),
            entropies: self.entropies.ptr_mut(),
            eos: self.eos.ptr(),
            eos_len: self.eos_len as u32,
            active: self.active.ptr_mut(),
        }
    }

    /// Draws a token of every row from its line of the logits, or from the line that `source` names.
    fn draw(&self, source: Option<Ptr<u32>>) -> Result<(), DeviceError> {
        self.decoding.kernels().launch(Sample {
            logits: self.decoding.logits().ptr(),
            source,
            vocabulary: self.decoding.config().vocab_size as u32,
            inverse_temperature: self.inverse_temperature,
            greedy: self.greedy,
            state: self.state(),
        })
    }

    fn step(&self) -> Result<(), DeviceError> {
        self.decoding.step()?;
        self.decoding.kernels().launch(Advance { state: self.state() })?;
        self.draw(None)
    }

    /// Whether any row was active at the last step.
    fn is_active(&self) -> Result<bool, DeviceError> {
        Ok(self.active.read()?[0] > 0)
    }

    fn responses(&self, request: &SamplingRequest<'_>) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        let (status, produced) = (self.status.read()?, self.produced.read()?);
        let broken = |row: usize| RolloutError::Scores {
            prompt: row / request.group,
            response: row % request.group,
            position: produced[row] as usize,
            source: ScoreError::Somewhere,
        };
        if let Some(row) = status.iter().position(|&status| status == Status::NotNumbers as u32) {
            return Err(broken(row));
        }
        // With no end token it is known, also where nothing was computed.
        let produced = if request.eos.is_empty() { limits(request) } else { produced };
        let (tokens, logps, entropies) = (self.tokens.read()?, self.logps.read()?, self.entropies.read()?);
        let wide = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect();
        let response = |row: usize| {
            let start = row * self.max_new_tokens;
            let range = start..start + produced[row] as usize;
            SampledResponse {
                tokens: tokens[range.clone()].to_vec(),
                logps: wide(&logps[range.clone()]),
                entropies: wide(&entropies[range]),
                truncated: status[row] == Status::Truncated as u32,
            }
        };
        let all: Vec<SampledResponse> = (0..self.rows).map(response).collect();
        Ok(all.chunks(request.group).map(<[SampledResponse]>::to_vec).collect())
    }
}

/// The random numbers of every response, `[rows, max_new_tokens]`.
fn uniforms(request: &SamplingRequest<'_>, max_new_tokens: usize) -> Vec<f64> {
    let row = |row: usize| {
        let mut rng = (request.address)(row / request.group, row % request.group).generator(0);
        (0..max_new_tokens).map(move |_| unit(rng.next_u64()))
    };
    (0..request.responses()).flat_map(row).collect()
}

/// The length limit of every response.
fn limits(request: &SamplingRequest<'_>) -> Vec<u32> {
    (0..request.responses()).map(|row| request.limit(row / request.group) as u32).collect()
}

/// The responses, by prompt, and how many steps of decoding they took.
pub(super) fn sample(
    decoding: &Decoding<'_>,
    request: &SamplingRequest<'_>,
    options: RolloutOptions,
) -> Result<(Vec<Vec<SampledResponse>>, usize), RolloutError> {
    let device = &decoding.kernels().device;
    let sampler = DeviceSampler::new(decoding, request)?;
    let source: Vec<u32> = (0..request.responses()).map(|row| (row / request.group) as u32).collect();
    let source = Array::of(device, SAMPLER, &source)?;
    sampler.draw(Some(source.ptr()))?;
    let mut steps = 0;
    let mut graph = None;
    while steps + 1 < sampler.max_new_tokens {
        // The first step is launched: what a library loads at first use must not fall into the capture.
        if options.capture && steps == 1 {
            device.begin_capture()?;
            let launched = sampler.step();
            // Ended in any case; the first failure is the one reported.
            let ended = device.end_capture();
            launched?;
            graph = Some(ended?);
        }
        match &graph {
            Some(graph) => graph.replay()?,
            None => sampler.step()?,
        }
        steps += 1;
        // With no end token every response runs to its limit.
        if !request.eos.is_empty()
            && steps.is_multiple_of(options.poll_every.max(1))
            && !sampler.is_active()?
        {
            break;
        }
    }
    device.synchronize()?;
    Ok((sampler.responses(request)?, steps))
}
