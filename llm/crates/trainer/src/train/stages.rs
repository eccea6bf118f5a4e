//! The two stages of a run: supervised learning, and reinforcement learning.

use std::time::{Duration, Instant};

use grpo_lambda_decoder::generate::SamplingProgress;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::optim::StepOutcome;

use super::Run;
use super::checkpoint::{CRITIC, OPTIMISER};
use super::error::{Result, TrainError};
use super::evaluation::describe_accuracy;
use super::metrics::{COEF_COLUMN, CriticMetrics, StepMetrics, Timing, sampled_tokens};
use crate::problems::Stage;
use crate::run::progress::Progress;
use crate::run::{Checkpoint, stop};
use crate::step::engine::Engine;

/// The result of the supervised stage.
pub(super) enum SftResult<'e> {
    /// The weights that RL starts from.
    Weights(Parameters<f32>),
    /// The whole engine, if no RL follows: its moments and adapter are part of the result.
    Engine(Box<dyn Engine + 'e>),
}

impl<'a> Run<'a> {
    /// Begins a stage at these weights, or continues it from a checkpoint.
    fn begin(
        &mut self,
        stage: Stage,
        parameters: Parameters<f32>,
        from: Option<&Checkpoint>,
    ) -> Result<Box<dyn Engine + 'a>> {
        let session = self.session;
        let frozen = from.filter(|_| session.has_frozen_weights(stage));
        let frozen =
            frozen.map(|c| weights::load(&c.path().join("reference"), &session.shape)).transpose()?;
        let mut engine = session.engine_at(stage, parameters, frozen)?;
        if let Some(c) = from {
            engine.restore_optimiser(&c.read(OPTIMISER)?)?;
            if let Some(critic) = engine.critic_mut() {
                critic.restore(&c.read(CRITIC)?)?;
            }
        }
        self.stored_reference = from.cloned();
        Ok(engine)
    }

    /// Runs the remaining supervised steps.
    pub(super) fn run_sft(
        &mut self,
        parameters: Parameters<f32>,
        from: Option<&Checkpoint>,
    ) -> Result<SftResult<'a>> {
        let config = &self.session.config;
        if self.state.sft_done == config.sft.steps {
            return Ok(SftResult::Weights(parameters));
        }
        let mut engine = self.begin(Stage::Sft, parameters, from)?;
        let progress = Progress::new("supervised", self.state.sft_done, config.sft.steps);
        let then =
            if config.rl.steps > 0 { format!(", then {} RL steps", config.rl.steps) } else { String::new() };
        self.progress = Some(progress.followed_by(Duration::ZERO, &then).shared());
        while self.state.sft_done < config.sft.steps {
            self.sft_step(engine.as_mut())?;
            let last = self.state.sft_done == config.sft.steps;
            // The boundary is saved with the evaluation that follows it, so that it is not done twice.
            let stopping = stop::requested().is_some();
            if !last && (stopping || self.state.sft_done.is_multiple_of(config.checkpoint.every)) {
                let saved = self.save(engine.as_ref())?;
                self.heed_stop(&saved)?;
            }
        }
        self.stage_done();
        Ok(match config.rl.steps {
            0 => SftResult::Engine(engine),
            _ => SftResult::Weights(engine.parameters()?.into_owned()),
        })
    }

    fn sft_step(&mut self, engine: &mut dyn Engine) -> Result<()> {
        let (step, clock) = (self.state.sft_done, Instant::now());
        self.begin_step(format!("supervised step {step}"));
        let report = self.session.imitate(engine, step)?;
        self.note_update(step, &report.update)?;
        let rate = self.session.config.sft.learning_rates().rate(step);
        let metrics: Vec<_> = StepMetrics::supervised(&report, rate).entries().collect();
        let timing = Timing::new(clock.elapsed(), Duration::ZERO, report.tokens);
        self.dir.record("sft", step, &metrics, &timing.entries().collect::<Vec<_>>())?;
        self.state.sft_done += 1;
        self.step_done(self.state.sft_done, &[("loss", report.loss)], report.tokens);
        Ok(())
    }

    /// Evaluates the starting policy, runs the remaining RL steps, and returns the engine with its final checkpoint.
    pub(super) fn run_rl(
        &mut self,
        start_from: SftResult<'a>,
        from: Option<Checkpoint>,
    ) -> Result<(Box<dyn Engine + 'a>, Checkpoint)> {
        let config = &self.session.config;
        let saved = from.clone().filter(|_| self.state.before.is_some());
        let stage = if config.rl.steps > 0 { Stage::Rl } else { Stage::Sft };
        let mut engine = match start_from {
            SftResult::Weights(parameters) => self.begin(stage, parameters, saved.as_ref())?,
            SftResult::Engine(engine) => engine,
        };
        let mut saved = match saved {
            Some(checkpoint) => checkpoint,
            None => match self.evaluate_before(engine.as_ref()) {
                // Without RL the engine goes on with its moments, which a run that comes back here would begin again.
                Err(error) if config.rl.steps > 0 => {
                    return Err(self.keep_before_failing(error, engine.as_ref(), from.as_ref()));
                }
                done => done?,
            },
        };
        if self.ends_at_former_end(engine.as_ref())? {
            saved = self.save(engine.as_ref())?;
        }
        let progress = Progress::new("RL", self.state.rl_done, config.rl.steps);
        self.progress = Some(progress.followed_by(self.evaluated, "").shared());
        while self.state.rl_done < config.rl.steps && !self.state.stopped_early {
            self.heed_stop(&saved)?;
            let improved = match self.rl_step(engine.as_mut()) {
                Ok(improved) => improved,
                // The row of a step has its evaluation in it: without that no checkpoint can follow it.
                Err(error @ TrainError::Eval(_)) => {
                    self.say(&format!("the same command goes on from {}", saved.path().display()));
                    return Err(error);
                }
                Err(error) => return Err(self.keep_before_failing(error, engine.as_ref(), Some(&saved))),
            };
            let done = self.state.rl_done;
            let last = done == config.rl.steps || self.state.stopped_early;
            let keeps = improved && config.checkpoint.best;
            if last || keeps || stop::requested().is_some() || done.is_multiple_of(config.checkpoint.every) {
                saved = self.save(engine.as_ref())?;
            }
        }
        self.stage_done();
        Ok((engine, saved))
    }

    /// Counts the evaluation at the former end of a run that was given more steps, if the longer run has one there: it came after the last
    /// checkpoint, whose state does not know it. True if it ends the run.
    fn ends_at_former_end(&mut self, engine: &dyn Engine) -> Result<bool> {
        let is_former_end = self.dir.has_ended() && self.state.rl_done > 0 && !self.state.stopped_early;
        if !is_former_end || self.session.config.eval.patience == 0 || !self.is_evaluation_due() {
            return Ok(false);
        }
        if self.state.best.is_some_and(|best| best.step == self.state.done()) {
            self.state.evaluations_since_best = 0;
            return Ok(false);
        }
        let evaluation = self.evaluate(engine)?;
        self.note_best(&evaluation);
        Ok(self.state.stopped_early)
    }

    /// Writes a checkpoint of the steps done so far if what is under way failed outside: nothing of it has changed the weights.
    fn keep_before_failing(
        &mut self,
        error: TrainError,
        engine: &dyn Engine,
        saved: Option<&Checkpoint>,
    ) -> TrainError {
        if !error.leaves_the_weights() || saved.map_or(0, Checkpoint::step) == self.state.done() {
            return error;
        }
        match self.save(engine) {
            Ok(checkpoint) => {
                self.say(&format!(
                    "saved the finished steps to {}; rerun the same command to resume",
                    checkpoint.path().display()
                ));
                error
            }
            Err(other) => other,
        }
    }

    /// Evaluates the policy that RL starts from, and saves it.
    fn evaluate_before(&mut self, engine: &dyn Engine) -> Result<Checkpoint> {
        let before = self.evaluate(engine)?;
        let when = if self.session.config.rl.steps > 0 { " before RL" } else { "" };
        self.say(&format!("held-out accuracy{when}: {}", describe_accuracy(&before)));
        self.state.before = Some(before);
        self.record_evaluation(&before)?;
        self.note_best(&before);
        self.save(engine)
    }

    /// Takes an RL step. True if it was evaluated and is the best so far.
    fn rl_step(&mut self, engine: &mut dyn Engine) -> Result<bool> {
        let (session, step, clock) = (self.session, self.state.rl_done, Instant::now());
        self.begin_step(format!("RL step {step}"));
        let progress = self.progress.as_ref();
        let watch = |s: SamplingProgress| {
            let word = format!("sampling {}/{}", s.ended, s.responses);
            progress.iter().for_each(|progress| progress.lock().phase(&word));
        };
        let mut rollout =
            session.watched_rollout(engine, step, Some(&watch)).map_err(|e| self.explained(e))?;
        let adapted = session.config.rl.entropy_target.map(|target| {
            let low = rollout.entropy().is_some_and(|entropy| entropy <= target);
            session.config.rl.adapted(self.state.entropy_coef, low)
        });
        rollout.entropy_coef = adapted.map_or(rollout.entropy_coef, |(coef, _)| coef);
        self.phase("update");
        let sampled = clock.elapsed();
        let report = session.step(engine, &rollout).map_err(|e| self.explained(e))?;
        let elapsed = clock.elapsed();

        if let Some(update) = report.update() {
            self.note_update(step, update)?;
        }
        report.critic.iter().for_each(|critic| self.note_critic(step, critic));
        let mut metrics = StepMetrics::reinforced(&rollout, &report, session.settings.takes_more());
        self.state.note_entropy(metrics.entropy);
        let rewards = self.note_rewards(&rollout);
        self.state.rl_done += 1;
        if !matches!(report.update(), Some(StepOutcome::Skipped { .. })) {
            self.state.entropy_coef = adapted.map(|(_, next)| next);
        }
        self.note_zero_variance(&rollout.groups);
        let evaluation = self.is_evaluation_due().then(|| self.evaluate(engine)).transpose()?;
        if let Some(evaluation) = &evaluation {
            metrics = metrics.with_evaluation(evaluation);
        }
        let coef = adapted.map(|(coef, _)| (COEF_COLUMN, coef));
        let written = sampled_tokens(&session.config, &rollout);
        let critic = report.critic.iter().flat_map(|critic| CriticMetrics::new(critic).entries());
        let row = metrics.entries().chain(rewards).chain(coef).chain(written).chain(critic);
        let row: Vec<_> = row.collect();
        let tokens = rollout.groups.iter().flat_map(|g| &g.responses).map(|r| r.len()).sum();
        let timing: Vec<_> = Timing::new(elapsed, sampled, tokens).entries().collect();
        self.dir.record("rl", step, &row, &timing)?;
        self.note_places(step, &rollout)?;
        self.note_shared_prefixes(&rollout);
        self.write_samples(step, &rollout)?;
        let figures = [("reward", metrics.reward), ("KL", metrics.kl)];
        let known: Vec<(&str, f64)> = figures.iter().filter_map(|(name, x)| Some((*name, (*x)?))).collect();
        self.step_done(self.state.rl_done, &known, tokens);
        let Some(evaluation) = evaluation else { return Ok(false) };
        self.record_evaluation(&evaluation)?;
        Ok(self.note_best(&evaluation))
    }

    /// True if an evaluation follows the step that was done; that after the last one belongs to the summary.
    fn is_evaluation_due(&self) -> bool {
        let (config, done) = (&self.session.config, self.state.rl_done);
        config.eval.every > 0 && done.is_multiple_of(config.eval.every) && done < config.rl.steps
    }
}
