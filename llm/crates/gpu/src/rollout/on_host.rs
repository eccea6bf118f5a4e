//! Sampling on the host, from logits that are copied there at every step.

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::config::Config;
use grpo_lambda_decoder::model::decoder::inverse;
use grpo_lambda_decoder::model::ops::log_prob;
use grpo_lambda_decoder::rollout::SamplingRequest;
use grpo_lambda_decoder::rollout::{DecodeBackend, RolloutError};

use crate::decode::Decoding;

/// The logits of every step are copied to the host, where the CPU's code chooses.
pub(super) struct HostSampler<'d> {
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
    pub(super) fn new(
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

    /// Steps of decoding so far.
    pub(super) fn steps(&self) -> usize {
        self.steps
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
