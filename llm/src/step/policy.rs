//! [`LlmPolicy`]: a transformer on an [`Engine`] behind the core's [`Policy`] trait.

use std::cell::Cell;
use std::ops::Range;

use grpo_lambda::group::{Evidence, EvidenceKind, Group, Response};
use grpo_lambda::learner::{Policy, Scored};
use grpo_lambda_decoder::drift::Drift;
use grpo_lambda_decoder::model::{Error as ModelError, Options};
use grpo_lambda_decoder::optim::{OptimError, Update};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::rollout::Ask;
use grpo_lambda_decoder::rollout::{RolloutError, Sampling};
use grpo_lambda_grade::{Extraction, Gold};

use crate::config::{Config, MemoryConfig};
use crate::input::tokens::{TokenError, Tokens};
use crate::reward::{Earned, RewardConfig, Seen};
use crate::step::engine::Engine;
use crate::step::evidence::{self, Cost, EvidenceError, Pass, Question};
use crate::step::micro_batch;

/// A prompt with the answer that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Exercise {
    /// Token ids of the prompt.
    pub prompt: Vec<u32>,
    /// The answer.
    pub gold: Gold,
    /// Where its random numbers are: a number no other prompt of the step has.
    pub number: u64,
}

/// What stops training.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Sampling failed.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// The model refused its input.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A response could not be decoded.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The optimiser refused.
    #[error(transparent)]
    Optim(#[from] OptimError),
    /// The method's evidence could not be found.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// Sampler and trainer disagree: training would be off-policy without saying so.
    #[error(
        "response {response}, token {token}: the sampler gave it log-probability {sampled}, the trainer {trained}; \
         with the same weights they must agree, so the run stops"
    )]
    Drift {
        /// The response, in flat order.
        response: usize,
        /// The token.
        token: usize,
        /// The sampler's log-probability.
        sampled: f64,
        /// The trainer's.
        trained: f64,
    },
    /// Sampler and trainer round differently, and too much.
    #[error(
        "sampler and trainer give a token probabilities that differ by a factor of {mean:.4} on average (at most {max:.4}); \
         rl.max_logp_error={limit} allows less, so the run stops: dtype=f32 rounds less"
    )]
    Rounding {
        /// Mean factor.
        mean: f64,
        /// Largest factor.
        max: f64,
        /// What is allowed.
        limit: f64,
    },
}

/// What a step of the optimiser did, for logs.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The optimiser's word.
    pub update: Update,
    /// Learning rate used.
    pub rate: f64,
}

/// A model in training on some engine.
pub struct LlmPolicy<E: Engine> {
    /// The model being trained.
    pub engine: E,
    /// Whether the method compares with the frozen reference.
    pub refers: bool,
    /// Learning rate of the next step of the optimiser.
    pub rate: f64,
    /// Step of training, which addresses random numbers.
    pub step: u64,
    /// Where the answer stands in a response.
    pub extraction: Extraction,
    /// What the optimiser did with the batch: its first step that was skipped, or else its last step.
    pub last: Option<StepReport>,
    /// What the responses of the last sample earned, by group and response.
    pub earned: Vec<Vec<Earned>>,
    /// What the method asks of every response beside its log-probabilities.
    pub question: Option<Question>,
    /// What asking has cost so far.
    pub cost: Cost,
    tokens: Tokens,
    sampling: Sampling,
    reward: RewardConfig,
    memory: MemoryConfig,
    seed: u64,
    /// Whether the weights are still those that sampled: then log-probabilities must be the sampler's, to the bit where the engine is exact.
    on_policy: Cell<bool>,
    drift: Cell<Drift>,
    most_drift: f64,
}

impl<E: Engine> LlmPolicy<E> {
    /// A policy on `engine` with the settings of `config`, which asks no question of its responses; see [`LlmPolicy::question`].
    pub fn new(engine: E, tokens: Tokens, config: &Config) -> Self {
        let rl = &config.rl;
        let sampling =
            Sampling { max_new_tokens: rl.max_new_tokens, min_new_tokens: 0, temperature: rl.temperature };
        LlmPolicy {
            engine,
            refers: config.configured().evidence().contains(&EvidenceKind::RefLogps),
            rate: 0.0,
            step: 0,
            extraction: Extraction::Boxed,
            last: None,
            earned: Vec::new(),
            question: None,
            cost: Cost::default(),
            tokens,
            sampling,
            reward: config.reward.clone(),
            memory: config.memory,
            seed: config.seed,
            on_policy: Cell::new(false),
            drift: Cell::default(),
            most_drift: rl.max_logp_error,
        }
    }

    /// How far sampler and trainer were apart on the batch, where both used the same weights.
    pub fn drift(&self) -> Drift {
        self.drift.get()
    }

    fn options(&self) -> Options {
        Options {
            temperature: self.sampling.temperature,
            entropy: false,
            checkpoint: self.memory.recompute_layers,
        }
    }

    /// What a response earns by its text and length.
    fn judge(&self, tokens: &[u32], gold: &Gold) -> Result<Earned, TokenError> {
        let text = self.tokens.text(tokens)?;
        Ok(self.reward.score(&Seen { text: &text, length: tokens.len(), gold, extraction: self.extraction }))
    }
}

/// Token ids of the prompts.
fn ids(prompts: &[Exercise]) -> Vec<&[u32]> {
    prompts.iter().map(|p| p.prompt.as_slice()).collect()
}

impl<E: Engine> Policy for LlmPolicy<E> {
    type Prompt = Exercise;
    type Tape = E::Tape;
    type Error = PolicyError;

    fn sample(&mut self, prompts: &[Exercise], group_size: usize) -> Result<Vec<Group>, PolicyError> {
        let ids = ids(prompts);
        let base = Address::new(self.seed, Purpose::Rollout).step(self.step);
        let address =
            |prompt: usize, response: usize| base.prompt(prompts[prompt].number).response(response as u64);
        let ask = Ask::new(&ids, group_size, self.tokens.eos(), self.sampling, &address);
        let sampled = self.engine.respond(&ask)?;
        let mut batch = Vec::with_capacity(prompts.len());
        self.earned.clear();
        for (exercise, responses) in prompts.iter().zip(sampled) {
            let mut group = Group::default();
            let judged = responses.iter().map(|s| self.judge(&s.tokens, &exercise.gold));
            let earned = judged.collect::<Result<Vec<_>, _>>()?;
            for (s, earned) in responses.into_iter().zip(&earned) {
                group.responses.push(Response {
                    tokens: s.tokens,
                    old_logps: s.logps,
                    ref_logps: None,
                    reward: earned.total,
                    truncated: s.truncated,
                    evidence: Evidence { entropies: Some(s.entropies), ..Evidence::default() },
                });
            }
            batch.push(group);
            self.earned.push(earned);
        }
        if self.refers {
            let (budget, options) = (self.memory.micro_batch_tokens, self.options());
            micro_batch::refer(&mut self.engine, &ids, &mut batch, budget, options)?;
        }
        if let (Some(question), Some(model)) = (self.question, self.engine.decoder()) {
            let pass = Pass {
                temperature: self.sampling.temperature,
                tokens: self.memory.micro_batch_tokens,
                recompute: self.memory.recompute_layers,
            };
            let base = Address::new(self.seed, Purpose::Perturbation).step(self.step);
            let prompt = |g: usize| prompts[g].prompt.as_slice();
            let address = |g: usize, i: usize| base.prompt(prompts[g].number).response(i as u64);
            self.cost += evidence::ask(model, question, &self.tokens, pass, &mut batch, prompt, address)?;
        }
        self.on_policy.set(true);
        self.drift.set(Drift::default());
        self.last = None;
        Ok(batch)
    }

    fn parts(&self, prompts: &[Exercise], batch: &[Group]) -> Vec<Range<usize>> {
        micro_batch::parts(&ids(prompts), batch, self.memory.micro_batch_tokens)
    }

    fn log_probs(
        &self,
        prompts: &[Exercise],
        batch: &[Group],
        part: Range<usize>,
    ) -> Result<Scored<E::Tape>, PolicyError> {
        let responses = || micro_batch::flat(batch).skip(part.start).take(part.len());
        let rows = micro_batch::rows(&ids(prompts), batch, part.clone());
        let (scores, tape) = self.engine.forward(&rows, self.options())?;
        if self.on_policy.get() && self.engine.exact() {
            for (i, ((_, response), logps)) in responses().zip(&scores.logps).enumerate() {
                let differs = |(a, b): (&f64, &f64)| a != b && !(a.is_nan() && b.is_nan());
                if let Some(token) = response.old_logps.iter().zip(logps).position(differs) {
                    let (sampled, trained) = (response.old_logps[token], logps[token]);
                    return Err(PolicyError::Drift { response: part.start + i, token, sampled, trained });
                }
            }
        }
        if self.on_policy.get() {
            let mut drift = self.drift.get();
            responses().zip(&scores.logps).for_each(|((_, r), logps)| drift.add(&r.old_logps, logps));
            self.drift.set(drift);
        }
        Ok((scores.logps, tape))
    }

    fn backward(&mut self, tape: E::Tape, dlogps: &[Vec<f64>]) -> Result<(), PolicyError> {
        Ok(self.engine.backward(tape, dlogps)?)
    }

    fn step(&mut self) -> Result<(), PolicyError> {
        let (drift, limit) = (self.drift.get(), self.most_drift);
        let rounding = PolicyError::Rounding { mean: drift.mean(), max: drift.max(), limit };
        if drift.mean() > limit {
            return Err(rounding);
        }
        let update = self.engine.step(self.rate)?;
        if let Update::Applied { .. } = update {
            // With a NaN in the log-probabilities goes one in the gradient, and the step is skipped; if not, something else is broken.
            if drift.mean().is_nan() {
                return Err(rounding);
            }
            self.on_policy.set(false);
        }
        // A skipped inner update is not to be hidden by those after it.
        if !matches!(self.last, Some(StepReport { update: Update::Skipped { .. }, .. })) {
            self.last = Some(StepReport { update, rate: self.rate });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::task::{Problem, Split, Task};
    use crate::step::engine::{Cpu, Stage};
    use crate::step::sft;
    use grpo_lambda_decoder::model::{Decoder, Rows, weights};

    fn start(model: Decoder<f32>, adam: grpo_lambda_decoder::optim::AdamWSettings) -> Cpu {
        Cpu::start(model, Stage::new(adam)).unwrap()
    }

    /// With room for four tokens only `\\boxed{d}` earns anything, so `J = mean_x pi(y_x|x)` and its gradient are known
    /// without sampling. RLOO's expected update is that gradient: the mean over many sampled groups must point there.
    #[test]
    fn the_mean_sampled_update_is_the_gradient_of_expected_reward() {
        let tokens = Tokens::tiny();
        let task = Task::Addition;
        let problems: Vec<Problem> = (0..200)
            .map(|i| task.problem(0, Split::Train, i))
            .filter(|p| p.solution.len() == 9)
            .take(8)
            .collect();
        let exercises: Vec<Exercise> = (0..)
            .zip(&problems)
            .map(|(number, p)| Exercise {
                prompt: tokens.prompt(&p.prompt).unwrap().ids().to_vec(),
                gold: p.gold.clone(),
                number,
            })
            .collect();
        let answers: Vec<Vec<u32>> =
            problems.iter().map(|p| tokens.target(&p.solution).unwrap().ids()[..4].to_vec()).collect();
        let config = Config::resolve("tiny", &["seed=7", "rl.max_new_tokens=4", "method.name=rloo"]).unwrap();
        let shape = grpo_lambda_decoder::model::Config::qwen2(tokens.len(), 32, 2, 2, 1);
        let model = Decoder::new(shape.clone(), weights::initialise(&shape, 1, 0.02)).unwrap();

        let mut answered = Rows::new();
        for (e, answer) in exercises.iter().zip(&answers) {
            let row: Vec<u32> = e.prompt.iter().chain(answer).copied().collect();
            answered.push(&row, e.prompt.len());
        }
        // Far enough from the random start that an answer comes up: a few steps of imitation.
        let examples: Vec<_> = exercises
            .iter()
            .zip(&answers)
            .map(|(e, a)| sft::Example { prompt: e.prompt.clone(), response: a.clone() })
            .collect();
        let mut engine = start(model, config.sft.adam.clone());
        for _ in 0..40 {
            sft::step(&mut engine, &examples, 5e-3, config.memory).unwrap();
        }

        let (scores, tape) = engine.forward(&answered, Options::default()).unwrap();
        let chances: Vec<f64> = scores.logps.iter().map(|row| row.iter().sum::<f64>().exp()).collect();
        let pull: Vec<Vec<f64>> = chances.iter().map(|p| vec![-p / chances.len() as f64; 4]).collect();
        engine.backward(tape, &pull).unwrap();
        let exact: Vec<f64> =
            engine.gradients().by_name().into_iter().flat_map(|(_, g)| g).map(|&x| f64::from(x)).collect();

        let mut policy = LlmPolicy::new(start(engine.model, config.rl.adam.clone()), tokens, &config);
        let configured = config.configured();
        let (batches, group) = (24, 64);
        let mut reward = 0.0;
        for step in 0..batches {
            policy.step = step;
            let batch = policy.sample(&exercises, group).unwrap();
            reward += batch.iter().flat_map(|g| &g.responses).filter_map(|r| r.reward).sum::<f64>();
            let responses: Vec<&Response> = batch.iter().flat_map(|g| &g.responses).collect();
            let credits = configured.method.credit(&batch);
            for part in policy.parts(&exercises, &batch) {
                let (logps, tape) = policy.log_probs(&exercises, &batch, part.clone()).unwrap();
                let dlogps: Vec<Vec<f64>> = part
                    .zip(&logps)
                    .map(|(i, logps)| configured.method.loss(responses[i], &credits[i], logps).dlogps)
                    .collect();
                policy.backward(tape, &dlogps).unwrap();
            }
        }
        let sampled: Vec<f64> = policy
            .engine
            .gradients()
            .by_name()
            .into_iter()
            .flat_map(|(_, g)| g)
            .map(|&x| f64::from(x))
            .collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let cosine = dot(&sampled, &exact) / (dot(&sampled, &sampled) * dot(&exact, &exact)).sqrt();
        let length = dot(&sampled, &exact) / dot(&exact, &exact) / batches as f64;
        let expected = chances.iter().sum::<f64>() / 8.0;
        let observed = reward / (batches as f64 * 8.0 * group as f64);
        // 12288 samples of a chance near 0.16: a standard error of 0.0033. Ten times the batches give 0.9997 and 0.990.
        assert!((0.05..0.5).contains(&expected), "the start is no test: J = {expected}");
        assert!((observed - expected).abs() < 0.012, "sampled {observed}, J = {expected}");
        assert!(cosine > 0.98 && (length - 1.0).abs() < 0.1, "cosine {cosine}, length {length}");
    }

    /// With several updates on a batch, one that is skipped is reported although a good one follows; the next batch starts afresh.
    #[test]
    fn a_skipped_inner_update_is_not_hidden_by_the_next() {
        let tokens = Tokens::tiny();
        let config = Config::resolve("tiny", &["rl.max_new_tokens=4"]).unwrap();
        let shape = grpo_lambda_decoder::model::Config::qwen2(tokens.len(), 32, 1, 2, 1);
        let model = Decoder::new(shape.clone(), weights::initialise(&shape, 1, 0.02)).unwrap();
        let problem = Task::Addition.problem(0, Split::Train, 0);
        let prompt = tokens.prompt(&problem.prompt).unwrap().ids().to_vec();
        let exercises = [Exercise { prompt, gold: problem.gold, number: 0 }];
        let mut policy = LlmPolicy::new(start(model, config.rl.adam.clone()), tokens, &config);
        let batch = policy.sample(&exercises, 2).unwrap();
        let update = |policy: &mut LlmPolicy<Cpu>, pull: f64| {
            let (logps, tape) = policy.log_probs(&exercises, &batch, 0..2).unwrap();
            let dlogps: Vec<Vec<f64>> = logps.iter().map(|row| vec![pull; row.len()]).collect();
            policy.backward(tape, &dlogps).unwrap();
            policy.step().unwrap();
            policy.last.clone().unwrap().update
        };
        assert!(matches!(update(&mut policy, f64::NAN), Update::Skipped { .. }));
        assert!(matches!(update(&mut policy, 1.0), Update::Skipped { .. }));
        assert_eq!(policy.engine.optimiser.steps(), 1);
        policy.sample(&exercises, 2).unwrap();
        assert_eq!(policy.last, None);
    }
}
