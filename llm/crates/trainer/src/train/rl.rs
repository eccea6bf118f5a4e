//! The stage of reinforcement learning.

use std::time::Instant;

use super::Run;
use super::error::TrainError;
use super::metrics::{StepMetrics, Timing};
use super::stage::{EngineFactory, SftResult};
use super::summary::describe_accuracy;
use crate::eval::Evaluation;
use crate::problems::Stage;
use crate::run::Checkpoint;
use crate::run::progress::Progress;
use crate::run::stop;
use crate::step::engine::Engine;
use crate::step::{EvidenceSource, StepSettings, StopSource, TextReward, Trainer};

impl Run<'_> {
    /// Evaluates the starting policy, runs the remaining RL steps, and returns the final checkpoint.
    pub(super) fn run_rl<E: Engine>(
        &mut self,
        start_from: SftResult<E>,
        from: Option<Checkpoint>,
        new_engine: &EngineFactory<'_, E>,
    ) -> Result<(E, Checkpoint), TrainError> {
        let config = self.config;
        let saved = from.filter(|_| self.state.before.is_some());
        let stage = if config.rl.steps > 0 { Stage::Rl } else { Stage::Sft };
        let mut engine = match start_from {
            SftResult::Weights(parameters) => {
                self.build_engine(parameters, stage, saved.as_ref(), new_engine)?
            }
            SftResult::Engine(engine) => engine,
        };
        let mut saved = match saved {
            Some(checkpoint) => checkpoint,
            None => self.evaluate_before(&engine)?,
        };
        let (configured, tokens) = (config.configured(), self.tokens.clone());
        let evidence = self.request.map(|request| EvidenceSource { request, tokens: tokens.clone() });
        let stops = self.problems.stop().to_vec();
        let settings = StepSettings {
            evidence,
            stops: StopSource::of(&tokens, &stops),
            ..StepSettings::new(config, tokens.eos())
        };
        let extraction = self.problems.extraction();
        let rewards = TextReward::new(&tokens, &config.reward, extraction, config.seed).stopping_at(&stops);
        let method = configured.method.as_ref();
        let trainer = Trainer { settings: &settings, method, rewards: &rewards, observer: &() };
        self.progress = Some(Progress::new("RL", self.state.rl_done, config.rl.steps));
        while self.state.rl_done < config.rl.steps && !self.state.stopped_early {
            self.heed_stop(&saved)?;
            let improved = match self.rl_step(&mut engine, trainer) {
                Ok(improved) => improved,
                Err(error) => return Err(self.keep_before_failing(error, &engine, &saved)),
            };
            let done = self.state.rl_done;
            let last = done == config.rl.steps || self.state.stopped_early;
            let keeps = improved && config.checkpoint.best;
            if last || keeps || stop::requested().is_some() || done.is_multiple_of(config.checkpoint.every) {
                saved = self.save(&engine)?;
            }
            if let (true, Some(best)) = (keeps, self.state.best) {
                self.dir.set_best(best)?;
            }
        }
        self.stage_done();
        Ok((engine, saved))
    }

    /// Writes a checkpoint of the steps done so far where the step under way failed for something outside: nothing of it has changed the weights.
    fn keep_before_failing<E: Engine>(
        &mut self,
        error: TrainError,
        engine: &E,
        saved: &Checkpoint,
    ) -> TrainError {
        if !error.leaves_the_weights() || saved.step() == self.state.done() {
            return error;
        }
        match self.save(engine) {
            Ok(checkpoint) => {
                self.say(&format!(
                    "everything before this step is in {}; the same command goes on from there",
                    checkpoint.path().display()
                ));
                error
            }
            Err(other) => other,
        }
    }

    /// The evaluation of what RL starts from, and the checkpoint with it.
    fn evaluate_before<E: Engine>(&mut self, engine: &E) -> Result<Checkpoint, TrainError> {
        let before = self.evaluate(engine)?;
        let when = if self.config.rl.steps > 0 { " before RL" } else { "" };
        self.say(&format!("held-out accuracy{when}: {}", describe_accuracy(&before)));
        self.state.before = Some(before);
        self.record_evaluation(&before)?;
        self.note_best(&before);
        let checkpoint = self.save(engine)?;
        if let (true, Some(best)) = (self.config.checkpoint.best, self.state.best) {
            self.dir.set_best(best)?;
        }
        Ok(checkpoint)
    }

    /// A step; whether its evaluation, if there was one, is the best so far.
    fn rl_step<E: Engine>(&mut self, engine: &mut E, trainer: Trainer<'_>) -> Result<bool, TrainError> {
        let (step, clock) = (self.state.rl_done, Instant::now());
        let rate = self.config.rl.schedule.rate(step);
        let rollout = self.rollout(engine, trainer, step)?;
        let sampled = clock.elapsed();
        let report = trainer.step(engine, &rollout, rate).map_err(|source| self.step_failed(step, source))?;
        let elapsed = clock.elapsed();

        if let Some(update) = report.update() {
            self.note_update(step, update)?;
        }
        let mut metrics = StepMetrics::reinforced(&rollout, &report, trainer.settings.evidence.is_some());
        self.state.note_entropy(metrics.entropy);
        let rewards = self.note_rewards(&rollout);
        self.state.rl_done += 1;
        self.note_zero_variance(&rollout.groups);
        let evaluation = self.evaluate_when_due(engine)?;
        if let Some(evaluation) = &evaluation {
            metrics = metrics.with_evaluation(evaluation);
        }
        let row: Vec<_> = metrics.entries().chain(rewards.entries()).collect();
        let tokens = rollout.groups.iter().flat_map(|g| &g.responses).map(|r| r.len()).sum();
        let timing: Vec<_> = Timing::new(elapsed, sampled, tokens).entries().collect();
        self.dir.record("rl", step, &row, &timing)?;
        self.write_samples(step, &rollout)?;
        let figures = [("reward", metrics.reward), ("KL", metrics.kl)];
        let known: Vec<(&str, f64)> = figures.iter().filter_map(|(name, x)| Some((*name, (*x)?))).collect();
        self.step_done(self.state.rl_done, &known, tokens);
        let Some(evaluation) = evaluation else { return Ok(false) };
        self.record_evaluation(&evaluation)?;
        Ok(self.note_best(&evaluation))
    }

    /// The evaluation after this step, where there is one; that after the last step belongs to the summary.
    fn evaluate_when_due<E: Engine>(&mut self, engine: &E) -> Result<Option<Evaluation>, TrainError> {
        let (every, done) = (self.config.eval.every, self.state.rl_done);
        let due = every > 0 && done.is_multiple_of(every) && done < self.config.rl.steps;
        due.then(|| self.evaluate(engine)).transpose()
    }
}
