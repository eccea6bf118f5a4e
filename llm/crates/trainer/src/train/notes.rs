//! Lines of a run for people: its progress, warnings about steps that move nothing, and the responses it keeps.

use std::collections::BTreeMap;

use grpo_lambda::group::{Group, InputKind};
use grpo_lambda::methods;
use grpo_lambda_decoder::optim::StepOutcome;
use grpo_lambda_gpu::select::ComputeDevice;
use grpo_lambda_grade::Prediction;

use super::Run;
use super::error::{Result, TrainError};
use super::metrics::reward_entries;
use crate::config::Branching;
use crate::run::progress::say;
use crate::run::{Checkpoint, stop};
use crate::step::critic::CriticReport;
use crate::step::{Rollout, SharedPrefixes};

/// Consecutive steps without a learning signal before a warning.
const NO_SIGNAL_STEPS: u64 = 5;
/// Responses from which a line on the place of answers is said.
const LEAST_RESPONSES: usize = 16;
/// Responses kept of a step.
const SAMPLES_PER_STEP: usize = 2;

/// The shape of the tree whose leaves are a group, in words.
fn tree_words(branching: Option<Branching>) -> String {
    match branching {
        None => String::new(),
        Some(Branching::Intervals { children, segment }) => {
            let children: Vec<String> = children.iter().map(usize::to_string).collect();
            format!(
                " (the leaves of a tree with {} children a level, {segment} tokens long)",
                children.join(", ")
            )
        }
        Some(Branching::Search { forks, branches }) => {
            format!(" (of a tree that forks at {forks} tokens of its first responses, {branches} times each)")
        }
    }
}

impl Run<'_> {
    /// Prints a line that stays above the progress line.
    pub(super) fn say(&mut self, line: &str) {
        match &self.progress {
            Some(progress) => progress.lock().note(line),
            None => say(line),
        }
    }

    pub(super) fn step_done(&mut self, step: u64, figures: &[(&str, f64)], tokens: usize) {
        if let Some(progress) = &self.progress {
            progress.lock().step(step, figures, tokens as u64);
        }
    }

    /// Says what a step is doing.
    pub(super) fn phase(&self, word: &str) {
        if let Some(progress) = &self.progress {
            progress.lock().phase(word);
        }
    }

    /// Tells what the first signal waits for.
    pub(super) fn begin_step(&self, what: String) {
        stop::begin(what, self.progress.as_ref().and_then(|progress| progress.lock().step_time()));
    }

    pub(super) fn stage_done(&mut self) {
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
    }

    /// Ends the run if a signal asked for it; `saved` holds everything that was done.
    pub(super) fn heed_stop(&mut self, saved: &Checkpoint) -> Result<()> {
        let Some(signal) = stop::requested() else { return Ok(()) };
        self.stage_done();
        Err(TrainError::Stopped { signal, step: saved.step(), checkpoint: saved.path().to_owned() })
    }

    /// Parameters of the model.
    pub(super) fn parameters(&self) -> usize {
        self.session.shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum()
    }

    /// Warns when a resumed run continues on another device: results then agree only up to rounding.
    pub(super) fn note_device(&mut self) {
        let mut here = self.session.device.describe();
        if self.session.config.gpu.trust && matches!(self.session.device, ComputeDevice::Cuda(..)) {
            here += ", which gpu.trust=true lets train unproved";
        }
        if let Some(there) = self.state.device.replace(here.clone()).filter(|there| *there != here) {
            self.say(&format!(
                "this run was {there} so far and continues {here}, where rounding differs: its numbers will not be bit-identical to those of an uninterrupted run"
            ));
        }
    }

    /// Says which model is trained, where, how and into which directory.
    pub(super) fn announce(&mut self) {
        let session = self.session;
        let (c, rl) = (&session.shape, &session.config.rl);
        let adapter = session.config.lora.as_ref().map_or(String::new(), |lora| {
            format!(", of which an adapter of rank {} to {} is trained", lora.rank, lora.targets.join(", "))
        });
        let title = session.config.configured().spec.title;
        let step = match rl.steps {
            0 => String::new(),
            _ => format!(
                "{title} with {} responses{} to each of {} problems a step; ",
                rl.group_size,
                tree_words(rl.branching()),
                rl.prompts_per_step
            ),
        };
        self.say(&format!(
            "{} parameters ({} layers, width {}, vocabulary {}){adapter} {}; {step}run directory {}",
            self.parameters(),
            c.num_hidden_layers,
            c.hidden_size,
            c.vocab_size,
            session.device.describe(),
            self.dir.path().display()
        ));
    }

    /// Tells of a step of the optimiser that was skipped; too many of them in a row stop the run.
    pub(super) fn note_update(&mut self, step: u64, update: &StepOutcome) -> Result<()> {
        let StepOutcome::Skipped { parameter, not_finite } = update else {
            self.state.skipped_in_a_row = 0;
            return Ok(());
        };
        self.state.skipped_in_a_row += 1;
        let count = self.state.skipped_in_a_row;
        self.say(&format!(
            "step {step}: {not_finite} numbers of the gradient of `{parameter}` are NaN or infinite; step skipped ({count} in a row)"
        ));
        if count >= self.session.config.rl.max_nan_steps {
            return Err(TrainError::NotFinite { step, count, parameter: parameter.clone() });
        }
        Ok(())
    }

    /// Says that steps of the critic on a rollout were skipped.
    pub(super) fn note_critic(&mut self, step: u64, report: &CriticReport) {
        let skipped = |update: &StepOutcome| matches!(update, StepOutcome::Skipped { .. });
        let count = report.updates.iter().filter(|update| skipped(update)).count();
        if count > 0 {
            self.say(&format!(
                "step {step}: {count} of {} steps of the critic skipped, as their gradients have NaN or infinite numbers; lower critic.lr",
                report.updates.len()
            ));
        }
    }

    /// The components of the reward in a step; one that is stuck is reported once.
    pub(super) fn note_rewards(&mut self, rollout: &Rollout) -> Vec<(&'static str, f64)> {
        let reward = &self.session.config.reward;
        let earned = rollout.rewards.iter().flatten();
        for (i, component) in reward.active() {
            let values = earned.clone().map(|e| e.components[i]);
            if let Some(stuck) = self.state.stuck.observe(component.name, values, reward.stuck_steps) {
                self.say(&stuck.to_string());
            }
        }
        let stuck = self.state.stuck.stuck(reward.stuck_steps);
        reward_entries(reward.active(), earned, stuck as u64)
    }

    /// Says once, after the first responses, if almost none of them has an answer at the place that is read.
    pub(super) fn note_places(&mut self, step: u64, rollout: &Rollout) -> Result<()> {
        let session = self.session;
        let (stops, place) = (&session.rewards.stops, session.problems.extraction());
        let responses: Vec<_> = rollout.groups.iter().flat_map(|group| &group.responses).collect();
        if step > 1 || responses.len() < LEAST_RESPONSES || !session.config.reward.is_active("accuracy") {
            return Ok(());
        }
        let mut found = 0;
        for response in &responses {
            found +=
                usize::from(Prediction::extract(&stops.text(&response.tokens)?, place).answer().is_some());
        }
        if 50 * found <= responses.len() {
            self.say(&format!(
                "{found} of the first {} responses have an answer at the place that task.extract = {} reads; without one none is rewarded: ask for it \
                 in the prompt (task.system, task.template), imitate some solutions first, or read another place",
                responses.len(),
                place.name()
            ));
        }
        Ok(())
    }

    /// Says after the first and the last step how much of the groups branches, where a method compares the prefixes that independent responses share.
    pub(super) fn note_shared_prefixes(&mut self, rollout: &Rollout) {
        let config = &self.session.config;
        let reads = config.configured().extra_inputs().contains(&InputKind::Tokens);
        let done = self.state.rl_done;
        if !reads || config.rl.branching().is_some() || ![1, config.rl.steps].contains(&done) {
            return;
        }
        let SharedPrefixes { tokens, shared, parting } = SharedPrefixes::new(&rollout.groups);
        let percent = |n: usize| 100.0 * n as f64 / tokens.max(1) as f64;
        self.say(&format!(
            "RL step {done}: {} compares prefixes that responses of a group share; responses part at {parting} ({:.1} %) of {tokens} tokens, and \
             {shared} ({:.1} %) stand in several responses",
            config.configured().spec.title,
            percent(parting),
            percent(shared)
        ));
    }

    /// Warns once when no group has taught anything for several steps.
    pub(super) fn note_zero_variance(&mut self, batch: &[Group]) {
        let metrics = methods::batch_metrics(batch);
        // With a critic or a batch-wide baseline, groups with equal rewards have a gradient, too.
        let has_signal = || {
            let method = &self.session.config.configured().method;
            method.credit(batch).iter().any(|c| c.advantages.iter().any(|a| *a != 0.0))
        };
        let no_signal = metrics.zero_variance_groups == metrics.groups && !has_signal();
        self.state.no_signal_in_a_row = if no_signal { self.state.no_signal_in_a_row + 1 } else { 0 };
        if self.state.no_signal_in_a_row == NO_SIGNAL_STEPS && !self.state.no_signal_warned {
            self.state.no_signal_warned = true;
            if let Some(line) = self.noise() {
                self.say(&line);
                return;
            }
            self.say(&format!(
                "for {NO_SIGNAL_STEPS} steps every group's rewards were equal, and a baseline of the group leaves no advantage: the task may be too hard or too \
                 easy for this model, the grader may not find its answers (see samples.jsonl), or responses are cut off before them"
            ));
        }
    }

    /// Writes the first responses of a step to `samples.jsonl`.
    pub(super) fn write_samples(&mut self, step: u64, rollout: &Rollout) -> Result<()> {
        let (Some(prompt), Some(group)) = (rollout.prompts.first(), rollout.groups.first()) else {
            return Ok(());
        };
        let session = self.session;
        let names: Vec<_> = session.config.reward.active().map(|(i, c)| (i, c.name)).collect();
        for (response, breakdown) in
            group.responses.iter().zip(rollout.rewards.iter().flatten()).take(SAMPLES_PER_STEP)
        {
            let rewards: BTreeMap<&str, Option<f64>> =
                names.iter().map(|(i, name)| (*name, breakdown.components[*i])).collect();
            let text = session.rewards.stops.text(&response.tokens)?;
            let answer = Prediction::extract(&text, session.problems.extraction());
            let sample = serde_json::json!({
                "step": step,
                "prompt": session.tokens.text(&prompt.tokens)?,
                "response": text,
                "gold": prompt.gold.to_string(),
                "answer": answer.answer(),
                "accuracy": breakdown.accuracy(),
                "reward": response.reward,
                "rewards": rewards,
                "truncated": response.truncated,
            });
            self.dir.sample(&sample)?;
        }
        Ok(())
    }
}
