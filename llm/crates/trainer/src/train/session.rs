//! [`Session`]: everything that the steps of a run share, besides the engine whose weights they move.

use std::ops::Range;
use std::path::Path;

use grpo_lambda::advantage::all_equal;
use grpo_lambda::group::{Group, InputKind};
use grpo_lambda_decoder::generate::SamplingProgress;
use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::select::ComputeDevice;
use grpo_lambda_stats::mean;

use super::engines::{EngineStart, Engines, Local};
use super::error::{Result, TrainError};
use super::model::{initial_weights, tokens, with_located_model};
use super::open::{decided, device, refuse_elsewhere, refuse_run_directory};
use crate::config::Config;
use crate::input::stops::Stops;
use crate::input::tokens::ModelTokenizer;
use crate::problems::{Problems, Stage, TaskError};
use crate::reward::RewardBreakdown;
use crate::run::progress::say;
use crate::step::engine::{Engine, SampledBy, TrainingSetup, WeightFollower};
use crate::step::extra_inputs::{InputRequest, provided};
use crate::step::sft::{self, Example, SftReport};
use crate::step::{
    RequestedCompletions, RequestedInputs, Rollout, Segments, StepContext, StepReport, StepSettings,
    TextReward, TrainingPrompt,
};

/// The most rollouts that dynamic sampling takes for a step.
const MAX_SAMPLING_ROUNDS: u64 = 4;

/// The problems, tokens, rewards and settings of a run. An engine holds the state of training.
///
/// ```
/// use grpo_lambda_trainer::config::Config;
/// use grpo_lambda_trainer::train::{Session, Stage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let small = ["rl.prompts_per_step=2", "rl.group_size=2", "rl.max_new_tokens=4", "eval.n=2"];
/// let session = Session::open(&Config::resolve("tiny", &small)?)?;
/// let mut engine = session.engine(Stage::Rl)?;
/// let rollout = session.rollout(engine.as_mut(), 0)?;
/// let report = session.step(engine.as_mut(), &rollout)?;
/// assert_eq!((rollout.groups.len(), report.updates.len()), (2, session.settings.inner_updates));
/// # Ok(())
/// # }
/// ```
pub struct Session<'e> {
    pub config: Config,
    pub tokens: ModelTokenizer,
    pub problems: Problems,
    pub shape: Shape,
    pub settings: StepSettings,
    pub rewards: TextReward,
    pub(super) device: ComputeDevice,
    engines: &'e dyn Engines,
    follower: Option<Box<dyn WeightFollower>>,
}

impl Session<'static> {
    /// Opens a configuration for training in this process.
    pub fn open(config: &Config) -> Result<Self> {
        let (config, device) = (with_located_model(config)?, device(config)?);
        Ok(Session::open_on(device, &Local, &config, true)?.0)
    }
}

impl<'e> Session<'e> {
    /// Opens a configuration on this device; next to it the weights that a fresh run starts from. Only a run that `will_step` has to fit a card.
    pub fn open_on(
        device: ComputeDevice,
        engines: &'e dyn Engines,
        config: &Config,
        will_step: bool,
    ) -> Result<(Self, Parameters<f32>)> {
        engines.check(config, &device)?;
        refuse_elsewhere(config, &device)?;
        config.configured().require(&provided(config.configured()))?;
        refuse_run_directory(config)?;
        let tokens = tokens(config)?;
        let (shape, parameters) = initial_weights(config, &tokens)?;
        let limit = shape.max_position_embeddings;
        let problems = Problems::open(config, &tokens, limit, &mut say).map_err(TrainError::Task)?;
        let config = decided(config, &device, (&problems, &tokens, &shape), will_step)?;
        let request =
            InputRequest::from_method(config.configured(), problems.extraction(), &tokens, shape.vocab_size)?;
        let stops = Stops::new(&tokens, problems.stop());
        let settings = StepSettings {
            extra_inputs: request.map(|request| RequestedInputs { request, tokens: tokens.clone() }),
            completions: RequestedCompletions::new(&config, &tokens),
            stops: Some(stops.clone()),
            ..StepSettings::new(&config, tokens.eos())
        };
        let mut rewards = TextReward::new(&tokens, &config.reward, problems.extraction(), config.seed);
        (rewards.stops, rewards.say) = (stops, say);
        let follower = None;
        let session =
            Session { config, tokens, problems, shape, settings, rewards, device, engines, follower };
        Ok((session, parameters))
    }

    /// Connects the server of the configuration, if there is one; weights may be handed over below `run`.
    pub(super) fn connect(&mut self, run: &Path) -> Result<()> {
        self.follower = self.engines.follower(&self.config, self.shape.vocab_size, run)?;
        Ok(())
    }

    /// Builds the engine of a stage at the weights that a fresh run starts from.
    pub fn engine(&self, stage: Stage) -> Result<Box<dyn Engine + 'e>> {
        let (_, parameters) = initial_weights(&self.config, &self.tokens)?;
        self.engine_at(stage, parameters, None)
    }

    /// True if a checkpoint of this stage holds frozen weights: a reference, or the weights under an adapter.
    pub(super) fn has_frozen_weights(&self, stage: Stage) -> bool {
        let refers =
            stage == Stage::Rl && self.config.configured().extra_inputs().contains(&InputKind::RefLogps);
        refers || self.config.lora.is_some()
    }

    /// Builds the engine of a stage at these weights. Its frozen weights are `frozen`, or else the weights it starts from.
    pub(super) fn engine_at(
        &self,
        stage: Stage,
        parameters: Parameters<f32>,
        frozen: Option<Parameters<f32>>,
    ) -> Result<Box<dyn Engine + 'e>> {
        let Config { lora, memory, seed, .. } = &self.config;
        let (adam, number) = match stage {
            Stage::Sft => (self.config.sft_optimiser(), 0),
            Stage::Rl => (self.config.rl_optimiser(), 1),
        };
        let copies = self.has_frozen_weights(stage) && lora.is_none();
        let frozen = frozen.or_else(|| copies.then(|| parameters.clone()));
        let (parameters, reference) = match (lora, frozen) {
            (Some(_), Some(base)) => (base, None),
            (_, frozen) => (parameters, frozen),
        };
        // The adapters of the two stages start from different seeds.
        let seed = seed.wrapping_add(number);
        let (place, lora) = (memory.optimiser, lora.clone());
        let critic = (stage == Stage::Rl && self.config.has_critic()).then(|| adam.clone());
        let setup = TrainingSetup { adam, place, lora, reference, seed, critic };
        let start = EngineStart { shape: &self.shape, parameters, setup };
        Ok(self.engines.engine(&self.config, &self.device, start)?)
    }

    /// The sampler of an engine's policy.
    pub fn sampler<'a>(&'a self, engine: &'a dyn Engine) -> SampledBy<'a> {
        SampledBy { engine, follower: self.follower.as_deref() }
    }

    /// The context of a step with the method of the configuration.
    pub fn context(&self) -> StepContext<'_> {
        let context =
            StepContext::new(&self.settings, self.config.configured().method.as_ref(), &self.rewards);
        StepContext { follower: self.follower.as_deref(), ..context }
    }

    /// The prompts of RL of these numbers.
    pub fn prompts(&self, numbers: Range<u64>) -> Result<Vec<TrainingPrompt>> {
        let prompt = |number| {
            let problem = self.problems.problem(Stage::Rl, number).map_err(TrainError::Problem)?;
            let tokens = problem.encode(&self.tokens)?.ids().to_vec();
            let text = Some(problem.text().to_owned());
            let answered = match self.settings.teacher {
                true => problem
                    .answered()
                    .ok_or(TrainError::Problem(TaskError::NoPlaceForAnswer))?
                    .encode(&self.tokens)?
                    .ids()
                    .to_vec(),
                false => Vec::new(),
            };
            let fresh = TrainingPrompt::new(tokens, problem.gold, number);
            Ok(TrainingPrompt { problem: text, others: problem.others, answered, ..fresh })
        };
        numbers.map(prompt).collect()
    }

    /// The demonstrations of a supervised step.
    pub fn examples(&self, step: u64) -> Result<Vec<Example>> {
        let (sft, batch) = (&self.config.sft, self.config.sft.batch as u64);
        let coin = Address::new(self.config.seed, Purpose::Demonstrations);
        let example = |index| {
            let problem = self.problems.problem(Stage::Sft, index).map_err(TrainError::Problem)?;
            let worked = coin.unit(index) < sft.worked_share;
            let text = if worked { &problem.solution } else { problem.answer_only() };
            let response = self.tokens.target(text)?.ids().to_vec();
            Ok(Example { prompt: problem.encode(&self.tokens)?.ids().to_vec(), response })
        };
        (step * batch..(step + 1) * batch).map(example).collect()
    }

    /// Takes supervised step `step` at its learning rate.
    pub fn imitate(&self, engine: &mut dyn Engine, step: u64) -> Result<SftReport> {
        let (examples, rate) = (self.examples(step)?, self.config.sft.learning_rates().rate(step));
        let report = sft::step(engine, &examples, rate, self.config.memory);
        report.map_err(|source| TrainError::Sft { step, source })
    }

    /// Samples the responses of RL step `step`. With dynamic sampling, groups whose answers are all right or all wrong are replaced, a few
    /// times at most.
    pub fn rollout(&self, engine: &mut dyn Engine, step: u64) -> Result<Rollout> {
        self.watched_rollout(engine, step, None)
    }

    /// [`Session::rollout`], of whose sampling `watch` gets the progress.
    pub(super) fn watched_rollout(
        &self,
        engine: &mut dyn Engine,
        step: u64,
        watch: Option<&(dyn Fn(SamplingProgress) + Sync)>,
    ) -> Result<Rollout> {
        let rl = &self.config.rl;
        let (wanted, rounds) =
            (rl.prompts_per_step, if rl.dynamic_sampling { MAX_SAMPLING_ROUNDS } else { 1 });
        let entropy_coef = rl.entropy_coef;
        let mut rollout = Rollout { step, on_policy: true, entropy_coef, ..Rollout::default() };
        let (mut kept, mut agreeing) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let first = self.problems.round_number(step, round, MAX_SAMPLING_ROUNDS) * wanted as u64;
            let prompts = self.prompts(first..first + wanted as u64)?;
            let context = StepContext { watch, ..self.context() };
            let fresh = context.sample(engine, prompts, rl.group_size, step);
            let fresh = fresh.map_err(|source| TrainError::Rl { step, source })?;
            rollout.input_cost += fresh.input_cost;
            rollout.sampled_tokens += fresh.sampled_tokens;
            for answered in answered(fresh) {
                let agrees = rl.dynamic_sampling && !is_kept(rl.dynamic_band, &answered.2);
                if agrees { &mut agreeing } else { &mut kept }.push(answered);
            }
            if kept.len() >= wanted {
                break;
            }
        }
        for (prompt, group, rewards, segments) in fill_up(kept, agreeing, wanted) {
            rollout.prompts.push(prompt);
            rollout.groups.push(group);
            rollout.rewards.push(rewards);
            rollout.segments.extend(segments);
        }
        Ok(rollout)
    }

    /// Moves the weights on a rollout at the learning rate of its step.
    pub fn step(&self, engine: &mut dyn Engine, rollout: &Rollout) -> Result<StepReport> {
        let (step, rate) = (rollout.step, self.config.rl.learning_rates().rate(rollout.step));
        self.context().step(engine, rollout, rate).map_err(|source| TrainError::Rl { step, source })
    }
}

/// True if dynamic sampling keeps a group: one whose mean reward is in the band, or without a band one with both right and wrong responses. Then
/// only correctness decides, not the other components of the reward.
pub fn is_kept(band: Option<[f64; 2]>, rewards: &[RewardBreakdown]) -> bool {
    let Some([low, high]) = band else {
        return !all_equal(&rewards.iter().filter_map(RewardBreakdown::accuracy).collect::<Vec<_>>());
    };
    let known: Vec<f64> = rewards.iter().filter_map(|reward| reward.total).collect();
    mean(&known).is_some_and(|mean| (low..=high).contains(&mean))
}

/// A prompt, its group, the rewards of the responses, and their segments, if they are a tree.
type Answered = (TrainingPrompt, Group, Vec<RewardBreakdown>, Option<Segments>);

/// A rollout prompt by prompt.
fn answered(rollout: Rollout) -> impl Iterator<Item = Answered> {
    let Rollout { prompts, groups, rewards, segments, .. } = rollout;
    let segments = segments.into_iter().map(Some).chain(std::iter::repeat(None));
    let answered = prompts.into_iter().zip(groups).zip(rewards).zip(segments);
    answered.map(|(((prompt, group), rewards), segments)| (prompt, group, rewards, segments))
}

/// The first `wanted` of `kept`, filled up from `passed_over` if they are too few.
pub fn fill_up<T>(kept: Vec<T>, passed_over: Vec<T>, wanted: usize) -> Vec<T> {
    kept.into_iter().chain(passed_over).take(wanted).collect()
}
