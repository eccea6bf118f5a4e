//! Sampling where the logits are: a step of decoding with the sampler in it is captured once and replayed.

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::decoder::inverse;
use grpo_lambda_decoder::rng::{ScoreError, unit};
use grpo_lambda_decoder::rollout::{CompletionTest, SamplingRequest};
use grpo_lambda_decoder::rollout::{RolloutError, SampledResponse};
use rand_chacha::rand_core::Rng;

use super::options::RolloutOptions;
use crate::array::Array;
use crate::decode::Decoding;
use crate::kernels::{Sample, SampleState, Status};
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
    tokens: Array<u32>,
    logps: Array<f32>,
    entropies: Array<f32>,
    limits: Array<u32>,
    uniforms: Array<f64>,
    eos: Array<u32>,
    eos_len: usize,
    inverse_temperature: f32,
    greedy: bool,
    min_new_tokens: u32,
    top_k: Option<u32>,
    top_p: Option<Array<f64>>,
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
            tokens: Array::zeros(device, SAMPLER, rows * max_new_tokens)?,
            logps: Array::zeros(device, SAMPLER, rows * max_new_tokens)?,
            entropies: Array::zeros(device, SAMPLER, rows * max_new_tokens)?,
            limits: Array::of(device, SAMPLER, &limits)?,
            uniforms: Array::of(device, SAMPLER, &uniforms)?,
            eos: Array::of(device, SAMPLER, request.eos)?,
            eos_len: request.eos.len(),
            inverse_temperature: inverse(request.temperature()),
            greedy,
            min_new_tokens: whole(request.sampling.min_new_tokens),
            top_k: request.truncation.top_k.map(|k| whole(k.max(1))),
            top_p: request.truncation.top_p.map(|p| Array::of(device, SAMPLER, &[p])).transpose()?,
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
        }
    }

    /// Draws a token of every row from its line of the logits, whose step read one token, or from the line of a prompt that `source` names.
    fn draw(&self, source: Option<Ptr<u32>>) -> Result<(), DeviceError> {
        self.decoding.kernels().launch(Sample {
            logits: self.decoding.logits().ptr(),
            source,
            vocabulary: self.decoding.config().vocab_size as u32,
            inverse_temperature: self.inverse_temperature,
            greedy: self.greedy,
            advance: source.is_none(),
            min_new_tokens: self.min_new_tokens,
            top_k: self.top_k,
            top_p: self.top_p.as_ref().map(Array::ptr),
            state: self.state(),
        })
    }

    fn step(&self) -> Result<(), DeviceError> {
        self.decoding.step()?;
        self.draw(None)
    }

    /// Ends the rows that are complete by now, and says whether any goes on.
    fn is_active(&self, endings: &mut Endings<'_>) -> Result<bool, DeviceError> {
        let mut status = self.status.read()?;
        if endings.find(self)? {
            endings.mark(&mut status);
            self.status.write(&status)?;
        }
        Ok(status.contains(&(Status::Active as u32)))
    }

    fn responses(
        &self,
        request: &SamplingRequest<'_>,
        mut endings: Endings<'_>,
    ) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        endings.find(self)?;
        let (mut status, mut produced) = (self.status.read()?, self.produced.read()?);
        endings.mark(&mut status);
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
        if request.eos.is_empty() {
            produced = limits(request);
        }
        endings.cut(&mut produced);
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

/// Where responses are complete by the request's own criterion, which the host asks of the tokens now and then: what a row samples before it
/// is asked is dropped, and no other row depends on it.
struct Endings<'r> {
    complete: Option<&'r CompletionTest<'r>>,
    /// Tokens of every row that were asked about.
    asked: Vec<usize>,
    /// Length of every row that is complete.
    ended: Vec<Option<u32>>,
}

impl<'r> Endings<'r> {
    fn new(request: &SamplingRequest<'r>) -> Self {
        let rows = request.responses();
        Endings { complete: request.stopping.complete, asked: vec![0; rows], ended: vec![None; rows] }
    }

    /// Asks about what was sampled since it was last asked. Whether another row is complete.
    fn find(&mut self, sampler: &DeviceSampler<'_>) -> Result<bool, DeviceError> {
        let Some(complete) = self.complete else { return Ok(false) };
        let (produced, tokens) = (sampler.produced.read()?, sampler.tokens.read()?);
        let mut found = false;
        for (row, tokens) in tokens.chunks_exact(sampler.max_new_tokens).enumerate() {
            let (asked, now) = (self.asked[row], produced[row] as usize);
            if self.ended[row].is_none() {
                self.ended[row] = (asked + 1..=now).find(|&n| complete(&tokens[..n])).map(|n| n as u32);
                found |= self.ended[row].is_some();
            }
            self.asked[row] = now;
        }
        Ok(found)
    }

    /// Gives complete rows their status. One that came to logits without a distribution after that is complete all the same.
    fn mark(&self, status: &mut [u32]) {
        let complete = status.iter_mut().zip(&self.ended).filter(|(_, ended)| ended.is_some());
        complete.for_each(|(status, _)| *status = Status::Ended as u32);
    }

    /// Gives complete rows their length.
    fn cut(&self, produced: &mut [u32]) {
        for (produced, ended) in produced.iter_mut().zip(&self.ended) {
            *produced = ended.unwrap_or(*produced);
        }
    }
}

fn whole(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
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
    let mut endings = Endings::new(request);
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
        // With nothing that ends it every response runs to its limit.
        if (!request.eos.is_empty() || endings.complete.is_some())
            && steps.is_multiple_of(options.poll_every.max(1))
            && !sampler.is_active(&mut endings)?
        {
            break;
        }
    }
    device.synchronize()?;
    Ok((sampler.responses(request, endings)?, steps))
}
