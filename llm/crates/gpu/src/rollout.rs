//! Sampling on a device: the twin of [`grpo_lambda_decoder::rollout`].
//!
//! What training asks for, the whole distribution, is sampled on the device: a step of decoding, the sampler included, is captured
//! once and replayed, its random numbers are uploaded beforehand, and the host asks only now and then whether a row is still
//! active. Finished rows keep their slot in the batch: they are computed like the others, and the sampler leaves them as they are.
//!
//! What only evaluation asks for (top-k, top-p, a least length, a response that is complete without an end token) is chosen on the
//! host from the logits of every step, by the code of the CPU's rollout.
//!
//! Responses are the CPU's for the same weights and addresses, up to rounding: the device sums in another order, so a random
//! number within rounding of a boundary between two tokens can fall on the other side.

use std::time::{Duration, Instant};

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::config::Config;
use grpo_lambda_decoder::model::decoder::inverse;
use grpo_lambda_decoder::model::ops::log_prob;
use grpo_lambda_decoder::model::rows::check_tokens;
use grpo_lambda_decoder::rng::{ScoreError, unit};
use grpo_lambda_decoder::rollout::SamplingRequest;
use grpo_lambda_decoder::rollout::{DecodeBackend, RolloutError, SampledResponse};
use rand_chacha::rand_core::Rng;

use super::array::Array;
use super::decode::Decoding;
use super::decoder::GpuDecoder;
use super::kernels::{Advance, Sample, SampleState, Status};
use super::projection::Network;
use super::ptr::Ptr;

/// Its use in the ledger.
const SAMPLER: &str = "sampler";

/// How a rollout is carried out; changes no response, but for rounding where `prefill_tokens` changes the sizes of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutOptions {
    /// Tokens of prompts that are read at once.
    pub prefill_tokens: usize,
    /// Whether a step is captured once and replayed, instead of launched anew.
    pub capture: bool,
    /// Steps between two questions whether a row is still active.
    pub poll_every: usize,
}

impl Default for RolloutOptions {
    fn default() -> Self {
        RolloutOptions { prefill_tokens: 8192, capture: true, poll_every: 8 }
    }
}

/// Where the time of a rollout went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Reading the prompts.
    pub prefill: Duration,
    /// Everything after.
    pub decode: Duration,
    /// Steps of decoding: tokens read after the prompts by the longest response.
    pub steps: usize,
}

/// The responses, by prompt, as [`grpo_lambda_decoder::rollout::sample_until`] gives them, and where the time went.
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
    let clock = Instant::now();
    let decoding = Decoding::new(decoder, network, request.responses(), capacity(request))?;
    decoding.prefill(request.prompts, options.prefill_tokens)?;
    decoder.kernels().device.synchronize()?;
    let prefill = clock.elapsed();
    let clock = Instant::now();
    let on_device = request.truncation.is_none()
        && request.sampling.min_new_tokens == 0
        && request.stopping.complete.is_none();
    let (responses, steps) = if on_device {
        sample_on_device(&decoding, request, options)?
    } else {
        let mut sampler = HostSampler::new(&decoding, request, config)?;
        let responses = request.run(&mut sampler)?;
        (responses, sampler.steps)
    };
    Ok((responses, Times { prefill, decode: clock.elapsed(), steps }))
}

/// Tokens that a row of the KV cache must hold: the longest prompt with its most new tokens.
pub fn capacity(request: &SamplingRequest<'_>) -> usize {
    let row = |(i, prompt): (usize, &&[u32])| prompt.len() + request.limit(i);
    request.prompts.iter().enumerate().map(row).max().unwrap_or(0)
}

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

fn sample_on_device(
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

/// The logits of every step are copied to the host, where the CPU's code chooses.
struct HostSampler<'d> {
    decoding: &'d Decoding<'d>,
    vocabulary: usize,
    inverse_temperature: f32,
    lengths: Vec<u32>,
    next: Vec<u32>,
    /// Log-probabilities, and which line of them is a response's.
    scores: Vec<f32>,
    lines: Vec<usize>,
    steps: usize,
}

impl<'d> HostSampler<'d> {
    fn new(
        decoding: &'d Decoding<'d>,
        request: &SamplingRequest<'_>,
        config: &Config,
    ) -> Result<Self, DeviceError> {
        let prompt = |row: usize| row / request.group;
        let rows = 0..request.responses();
        let mut sampler = HostSampler {
            decoding,
            vocabulary: config.vocab_size,
            inverse_temperature: inverse(request.temperature()),
            lengths: rows.clone().map(|row| request.prompts[prompt(row)].len() as u32).collect(),
            next: vec![0; request.responses()],
            scores: Vec::new(),
            lines: rows.map(prompt).collect(),
            steps: 0,
        };
        sampler.fetch(0..request.prompts.len())?;
        Ok(sampler)
    }

    /// Copies these lines of the logits, as log-probabilities.
    fn fetch(&mut self, lines: impl Iterator<Item = usize>) -> Result<(), DeviceError> {
        self.scores.clear();
        let lines: Vec<usize> = lines.collect();
        // Lines that follow one another are copied at once: every copy waits for the device.
        for run in lines.chunk_by(|a, b| a + 1 == *b) {
            let (from, numbers) = (run[0] * self.vocabulary, run.len() * self.vocabulary);
            self.scores.extend(self.decoding.logits().read_from(from, numbers)?);
        }
        log_prob::log_softmax(&mut self.scores, self.vocabulary, self.inverse_temperature);
        Ok(())
    }
}

impl DecodeBackend for HostSampler<'_> {
    fn scores(&self, response: usize) -> &[f32] {
        let line = self.lines[response];
        &self.scores[line * self.vocabulary..(line + 1) * self.vocabulary]
    }
    fn end(&mut self, _: usize) {}
    fn read(&mut self, responses: &[usize], tokens: &[u32]) -> Result<(), RolloutError> {
        responses.iter().zip(tokens).for_each(|(&r, &token)| self.next[r] = token);
        self.decoding.next().write(&self.next)?;
        self.decoding.lengths().write(&self.lengths)?;
        self.decoding.step()?;
        self.steps += 1;
        self.fetch(responses.iter().copied())?;
        for (line, &r) in responses.iter().enumerate() {
            self.lengths[r] += 1;
            self.lines[r] = line;
        }
        Ok(())
    }
}
