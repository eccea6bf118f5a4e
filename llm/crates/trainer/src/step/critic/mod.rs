//! [`Critic`]: a model that learns the value of a state next to the policy, for methods that read values.
//!
//! ```text
//! V(s_t) = w . h_t + b,      h_t the last layer's state after the final norm at the token before t
//! L      = 1/N sum_i sum_t l(V(s_t), V_old(s_t), R_t),      R_t = A_t + V_old(s_t),      N the tokens of responses with a reward
//! ```
//! The critic is a copy of the whole model that RL starts from, with an optimiser of its own, as the separate critics of TRL, verl and OpenRLHF are:
//! its gradient never touches the policy, so the policy's update stays what the method says, and neither needs a weight against the other. For
//! that reason the loss has no coefficient: AdamW divides a constant factor of it out, but where the gradient is clipped before. The head starts at 0, so that values are 0 before the first
//! step. An adapter is the policy's alone: every weight of the critic is trained, but for an output matrix of its own, which nothing reads.
//!
//! Values are those of the critic before it has seen a reward of the rollout; it learns after the policy has moved.

mod loss;

use std::io::Write;

use grpo_lambda::group::InputKind;
use grpo_lambda::methods::Configured;
use grpo_lambda_decoder::model::config::EMBEDDING;
use grpo_lambda_decoder::model::weights::{Parameters, head_name};
use grpo_lambda_decoder::model::{Decoder, Error, Gradients, ModelConfig, Rows, ValueHead};
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings, OptimError, StepOutcome, WriteStateError};

use super::Result;
use crate::config::Config;
use crate::config::schedule::Schedule;

pub use loss::{Targets, explained_variance, value_loss};

/// Names of the value head in the optimiser's state.
const HEAD: [&str; 2] = ["value_head.weight", "value_head.bias"];

/// Settings of a critic's learning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CriticSettings {
    /// Discount of the method.
    pub gamma: f64,
    /// Decay of later TD errors of the method.
    pub lambda: f64,
    /// The largest move of a value on a rollout that the loss rewards; `None` for no bound.
    pub clip: Option<f64>,
    /// Gradient steps on a rollout.
    pub updates: usize,
    /// The learning rate of every RL step.
    pub rates: Schedule,
}

impl CriticSettings {
    /// Settings for a method that reads values, with the rates and bounds of a configuration; `None` for any other method.
    pub fn new(method: &Configured, config: &Config) -> Option<CriticSettings> {
        method.extra_inputs().contains(&InputKind::Values).then(|| CriticSettings {
            gamma: method.settings.number("gamma"),
            lambda: method.settings.number("lambda"),
            clip: config.critic.clip,
            updates: config.critic.updates,
            rates: Schedule { peak: config.critic_rate(), ..config.rl.learning_rates() },
        })
    }
}

/// The outcome of a critic's steps on a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticReport {
    /// The loss before the first step.
    pub loss: f64,
    /// See [`explained_variance`].
    pub explained: Option<f64>,
    /// The optimiser's outcome of each step; none where no response had a reward.
    pub updates: Vec<StepOutcome>,
}

/// A value model in training, on the CPU.
pub struct Critic {
    model: Decoder<f32>,
    /// Moments, and the head's weights.
    optimiser: AdamW,
    gradients: Gradients<f32>,
}

impl Critic {
    /// A critic that starts from these weights.
    pub fn new(shape: &ModelConfig, start: Parameters<f32>, adam: AdamWSettings) -> Result<Critic, Error> {
        let trained = |name: &str| name != head_name(shape) || name == EMBEDDING;
        let model = Decoder::new(shape.clone(), start)?;
        let head = HEAD.map(str::to_owned).into_iter().zip([vec![0.0; shape.hidden_size], vec![0.0]]);
        let optimiser = AdamW::of_model(adam, &model, trained, head);
        let gradients = Gradients::new(shape, trained);
        Ok(Critic { model, optimiser, gradients })
    }

    /// The value of the state before every scored token of a batch in these passes.
    pub fn values(&self, passes: &[Rows]) -> Result<Vec<Vec<f64>>, Error> {
        let mut values = Vec::new();
        for rows in passes {
            // The tape is not used: with recomputation it holds little.
            values.extend(self.model.forward_values(rows, head(&self.optimiser), true)?.0);
        }
        Ok(values)
    }

    /// Learns the targets of a batch, one for each row of these passes.
    pub fn learn(
        &mut self,
        passes: &[Rows],
        targets: &[Option<Targets>],
        (settings, recompute): (&CriticSettings, bool),
        rate: f64,
    ) -> Result<CriticReport> {
        let explained = explained_variance(targets.iter().flatten());
        let mut report = CriticReport { loss: 0.0, explained, updates: Vec::new() };
        if targets.iter().flatten().next().is_none() {
            return Ok(report);
        }
        for update in 0..settings.updates {
            let (loss, dhead) = self.differentiate(passes, targets, settings.clip, recompute)?;
            if update == 0 {
                report.loss = loss;
            }
            report.updates.push(self.step(rate, &dhead)?);
        }
        Ok(report)
    }

    /// Adds the gradient of the loss on a batch; returns the loss, and the gradient of the head.
    fn differentiate(
        &mut self,
        passes: &[Rows],
        targets: &[Option<Targets>],
        clip: Option<f64>,
        recompute: bool,
    ) -> Result<(f64, Vec<f64>), Error> {
        let tokens = targets.iter().flatten().map(|t| t.old.len()).sum::<usize>() as f64;
        let head = head(&self.optimiser);
        // Added token by token, so that its bits do not depend on the passes.
        let (mut sum, mut dhead) = (0.0, vec![0.0; head.weight.len() + 1]);
        let mut each = targets.iter();
        for rows in passes {
            let (values, tape) = self.model.forward_values(rows, head, recompute)?;
            let mut slopes: Vec<Vec<f64>> = values.iter().map(|own| vec![0.0; own.len()]).collect();
            for ((values, slopes), targets) in values.iter().zip(&mut slopes).zip(&mut each) {
                let Some(Targets { old, returns, .. }) = targets else { continue };
                for (t, slope) in slopes.iter_mut().enumerate() {
                    let (loss, own) = value_loss(values[t], old[t], returns[t], clip);
                    (sum, *slope) = (sum + loss, own / tokens);
                }
            }
            self.model.backward_values(tape, head, &slopes, (&mut self.gradients, &mut dhead));
        }
        self.model.complete(&mut self.gradients, recompute);
        Ok((sum / tokens, dhead))
    }

    /// Takes an optimiser step with the accumulated gradient, then clears it.
    fn step(&mut self, rate: f64, dhead: &[f64]) -> Result<StepOutcome, OptimError> {
        let dhead: Vec<f32> = dhead.iter().map(|d| *d as f32).collect();
        let (dweight, dbias) = dhead.split_at(dhead.len() - 1);
        let mut by_name = self.gradients.by_name();
        by_name.extend(HEAD.into_iter().zip([dweight, dbias]));
        let outcome = self.optimiser.step_in(&mut self.model, rate, &by_name)?;
        self.gradients.clear();
        Ok(outcome)
    }

    /// Writes its weights and moments: see [`AdamW::to_bytes`].
    pub fn write(&self, to: &mut dyn Write) -> Result<(), WriteStateError> {
        Ok(self.optimiser.write_of(&self.model, to)?)
    }

    /// Continues to the bit from the state that [`Critic::write`] wrote.
    ///
    /// # Errors
    /// If the state is of another model. Nothing has changed then.
    pub fn restore(&mut self, state: &[u8]) -> Result<(), OptimError> {
        self.optimiser.restore_in(&mut self.model, state)
    }
}

/// The value head among an optimiser's weights.
fn head(optimiser: &AdamW) -> ValueHead<'_, f32> {
    let [weight, bias] = HEAD.map(|name| optimiser.weights(name).expect("it was made with a head"));
    ValueHead { weight, bias: bias[0] }
}
