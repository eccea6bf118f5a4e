//! Sampling where the logits are: a step of decoding with the sampler in it is captured once and replayed.

use std::time::{Duration, Instant};

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::distribution::ScoreError;
use grpo_lambda_decoder::generate::{
    CompletionTest, RolloutError, SampledResponse, SamplingProgress, SamplingRequest,
};
use grpo_lambda_decoder::model::inverse;
use grpo_lambda_decoder::rng::unit;
use grpo_lambda_decoder::slots::Slots;
use rand_chacha::rand_core::Rng;

use super::{GenerateOptions, Times};
use crate::array::Array;
use crate::decode::Decoding;
use crate::device::Graph;
use crate::kernels::{Sample, SampleState, Status};
use crate::pages::PageTable;
use crate::ptr::Plain;

/// Its use in the ledger.
const SAMPLER: &str = "sampler";

/// Arrays that the sampling kernels work on, a row for each slot.
struct DeviceSampler<'d> {
    decoding: &'d Decoding<'d>,
    rows: usize,
    source: Array<u32>,
    max_new_tokens: usize,
    produced: Array<u32>,
    status: Array<u32>,
    tokens: Array<u32>,
    logps: Array<f32>,
    entropies: Array<f32>,
    limits: Array<u32>,
    uniforms: Array<f64>,
    codes: Array<f64>,
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
        let rows = request.at_a_time();
        let limits = (0..request.prompts.len()).map(|prompt| request.limit(prompt));
        let max_new_tokens = limits.max().map_or(1, |most| most.max(1));
        let greedy = request.sampling.temperature <= 0.0;
        let each = || Array::zeros(device, SAMPLER, rows);
        let cells = rows * max_new_tokens;
        Ok(DeviceSampler {
            decoding,
            rows,
            source: each()?,
            max_new_tokens,
            produced: each()?,
            status: each()?,
            tokens: Array::zeros(device, SAMPLER, cells)?,
            logps: Array::zeros(device, SAMPLER, cells)?,
            entropies: Array::zeros(device, SAMPLER, cells)?,
            limits: each()?,
            uniforms: Array::zeros(device, SAMPLER, if greedy { max_new_tokens } else { cells })?,
            codes: Array::zeros(device, SAMPLER, rows)?,
            eos: Array::from_slice(device, SAMPLER, request.eos)?,
            eos_len: request.eos.len(),
            inverse_temperature: inverse(request.temperature()),
            greedy,
            min_new_tokens: whole(request.sampling.min_new_tokens),
            top_k: request.truncation.top_k.map(|k| whole(k.max(1))),
            top_p: request.truncation.top_p.map(|p| Array::from_slice(device, SAMPLER, &[p])).transpose()?,
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
            uniforms: self.uniforms.ptr_mut(),
            codes: self.codes.ptr_mut(),
            tokens: self.tokens.ptr_mut(),
            logps: self.logps.ptr_mut(),
            entropies: self.entropies.ptr_mut(),
            eos: self.eos.ptr(),
            eos_len: self.eos_len as u32,
        }
    }

    /// Draws a token of every row from its line of the logits, whose step read one token; of the first tokens, those from the lines of prompts
    /// that `source` names.
    fn draw(&self, first: bool) -> Result<(), DeviceError> {
        self.decoding.kernels().launch(Sample {
            logits: self.decoding.logits().ptr(),
            source: first.then(|| self.source.ptr()),
            vocabulary: self.decoding.config().vocab_size as u32,
            inverse_temperature: self.inverse_temperature,
            greedy: self.greedy,
            advance: !first,
            min_new_tokens: self.min_new_tokens,
            top_k: self.top_k,
            top_p: self.top_p.as_ref().map(Array::ptr),
            state: self.state(),
        })
    }

    fn step(&self) -> Result<(), DeviceError> {
        self.decoding.step()?;
        self.draw(false)
    }

    /// Gives the rows of these slots to responses with a prompt and no token yet.
    fn begin(&self, request: &SamplingRequest<'_>, started: &[(usize, usize)]) -> Result<(), DeviceError> {
        let (arrays, lengths) = ([&self.produced, &self.status, &self.limits], self.decoding.lengths());
        let [mut produced, mut status, mut limits] =
            [arrays[0].read()?, arrays[1].read()?, arrays[2].read()?];
        let mut read = lengths.read()?;
        for &(slot, response) in started {
            let prompt = response / request.group;
            (produced[slot], status[slot]) = (0, Status::Active as u32);
            limits[slot] = request.limit(prompt) as u32;
            read[slot] = request.prompts[prompt].len() as u32;
            if !self.greedy {
                let (numbers, code) = numbers(request, response, self.max_new_tokens);
                self.uniforms.write_from(slot * self.max_new_tokens, &numbers)?;
                self.codes.write_from(slot, &[f64::from(u8::from(code))])?;
            }
        }
        arrays.iter().zip([produced, status, limits]).try_for_each(|(array, now)| array.write(&now))?;
        lengths.write(&read)
    }

    /// `len` numbers of a row.
    fn row<T: Plain>(&self, of: &Array<T>, row: usize, len: usize) -> Result<Vec<T>, DeviceError> {
        of.read_from(row * self.max_new_tokens, len)
    }
}

/// A request under way.
struct Generation<'r, 'd> {
    request: &'r SamplingRequest<'r>,
    options: GenerateOptions,
    sampler: DeviceSampler<'d>,
    slots: Slots,
    pages: PageTable,
    endings: Endings<'r>,
    /// The step, for every slot, at which its response is at its limit.
    due: Vec<usize>,
    /// Steps so far, and at the last time the host asked.
    steps: usize,
    asked: usize,
    prefill: Duration,
    graph: Option<Box<dyn Graph>>,
    /// Progress, with the tokens of responses that ended.
    progress: SamplingProgress,
    out: Vec<SampledResponse>,
}

impl Generation<'_, '_> {
    /// Starts waiting responses in free slots; true if there were any.
    fn refill(&mut self) -> Result<bool, DeviceError> {
        let started = self.slots.fill();
        if started.is_empty() {
            return Ok(false);
        }
        let clock = Instant::now();
        let plan = self.pages.admit(self.request, &started);
        self.sampler.begin(self.request, &started)?;
        let decoding = self.sampler.decoding;
        decoding.start(self.request.prompts, &self.pages, &plan, self.options.prefill_tokens)?;
        self.sampler.source.write(&plan.source)?;
        self.sampler.draw(true)?;
        decoding.kernels().device.synchronize()?;
        self.prefill += clock.elapsed();
        for (slot, response) in started {
            self.endings.forget(slot);
            self.due[slot] = self.steps + self.request.limit(response / self.request.group).max(1) - 1;
        }
        Ok(true)
    }

    /// Frees the slots of responses that ended, if it is time to ask or a response is at its limit.
    fn settle(&mut self) -> Result<(), RolloutError> {
        // With nothing that ends it every response runs to its limit.
        let asks = (!self.request.eos.is_empty() || self.endings.complete.is_some())
            && self.steps > self.asked
            && self.steps.is_multiple_of(self.options.poll_every.max(1));
        let running: Vec<(usize, usize)> = self.slots.running().collect();
        if !asks && !running.iter().any(|(slot, _)| self.due[*slot] <= self.steps) {
            return Ok(());
        }
        self.asked = self.steps;
        let mut status = self.sampler.status.read()?;
        if self.endings.find(&self.sampler, &running)? {
            self.endings.mark(&mut status);
            self.sampler.status.write(&status)?;
        }
        let produced = self.sampler.produced.read()?;
        let mut sampling = 0;
        for (slot, response) in running {
            if status[slot] != Status::Active as u32 || self.due[slot] <= self.steps {
                self.out[response] = self.response(slot, response, status[slot], produced[slot])?;
                self.slots.free(slot);
                self.progress.ended += 1;
                self.progress.tokens += self.out[response].tokens.len();
            } else {
                sampling += produced[slot] as usize;
            }
        }
        let tokens = self.progress.tokens + sampling;
        self.request.tell(SamplingProgress { tokens, ..self.progress });
        Ok(())
    }

    /// The response in a slot, which ended.
    fn response(
        &self,
        slot: usize,
        response: usize,
        status: u32,
        produced: u32,
    ) -> Result<SampledResponse, RolloutError> {
        let (prompt, response) = (response / self.request.group, response % self.request.group);
        if status == Status::NotNumbers as u32 {
            let (position, source) = (produced as usize, ScoreError::Somewhere);
            return Err(RolloutError::Scores { prompt, response, position, source });
        }
        // With no end token it is known, also where nothing was computed.
        let most = if self.request.eos.is_empty() { self.request.limit(prompt) } else { produced as usize };
        let len = self.endings.ended[slot].map_or(most, |ended| ended as usize);
        let wide = |numbers: Vec<f32>| numbers.into_iter().map(f64::from).collect();
        let sampler = &self.sampler;
        Ok(SampledResponse {
            tokens: sampler.row(&sampler.tokens, slot, len)?,
            logps: wide(sampler.row(&sampler.logps, slot, len)?),
            entropies: wide(sampler.row(&sampler.entropies, slot, len)?),
            truncated: status == Status::Truncated as u32,
        })
    }

    fn step(&mut self) -> Result<(), DeviceError> {
        // The first step is launched: what a library loads at first use must not fall into the capture.
        if self.options.capture && self.steps == 1 {
            let device = &self.sampler.decoding.kernels().device;
            device.begin_capture()?;
            let launched = self.sampler.step();
            // Ended in any case; the first failure is the one reported.
            let ended = device.end_capture();
            launched?;
            self.graph = Some(ended?);
        }
        self.steps += 1;
        match &self.graph {
            Some(graph) => graph.replay(),
            None => self.sampler.step(),
        }
    }
}

/// The ends of responses by the request's own criterion, which the host asks of the tokens now and then. Tokens beyond an end are dropped, and
/// no other row depends on them.
struct Endings<'r> {
    complete: Option<&'r dyn CompletionTest>,
    /// Tokens of every row that were asked about.
    asked: Vec<usize>,
    /// Length of every row that is complete.
    ended: Vec<Option<u32>>,
}

impl<'r> Endings<'r> {
    fn new(request: &SamplingRequest<'r>) -> Self {
        let rows = request.at_a_time();
        Endings { complete: request.stopping.complete, asked: vec![0; rows], ended: vec![None; rows] }
    }

    /// Forgets the response of a row.
    fn forget(&mut self, row: usize) {
        (self.asked[row], self.ended[row]) = (0, None);
    }

    /// Asks about the tokens sampled since the last time; true if another row is complete.
    fn find(&mut self, sampler: &DeviceSampler<'_>, running: &[(usize, usize)]) -> Result<bool, DeviceError> {
        let Some(complete) = self.complete else { return Ok(false) };
        let produced = sampler.produced.read()?;
        let mut found = false;
        for &(row, _) in running {
            let (asked, now) = (self.asked[row], produced[row] as usize);
            let tokens = sampler.row(&sampler.tokens, row, now)?;
            self.ended[row] =
                (asked + 1..=now).find(|&n| complete.is_complete(&tokens[..n])).map(|n| n as u32);
            found |= self.ended[row].is_some();
            self.asked[row] = now;
        }
        Ok(found)
    }

    /// Gives complete rows their status. One that came to logits without a distribution after that is complete all the same.
    fn mark(&self, status: &mut [u32]) {
        let complete = status.iter_mut().zip(&self.ended).filter(|(_, ended)| ended.is_some());
        complete.for_each(|(status, _)| *status = Status::Ended as u32);
    }
}

fn whole(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The random numbers of a response, which do not depend on its slot; and true if the first is a code from which it is decoded.
fn numbers(request: &SamplingRequest<'_>, response: usize, max_new_tokens: usize) -> (Vec<f64>, bool) {
    let address = (request.address)(response / request.group, response % request.group);
    let mut rng = address.generator(0);
    let mut numbers: Vec<f64> = (0..max_new_tokens).map(|_| unit(rng.next_u64())).collect();
    let code = address.code();
    if let Some(code) = &code {
        numbers[0] = code.number(|| unreachable!("a code at the prompt is whole"));
    }
    (numbers, code.is_some())
}

/// The responses, by prompt, and the time they took.
pub(super) fn sample(
    decoding: &Decoding<'_>,
    request: &SamplingRequest<'_>,
    pages: PageTable,
    options: GenerateOptions,
) -> Result<(Vec<Vec<SampledResponse>>, Times), RolloutError> {
    let clock = Instant::now();
    let mut generation = Generation {
        request,
        options,
        sampler: DeviceSampler::new(decoding, request)?,
        slots: Slots::new(request.responses(), request.slots),
        due: vec![0; request.at_a_time()],
        pages,
        endings: Endings::new(request),
        steps: 0,
        asked: 0,
        prefill: Duration::ZERO,
        graph: None,
        progress: request.untouched(),
        out: vec![SampledResponse::default(); request.responses()],
    };
    loop {
        generation.settle()?;
        if generation.refill()? {
            continue;
        }
        if generation.slots.running().next().is_none() {
            break;
        }
        generation.step()?;
    }
    let Generation { steps, prefill, out, .. } = generation;
    let times = Times { prefill, decode: clock.elapsed().saturating_sub(prefill), steps };
    Ok((out.chunks(request.group).map(<[SampledResponse]>::to_vec).collect(), times))
}
