//! Sampling on a device: the twin of [`grpo_lambda_decoder::rollout`].
//!
//! What training asks for, the whole distribution, is sampled where the logits are: a step of decoding, the sampler included, is
//! recorded once and replayed, its random numbers lie on the device beforehand, and the host asks only now and then whether
//! a row is still live. Rows that have ended are computed along and left as they are, so they change nothing for the others.
//!
//! What only evaluation asks for (a truncated distribution, a least length, a response that is complete without an end token) is
//! chosen on the host from the logits of every step, by the code of the CPU's rollout.
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
use grpo_lambda_decoder::rollout::Ask;
use grpo_lambda_decoder::rollout::{Decode, RolloutError, Sampled};
use rand_chacha::rand_core::Rng;

use super::decode::Decoding;
use super::decoder::GpuDecoder;
use super::device::Buffer;
use super::kernels::SampleState;
use super::projection::Network;

/// Its use in the ledger.
const SAMPLER: &str = "sampler";

/// How a rollout is carried out; changes no response, but for rounding where `prefill_tokens` changes the sizes of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Tokens of prompts that are read at once.
    pub prefill_tokens: usize,
    /// Whether a step is recorded once and replayed, instead of launched anew.
    pub recorded: bool,
    /// Steps between two questions whether a row is still live.
    pub ask_every: usize,
}

impl Default for How {
    fn default() -> Self {
        How { prefill_tokens: 8192, recorded: true, ask_every: 8 }
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
    ask: &Ask<'_>,
    how: How,
) -> Result<(Vec<Vec<Sampled>>, Times), RolloutError> {
    let config = decoder.config();
    ask.check(config.max_position_embeddings)?;
    for (i, prompt) in ask.prompts.iter().enumerate() {
        check_tokens(i, prompt, config)?;
    }
    if ask.responses() == 0 {
        return Ok((vec![Vec::new(); ask.prompts.len()], Times::default()));
    }
    let clock = Instant::now();
    let decoding = Decoding::new(decoder, network, ask.responses(), capacity(ask))?;
    decoding.prefill(ask.prompts, how.prefill_tokens)?;
    decoder.kernels().device.synchronize()?;
    let prefill = clock.elapsed();
    let clock = Instant::now();
    let on_device =
        ask.truncation.is_none() && ask.sampling.min_new_tokens == 0 && ask.ending.complete.is_none();
    let (responses, steps) = if on_device {
        sampled_there(&decoding, ask, how)?
    } else {
        let mut watched = Watched::new(&decoding, ask, config)?;
        let responses = ask.run(&mut watched)?;
        (responses, watched.steps)
    };
    Ok((responses, Times { prefill, decode: clock.elapsed(), steps }))
}

/// Tokens a row of the caches has room for: the longest prompt with its most new tokens.
pub fn capacity(ask: &Ask<'_>) -> usize {
    let row = |(i, prompt): (usize, &&[u32])| prompt.len() + ask.limit(i);
    ask.prompts.iter().enumerate().map(row).max().unwrap_or(0)
}

/// What the kernel that samples works on.
struct Sampler<'d> {
    decoding: &'d Decoding<'d>,
    produced: Buffer,
    done: Buffer,
    outputs: [Buffer; 3],
    live: Buffer,
    state: SampleState,
    inverse_temperature: f32,
    greedy: bool,
    /// Read by the kernel only.
    _inputs: [Buffer; 3],
}

impl<'d> Sampler<'d> {
    fn new(decoding: &'d Decoding<'d>, ask: &Ask<'_>) -> Result<Self, DeviceError> {
        let device = &decoding.kernels().device;
        let limits = limits(ask);
        let (rows, most) = (limits.len(), limits.iter().max().map_or(1, |&most| most.max(1) as usize));
        let greedy = ask.sampling.temperature <= 0.0;
        let mut uniforms = vec![0.0f64; if greedy { most } else { rows * most }];
        for (row, numbers) in uniforms.chunks_exact_mut(most).enumerate() {
            let mut rng = (ask.address)(row / ask.group, row % ask.group).stream(0);
            numbers.fill_with(|| unit(rng.next_u64()));
        }
        let zeros = |numbers: usize| Buffer::zeros(device, SAMPLER, 4 * numbers);
        let (produced, done, live) = (zeros(rows)?, zeros(rows)?, zeros(1)?);
        let outputs = [zeros(rows * most)?, zeros(rows * most)?, zeros(rows * most)?];
        // A device has no memory of zero bytes.
        let ends = if ask.eos.is_empty() { &[0] } else { ask.eos };
        let inputs = [
            Buffer::of(device, SAMPLER, &limits)?,
            Buffer::of(device, SAMPLER, &uniforms)?,
            Buffer::of(device, SAMPLER, ends)?,
        ];
        let state = SampleState {
            rows: rows as u32,
            most: most as u32,
            lengths: decoding.lengths().address(),
            produced: produced.address(),
            done: done.address(),
            limits: inputs[0].address(),
            next: decoding.next().address(),
            uniforms: inputs[1].address(),
            tokens: outputs[0].address(),
            logps: outputs[1].address(),
            entropies: outputs[2].address(),
            ends: inputs[2].address(),
            ends_len: ask.eos.len() as u32,
            live: live.address(),
        };
        let inverse_temperature = inverse(ask.temperature());
        Ok(Sampler {
            decoding,
            produced,
            done,
            outputs,
            live,
            state,
            inverse_temperature,
            greedy,
            _inputs: inputs,
        })
    }

    /// Draws a token of every row from the logits; row `i` from line `source[i]`, or its own where `source` is 0.
    fn draw(&self, source: u64) -> Result<(), DeviceError> {
        let decoding = self.decoding;
        let vocabulary = decoding.config().vocab_size as u32;
        let logits = decoding.logits().address();
        let kernels = decoding.kernels();
        kernels.sample(logits, source, vocabulary, self.inverse_temperature, self.greedy, &self.state)
    }

    fn step(&self) -> Result<(), DeviceError> {
        self.decoding.step()?;
        self.decoding.kernels().advance(&self.state)?;
        self.draw(0)
    }

    /// Whether any row was live at the last step.
    fn is_live(&self) -> Result<bool, DeviceError> {
        Ok(self.live.read::<u32>(0, 1)?[0] > 0)
    }

    fn responses(&self, ask: &Ask<'_>) -> Result<Vec<Vec<Sampled>>, RolloutError> {
        let (rows, most) = (self.state.rows as usize, self.state.most as usize);
        let done: Vec<u32> = self.done.read(0, rows)?;
        let produced: Vec<u32> = self.produced.read(0, rows)?;
        let broken = |row: usize| RolloutError::Scores {
            prompt: row / ask.group,
            response: row % ask.group,
            position: produced[row] as usize,
            source: ScoreError::Somewhere,
        };
        if let Some(row) = done.iter().position(|&done| done == BROKEN) {
            return Err(broken(row));
        }
        // With no end token it is known, also where nothing was computed.
        let produced = if ask.eos.is_empty() { limits(ask) } else { produced };
        let tokens: Vec<u32> = self.outputs[0].read(0, rows * most)?;
        let logps: Vec<f32> = self.outputs[1].read(0, rows * most)?;
        let entropies: Vec<f32> = self.outputs[2].read(0, rows * most)?;
        let wide = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect();
        let response = |row: usize| {
            let range = row * most..row * most + produced[row] as usize;
            Sampled {
                tokens: tokens[range.clone()].to_vec(),
                logps: wide(&logps[range.clone()]),
                entropies: wide(&entropies[range]),
                truncated: done[row] == CUT_OFF,
            }
        };
        let all: Vec<Sampled> = (0..rows).map(response).collect();
        Ok(all.chunks(ask.group).map(<[Sampled]>::to_vec).collect())
    }
}

/// Values of `done`, see [`SampleState`].
const CUT_OFF: u32 = 2;
const BROKEN: u32 = 3;

/// The length limit of every response.
fn limits(ask: &Ask<'_>) -> Vec<u32> {
    (0..ask.responses()).map(|row| ask.limit(row / ask.group) as u32).collect()
}

fn sampled_there(
    decoding: &Decoding<'_>,
    ask: &Ask<'_>,
    how: How,
) -> Result<(Vec<Vec<Sampled>>, usize), RolloutError> {
    let device = &decoding.kernels().device;
    let sampler = Sampler::new(decoding, ask)?;
    let source: Vec<u32> = (0..ask.responses()).map(|row| (row / ask.group) as u32).collect();
    let source = Buffer::of(device, SAMPLER, &source)?;
    sampler.draw(source.address())?;
    let most = sampler.state.most as usize;
    let mut steps = 0;
    let mut recording = None;
    while steps + 1 < most {
        // The first step is launched: what a library loads at first use must not fall into the recording.
        if how.recorded && steps == 1 {
            device.begin_recording()?;
            let launched = sampler.step();
            // Ended in any case; what went wrong first is told.
            let ended = device.end_recording();
            launched?;
            recording = Some(ended?);
        }
        match &recording {
            Some(recording) => recording.replay()?,
            None => sampler.step()?,
        }
        steps += 1;
        // With no end token every response runs to its limit.
        if !ask.eos.is_empty() && steps.is_multiple_of(how.ask_every.max(1)) && !sampler.is_live()? {
            break;
        }
    }
    device.synchronize()?;
    Ok((sampler.responses(ask)?, steps))
}

/// The logits of every step are brought to the host, where the CPU's code chooses.
struct Watched<'d> {
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

impl<'d> Watched<'d> {
    fn new(decoding: &'d Decoding<'d>, ask: &Ask<'_>, config: &Config) -> Result<Self, DeviceError> {
        let prompt = |row: usize| row / ask.group;
        let rows = 0..ask.responses();
        let mut watched = Watched {
            decoding,
            vocabulary: config.vocab_size,
            inverse_temperature: inverse(ask.temperature()),
            lengths: rows.clone().map(|row| ask.prompts[prompt(row)].len() as u32).collect(),
            next: vec![0; ask.responses()],
            scores: Vec::new(),
            lines: rows.map(prompt).collect(),
            steps: 0,
        };
        watched.fetch(0..ask.prompts.len())?;
        Ok(watched)
    }

    /// Brings these lines of the logits, as log-probabilities.
    fn fetch(&mut self, lines: impl Iterator<Item = usize>) -> Result<(), DeviceError> {
        self.scores.clear();
        let lines: Vec<usize> = lines.collect();
        // Lines that follow one another come at once: every reading waits for the device.
        for run in lines.chunk_by(|a, b| a + 1 == *b) {
            let (from, numbers) = (run[0] * self.vocabulary, run.len() * self.vocabulary);
            self.scores.extend(self.decoding.logits().read::<f32>(4 * from, numbers)?);
        }
        log_prob::log_softmax(&mut self.scores, self.vocabulary, self.inverse_temperature);
        Ok(())
    }
}

impl Decode for Watched<'_> {
    fn scores(&self, response: usize) -> &[f32] {
        let line = self.lines[response];
        &self.scores[line * self.vocabulary..(line + 1) * self.vocabulary]
    }
    fn end(&mut self, _: usize) {}
    fn read(&mut self, responses: &[usize], tokens: &[u32]) -> Result<(), RolloutError> {
        responses.iter().zip(tokens).for_each(|(&r, &token)| self.next[r] = token);
        self.decoding.next().write(0, &self.next)?;
        self.decoding.lengths().write(0, &self.lengths)?;
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
