//! The start of a seed, and a run from it up to the budget.

use std::ops::Range;

use grpo_lambda::methods::{self, Configured};
use grpo_lambda::systematic::Sets;
use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::Architecture::Qwen2;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{Decoder, ModelShape};
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::StatePlace;
use grpo_lambda_trainer::config::MemoryConfig;
use grpo_lambda_trainer::config::schedule::ScheduleShape;
use grpo_lambda_trainer::step::engine::{CpuEngine, TrainingSetup};
use grpo_lambda_trainer::step::{Rollout, StepContext, StepSettings, TrainingPrompt, sft};
use grpo_lambda_trainer::train::TrainError;
use grpo_lambda_trials::{Method, Study, Trial};

use super::setup::Setup;
use super::task::{END, Part, VOCABULARY, Verifier};
use crate::Result;
use crate::course::{Course, warm};

/// The first problem of RL; supervised learning has those before it.
const RL: u64 = 1 << 40;
/// Prompts and steps that no run trains on.
pub(crate) const APART: u64 = 1 << 50;
/// Responses to each held-out prompt.
const SAMPLES: usize = 2;

pub(super) const MEMORY: MemoryConfig = MemoryConfig {
    micro_batch_tokens: 8192,
    recompute_layers: false,
    optimiser: StatePlace::Device,
    slots: None,
};

/// The weights from which all runs of a seed start.
pub(crate) struct Start<'a> {
    study: &'a Study<Setup>,
    pub(crate) verifier: Verifier,
    pub(crate) settings: StepSettings,
    pub(crate) model: Decoder<f32>,
    /// Steps of supervised learning.
    steps: u64,
}

impl<'a> Start<'a> {
    /// A seed's weights, trained on demonstrations.
    pub(crate) fn new(study: &'a Study<Setup>, seed: u64) -> Result<Start<'a>> {
        Start::untrained(study, seed)?.learn()
    }

    fn untrained(study: &'a Study<Setup>, seed: u64) -> Result<Start<'a>> {
        let (shape, form) = (&study.setup.model, study.setup.task);
        let (vocab, hidden, layers) = (VOCABULARY, shape.hidden, shape.layers);
        let (heads, kv_heads) = (shape.heads, shape.kv_heads);
        let mut config = Qwen2.config(ModelShape { vocab, hidden, layers, heads, kv_heads });
        config.intermediate_size = shape.intermediate;
        config.rope_theta = shape.rope_theta;
        let model = Decoder::new(config.clone(), weights::initialise(&config, seed, shape.deviation))?;
        let sampling = SamplingParams::new(form.len(), 1.0);
        let settings = StepSettings {
            sampling,
            eos: vec![END],
            stops: None,
            seed,
            sets: None,
            branching: None,
            completions: None,
            inner_updates: 1,
            entropy_coef: 0.0,
            critic: None,
            leaves_still: true,
            memory: MEMORY,
            reference: false,
            teacher: false,
            parts: None,
            extra_inputs: None,
            max_logp_error: f64::INFINITY,
        };
        Ok(Start { study, verifier: Verifier { form }, settings, model, steps: 0 })
    }

    /// Trains the weights on demonstrations up to the accuracy of the protocol.
    fn learn(mut self) -> Result<Start<'a>> {
        let lesson = &self.study.setup.start;
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
        form.demonstration(&chain, self.study.setup.start.wrong, draws)
    }

    pub(super) fn engine(&self, clip: Option<f64>) -> Result<CpuEngine> {
        self.engine_with(self.model.parameters().clone(), clip, false)
    }

    /// An engine with weights of the start's shape, and a critic on a copy of them.
    pub(crate) fn engine_with(
        &self,
        weights: Parameters<f32>,
        clip: Option<f64>,
        critic: bool,
    ) -> Result<CpuEngine> {
        let adam = AdamWSettings { max_grad_norm: clip, ..AdamWSettings::default() };
        let model = Decoder::new(self.model.config().clone(), weights)?;
        let critic = critic.then(|| adam.clone());
        Ok(CpuEngine::new(model, TrainingSetup { critic, ..TrainingSetup::new(adam) })?)
    }

    pub(crate) fn prompts(&self, part: Part, numbers: Range<u64>) -> Vec<TrainingPrompt> {
        let form = &self.verifier.form;
        let prompt = |number| {
            let chain = form.chain(self.settings.seed, part, number);
            TrainingPrompt::new(form.prompt(&chain), 0.into(), number)
        };
        numbers.map(prompt).collect()
    }

    fn context<'s>(&'s self, method: &'s dyn grpo_lambda::methods::Method) -> StepContext<'s> {
        StepContext::new(&self.settings, method, &self.verifier)
    }

    /// Responses to so many held-out prompts.
    fn exam(&self, engine: &mut CpuEngine, prompts: u64, step: u64) -> Result<Rollout> {
        let method = methods::parse("rloo", "").expect("a method without settings").method;
        let prompts = self.prompts(Part::HeldOut, APART..APART + prompts);
        Ok(self.context(method.as_ref()).sample(engine, prompts, SAMPLES, APART + step)?)
    }

    /// The accuracy of a step in responses to held-out prompts.
    fn step_accuracy(&self, engine: &mut CpuEngine) -> Result<f64> {
        let prompts = self.study.setup.start.check_prompts;
        Ok(self.verifier.step_accuracy(&self.exam(engine, prompts, self.steps)?))
    }

    /// Groups of responses to one training prompt, sampled in these sets.
    pub(super) fn pool(
        &self,
        engine: &mut CpuEngine,
        sets: Option<Sets>,
        prompt: u64,
        groups: usize,
    ) -> Result<Rollout> {
        let rloo = methods::parse("rloo", "").expect("a method without settings");
        let settings = StepSettings { sets, ..self.settings.clone() };
        let context = StepContext::new(&settings, rloo.method.as_ref(), &self.verifier);
        let one = &self.prompts(Part::Training, APART + prompt..APART + prompt + 1)[0];
        let numbers = (0..groups as u64).map(|k| APART + prompt * (1 << 20) + k);
        let prompts = numbers.map(|number| TrainingPrompt { number, ..one.clone() }).collect();
        Ok(context.sample(engine, prompts, self.study.setup.rl.group, APART + prompt)?)
    }

    /// Held-out accuracy after so many steps.
    fn accuracy(&self, engine: &mut CpuEngine, steps: u64) -> Result<f64> {
        let rollout = self.exam(engine, self.study.setup.exam.prompts, steps)?;
        let rewards: Vec<f64> =
            rollout.groups.iter().flat_map(|g| &g.responses).filter_map(|r| r.reward).collect();
        Ok(rewards.iter().sum::<f64>() / rewards.len() as f64)
    }

    /// Writes what the verifier tells a method into a rollout.
    pub(super) fn add_credit(
        &self,
        method: &Method,
        engine: &CpuEngine,
        rollout: &mut Rollout,
    ) -> Result<()> {
        match self.study.setup.credit.get(&method.name) {
            Some(credit) => credit.add(&engine.model, &self.verifier.form, &self.settings, rollout),
            None => Ok(()),
        }
    }

    /// The settings of a method that reads nothing but independent responses, or systematic sets of them.
    pub(crate) fn settings_of(&self, method: &Configured) -> StepSettings {
        StepSettings { sets: method.sets(), ..self.settings.clone() }
    }

    /// Trains a method with these settings from the start until the budget is spent; the rate falls linearly from
    /// `rate` to 0. `watch` sees the steps and the weights after every exam.
    pub(crate) fn run(
        &self,
        method: &Method,
        settings: &StepSettings,
        rate: f64,
        watch: impl FnMut(u64, &CpuEngine),
    ) -> Result<Trial> {
        let Setup { rl, exam, .. } = &self.study.setup;
        let configured = configured(method);
        let course = Course {
            context: StepContext::new(settings, configured.method.as_ref(), &self.verifier),
            group: rl.group,
            budget: self.study.budget,
            every: exam.every,
            shape: ScheduleShape::Linear,
            warmup: rl.warmup,
            prompts: &|step| {
                Ok(self.prompts(Part::Training, RL + step * rl.prompts..RL + (step + 1) * rl.prompts))
            },
            credit: &|engine, rollout| self.add_credit(method, engine, rollout),
            exam: &|engine, steps| self.accuracy(engine, steps),
        };
        let (name, seed, start_steps) = (method.name.clone(), self.settings.seed, self.steps);
        let trial = Trial { method: name, rate, seed, start_steps, ..Trial::default() };
        let weights = self.model.parameters().clone();
        let mut engine = self.engine_with(weights, None, settings.critic.is_some())?;
        course.run(&mut engine, trial, watch)
    }
}

/// The method, which a test parses.
pub(crate) fn configured(method: &Method) -> Configured {
    methods::parse(&method.method, &method.settings).expect("a test parses the protocol")
}
