//! The stage of supervised learning.

use std::time::{Duration, Instant};

use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::rng::{Address, Purpose};

use super::Run;
use super::error::TrainError;
use super::metrics::{StepMetrics, Timing};
use super::stage::{EngineFactory, SftResult};
use crate::config::Config;
use crate::input::tokens::ModelTokenizer;
use crate::problems::{Problems, Stage};
use crate::run::Checkpoint;
use crate::run::progress::Progress;
use crate::run::stop;
use crate::step::engine::Engine;
use crate::step::sft::{self, Example};

impl Run<'_> {
    /// Runs the remaining supervised steps.
    pub(super) fn run_sft<E: Engine>(
        &mut self,
        parameters: Parameters<f32>,
        from: Option<&Checkpoint>,
        new_engine: &EngineFactory<'_, E>,
    ) -> Result<SftResult<E>, TrainError> {
        let config = self.config;
        if self.state.sft_done == config.sft.steps {
            return Ok(SftResult::Weights(parameters));
        }
        let mut engine = self.build_engine(parameters, Stage::Sft, from, new_engine)?;
        self.progress = Some(Progress::new("supervised", self.state.sft_done, config.sft.steps));
        while self.state.sft_done < config.sft.steps {
            self.sft_step(&mut engine)?;
            let last = self.state.sft_done == config.sft.steps;
            // The boundary is saved with the evaluation that follows it, so that it is not done twice.
            let stopping = stop::requested().is_some();
            if !last && (stopping || self.state.sft_done.is_multiple_of(config.checkpoint.every)) {
                let saved = self.save(&engine)?;
                self.heed_stop(&saved)?;
            }
        }
        self.stage_done();
        Ok(match config.rl.steps {
            0 => SftResult::Engine(engine),
            _ => SftResult::Weights(engine.parameters()?.into_owned()),
        })
    }

    fn sft_step<E: Engine>(&mut self, engine: &mut E) -> Result<(), TrainError> {
        let (step, clock) = (self.state.sft_done, Instant::now());
        let examples = examples(self.config, &self.problems, &self.tokens, step)?;
        let rate = self.config.sft.schedule.rate(step);
        let report = sft::step(engine, &examples, rate, self.config.memory)
            .map_err(|source| TrainError::Sft { step, source })?;
        self.note_update(step, &report.update)?;
        let metrics: Vec<_> = StepMetrics::supervised(&report, rate).entries().collect();
        let timing = Timing::new(clock.elapsed(), Duration::ZERO, report.tokens);
        self.dir.record("sft", step, &metrics, &timing.entries().collect::<Vec<_>>())?;
        self.state.sft_done += 1;
        self.step_done(self.state.sft_done, &[("loss", report.loss)], report.tokens);
        Ok(())
    }
}

/// The demonstrations of a supervised step.
///
/// # Errors
/// When a problem cannot be read or encoded.
pub fn examples(
    config: &Config,
    problems: &Problems,
    tokens: &ModelTokenizer,
    step: u64,
) -> Result<Vec<Example>, TrainError> {
    let (sft, batch) = (&config.sft, config.sft.batch as u64);
    let coin = Address::new(config.seed, Purpose::Demonstrations);
    let example = |index| {
        let problem = problems.problem(Stage::Sft, index).map_err(TrainError::Problem)?;
        let worked = coin.unit(index) < sft.worked_share;
        let text = if worked { &problem.solution } else { problem.answer_only() };
        let response = tokens.target(text)?.ids().to_vec();
        Ok(Example { prompt: problem.encode(tokens)?.ids().to_vec(), response })
    };
    (step * batch..(step + 1) * batch).map(example).collect()
}
