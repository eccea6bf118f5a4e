//! The start of a seed, and a run from it up to the target.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use grpo_lambda::methods;
use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::Architecture::Qwen2;
use grpo_lambda_decoder::model::weights::{self, Parameters, SaveDtype};
use grpo_lambda_decoder::model::{self, Decoder, ModelShape};
use grpo_lambda_decoder::optim::{AdamWSettings, StepOutcome};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::StatePlace;
use grpo_lambda_trainer::config::MemoryConfig;
use grpo_lambda_trainer::step::engine::{CpuEngine, TrainingSetup};
use grpo_lambda_trainer::step::{Rollout, StepContext, StepSettings, TrainingPrompt, sft};
use grpo_lambda_trainer::train::TrainError;

use super::credit::Evidence;
use super::protocol::{Arm, Protocol};
use super::task::{END, Form, Part, VOCABULARY, Verifier};
use crate::LabError;

/// The first problem of RL; supervised learning has those before it.
const RL: u64 = 1 << 40;
/// Prompts and steps that no run trains on.
const APART: u64 = 1 << 50;
/// Responses to each held-out prompt.
const SAMPLES: usize = 2;

pub(super) const MEMORY: MemoryConfig = MemoryConfig {
    micro_batch_tokens: 8192,
    recompute_layers: false,
    optimiser: StatePlace::Device,
    slots: None,
};

/// The weights from which all runs of a cell and seed start.
pub(super) struct Start {
    protocol: &'static Protocol,
    pub(super) verifier: Verifier,
    pub(super) settings: StepSettings,
    pub(super) model: Decoder<f32>,
    /// Steps of supervised learning.
    pub(super) steps: u64,
}

/// Held-out accuracy after so many tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) tokens: f64,
    pub(super) accuracy: f64,
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Target,
    Limit,
    /// Another rate is better.
    Dominated,
    NotFinite,
}

impl End {
    pub(super) fn name(self) -> &'static str {
        match self {
            End::Target => "target",
            End::Limit => "limit",
            End::Dominated => "dominated",
            End::NotFinite => "not finite",
        }
    }
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) end: End,
    pub(super) steps: u64,
    /// Tokens sampled for training, and those among them that completed prefixes.
    pub(super) tokens: usize,
    pub(super) completed: usize,
    /// Mean length of a response in the last rollout.
    pub(super) length: f64,
    pub(super) curve: Vec<Point>,
    pub(super) seconds: f64,
}

impl Start {
    /// A seed's weights, trained on demonstrations.
    pub(super) fn new(protocol: &'static Protocol, form: Form, seed: u64) -> Result<Start, LabError> {
        Start::untrained(protocol, form, seed)?.learn()
    }

    /// A seed's weights as `folder` keeps them; the first call makes them.
    pub(super) fn kept(
        protocol: &'static Protocol,
        form: Form,
        seed: u64,
        folder: &Path,
    ) -> Result<Start, LabError> {
        let start = Start::untrained(protocol, form, seed)?;
        // Written last: the weights beside it are whole.
        let mark = folder.join("steps");
        let steps = std::fs::read_to_string(&mark).ok().and_then(|text| text.trim().parse().ok());
        if let Some(steps) = steps {
            let config = start.model.config().clone();
            let weights = weights::load(folder, &config)?;
            return Ok(Start { model: Decoder::new(config, weights)?, steps, ..start });
        }
        let start = start.learn()?;
        let (config, parameters) = (start.model.config(), start.model.parameters());
        weights::save(folder, config, parameters, SaveDtype::F32, usize::MAX)?;
        Disk::default()
            .replace(&mark, format!("{}\n", start.steps).as_bytes())
            .map_err(model::Error::from)?;
        Ok(start)
    }

    fn untrained(protocol: &'static Protocol, form: Form, seed: u64) -> Result<Start, LabError> {
        let shape = &protocol.model;
        let (vocab, hidden, layers) = (VOCABULARY, shape.hidden, shape.layers);
        let (heads, kv_heads) = (shape.heads, shape.kv_heads);
        let mut config = Qwen2.config(ModelShape { vocab, hidden, layers, heads, kv_heads });
        config.intermediate_size = shape.intermediate;
        config.rope_theta = shape.rope_theta;
        let model = Decoder::new(config.clone(), weights::initialise(&config, seed, shape.deviation))?;
        let sampling = SamplingParams { max_new_tokens: form.longest(), min_new_tokens: 0, temperature: 1.0 };
        let settings = StepSettings {
            sampling,
            eos: vec![END],
            stops: None,
            seed,
            sets: None,
            inner_updates: 1,
            memory: MEMORY,
            reference: false,
            evidence: None,
            max_logp_error: f64::INFINITY,
        };
        Ok(Start { protocol, verifier: Verifier { form, seed }, settings, model, steps: 0 })
    }

    /// Trains the weights on demonstrations up to the accuracy of the protocol.
    fn learn(mut self) -> Result<Start, LabError> {
        let lesson = &self.protocol.start;
        let mut engine = self.engine(Some(1.0))?;
        let mut pace = 1.0;
        while self.steps < lesson.most_steps {
            let numbers = self.steps * lesson.batch..(self.steps + 1) * lesson.batch;
            let examples: Vec<sft::Example> = numbers.map(|n| self.example(n)).collect();
            let rate = lesson.lr * pace * warm(self.steps, lesson.warmup);
            sft::step(&mut engine, &examples, rate, MEMORY)
                .map_err(|source| TrainError::Sft { step: self.steps, source })?;
            self.steps += 1;
            if self.steps.is_multiple_of(lesson.check_every) {
                match self.step_accuracy(&mut engine)? {
                    accuracy if accuracy >= lesson.accuracy => break,
                    accuracy if accuracy >= lesson.slow_from => pace = lesson.slow_pace,
                    _ => {}
                }
            }
        }
        self.model = engine.model;
        Ok(self)
    }

    fn example(&self, number: u64) -> sft::Example {
        let draws = Address::new(self.settings.seed, Purpose::Demonstrations).response(number);
        let form = &self.verifier.form;
        let chain = form.chain(self.settings.seed, Part::Training, number);
        form.demonstration(&chain, self.protocol.start.wrong, draws)
    }

    fn engine(&self, clip: Option<f64>) -> Result<CpuEngine, LabError> {
        self.engine_at(self.model.parameters().clone(), clip)
    }

    /// An engine with weights of the start's shape.
    pub(super) fn engine_at(
        &self,
        weights: Parameters<f32>,
        clip: Option<f64>,
    ) -> Result<CpuEngine, LabError> {
        let adam = AdamWSettings { max_grad_norm: clip, ..AdamWSettings::default() };
        let model = Decoder::new(self.model.config().clone(), weights)?;
        Ok(CpuEngine::new(model, TrainingSetup::new(adam))?)
    }

    fn prompts(&self, part: Part, numbers: Range<u64>) -> Vec<TrainingPrompt> {
        let form = &self.verifier.form;
        let prompt = |number| {
            let chain = form.chain(self.settings.seed, part, number);
            TrainingPrompt { tokens: form.prompt(&chain), gold: 0.into(), number }
        };
        numbers.map(prompt).collect()
    }

    fn context<'a>(&'a self, method: &'a dyn grpo_lambda::methods::Method) -> StepContext<'a> {
        StepContext::new(&self.settings, method, &self.verifier)
    }

    /// Responses to held-out prompts.
    fn exam(&self, engine: &mut CpuEngine, step: u64) -> Result<Rollout, LabError> {
        let method = methods::parse("rloo", "").expect("a method without settings").method;
        let prompts = self.prompts(Part::HeldOut, APART..APART + self.protocol.exam.prompts);
        Ok(self.context(method.as_ref()).sample(engine, prompts, SAMPLES, APART + step)?)
    }

    /// The accuracy of a step in responses to held-out prompts.
    fn step_accuracy(&self, engine: &mut CpuEngine) -> Result<f64, LabError> {
        Ok(self.verifier.step_accuracy(&self.exam(engine, self.steps)?))
    }

    /// Groups of independent responses to one training prompt, or of an arm's systematic sets.
    pub(super) fn pool(
        &self,
        engine: &mut CpuEngine,
        arm: &Arm,
        prompt: u64,
        groups: usize,
    ) -> Result<Rollout, LabError> {
        let configured = methods::parse(&arm.method, &arm.settings).expect("a test parses the protocol");
        let settings = StepSettings { sets: arm.sets(), ..self.settings.clone() };
        let context = StepContext::new(&settings, configured.method.as_ref(), &self.verifier);
        let one = &self.prompts(Part::Training, APART + prompt..APART + prompt + 1)[0];
        let numbers = (0..groups as u64).map(|k| APART + prompt * (1 << 20) + k);
        let prompts = numbers.map(|number| TrainingPrompt { number, ..one.clone() }).collect();
        Ok(context.sample(engine, prompts, self.protocol.rl.group, APART + prompt)?)
    }

    fn accuracy(&self, engine: &mut CpuEngine, step: u64) -> Result<f64, LabError> {
        let rollout = self.exam(engine, step)?;
        let rewards: Vec<f64> =
            rollout.groups.iter().flat_map(|g| &g.responses).filter_map(|r| r.reward).collect();
        Ok(rewards.iter().sum::<f64>() / rewards.len() as f64)
    }

    /// Trains an arm from the start at a rate. `is_dominated` sees the run and its weights after every exam and says whether it need not go on.
    pub(super) fn run(
        &self,
        arm: &Arm,
        rate: f64,
        mut is_dominated: impl FnMut(&Outcome, &CpuEngine) -> bool,
    ) -> Result<Outcome, LabError> {
        let (began, rl, exam) = (Instant::now(), &self.protocol.rl, &self.protocol.exam);
        let configured = methods::parse(&arm.method, &arm.settings).expect("a test parses the protocol");
        let settings = StepSettings { sets: arm.sets(), ..self.settings.clone() };
        let context = StepContext::new(&settings, configured.method.as_ref(), &self.verifier);
        let mut evidence = Evidence::new(arm.evidence, &settings, &self.verifier);
        let mut engine = self.engine(None)?;
        let curve = vec![Point { tokens: 0.0, accuracy: self.accuracy(&mut engine, 0)? }];
        let mut done =
            Outcome { end: End::Limit, steps: 0, tokens: 0, completed: 0, length: 0.0, curve, seconds: 0.0 };
        while done.steps < rl.most_steps {
            let step = done.steps;
            let first = RL + step * rl.prompts;
            let prompts = self.prompts(Part::Training, first..first + rl.prompts);
            let mut rollout = context.sample(&mut engine, prompts, rl.group, step)?;
            let sampled: usize = rollout.groups.iter().flat_map(|g| &g.responses).map(|r| r.len()).sum();
            let completed = evidence.add(&engine, &mut rollout)?;
            done.tokens += sampled + completed;
            done.completed += completed;
            done.length = sampled as f64 / (rl.prompts as usize * rl.group) as f64;
            let report = context.step(&mut engine, &rollout, rate * warm(step, rl.warmup))?;
            if !matches!(report.update(), Some(StepOutcome::Applied { .. })) {
                done.end = End::NotFinite;
                break;
            }
            done.steps += 1;
            if done.steps.is_multiple_of(exam.every) {
                let accuracy = self.accuracy(&mut engine, done.steps)?;
                done.curve.push(Point { tokens: done.tokens as f64, accuracy });
                if tokens_to(&done.curve, exam.target).is_some() {
                    done.end = End::Target;
                    break;
                }
                if is_dominated(&done, &engine) {
                    done.end = End::Dominated;
                    break;
                }
            }
        }
        Ok(Outcome { seconds: began.elapsed().as_secs_f64(), ..done })
    }
}

/// The factor of the rate in a warm-up of so many steps.
fn warm(step: u64, warmup: u64) -> f64 {
    ((step + 1) as f64 / warmup.max(1) as f64).min(1.0)
}

/// The tokens at which the mean of two exams in a row reaches the target, between two such means interpolated linearly.
pub(super) fn tokens_to(curve: &[Point], target: f64) -> Option<f64> {
    let first = curve.first()?;
    let means = curve.windows(2).map(|w| (w[1].tokens, (w[0].accuracy + w[1].accuracy) / 2.0));
    let means: Vec<(f64, f64)> = std::iter::once((first.tokens, first.accuracy)).chain(means).collect();
    let at = means.iter().position(|(_, accuracy)| *accuracy >= target)?;
    let Some((x, a)) = at.checked_sub(1).map(|before| means[before]) else { return Some(means[0].0) };
    let (y, b) = means[at];
    Some(x + (y - x) * (target - a) / (b - a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_to_the_target_by_hand() {
        let curve = |accuracies: &[f64]| -> Vec<Point> {
            accuracies
                .iter()
                .zip(0..)
                .map(|(&accuracy, i)| Point { tokens: f64::from(i) * 100.0, accuracy })
                .collect()
        };
        // Means .5, .6, .8, .9: the target .9 at the last exam, .7 halfway between .6 and .8.
        let rising = curve(&[0.5, 0.7, 0.9, 0.9]);
        assert_eq!(tokens_to(&rising, 0.95), None);
        assert!((tokens_to(&rising, 0.7).expect("reached") - 150.0).abs() < 1e-9);
        assert!((tokens_to(&rising, 0.9).expect("reached") - 300.0).abs() < 1e-9);
        // One lucky exam is not enough; a start above the target is.
        assert_eq!(tokens_to(&curve(&[0.5, 0.95, 0.6]), 0.9), None);
        assert_eq!((tokens_to(&curve(&[0.95]), 0.9), tokens_to(&[], 0.9)), (Some(0.0), None));
    }
}
