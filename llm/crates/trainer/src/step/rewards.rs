//! [`RewardFunction`]: grades the responses of a rollout; [`TextReward`] is that of a configuration.

use std::cell::RefCell;

use grpo_lambda_decoder::generate::SampledResponse;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_grade::Extraction;

use super::TrainingPrompt;
use crate::input::stops::Stops;
use crate::input::tokens::{ModelTokenizer, TokenError};
use crate::reward::program::{ProgramError, Question, RewardProgram};
use crate::reward::{RewardBreakdown, RewardConfig, RewardInput};
use crate::run::stop;

/// The reason why responses have no reward.
#[derive(Debug, thiserror::Error)]
pub enum RewardError {
    /// A response cannot be decoded.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The program of `reward.command` fails.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A component whose squares cannot be summed.
    #[error(
        "reward.{component} = {value:e} for a response, weighted: must be from -{LARGEST:e} to {LARGEST:e}, since sums of squares of larger \
         rewards overflow; scale it, or lower its weight"
    )]
    TooLarge { component: &'static str, value: f64 },
}

/// The rewards of responses, in order.
pub type Rewards = Result<Vec<RewardBreakdown>, RewardError>;

/// The largest reward: squares of it can be summed over any batch.
const LARGEST: f64 = 1e100;

/// Grades the responses to a prompt.
pub trait RewardFunction {
    /// The reward of each response, in order, in RL step `step`.
    fn rewards(&self, step: u64, prompt: &TrainingPrompt, responses: &[SampledResponse]) -> Rewards;
}

/// The rewards of a configuration, by a response's text and length.
#[derive(Debug)]
pub struct TextReward {
    reward: RewardConfig,
    extraction: Extraction,
    /// Texts that end a response: characters of its last token beyond them are not graded.
    pub stops: Stops,
    /// The address of the draws of the component `coin`.
    draws: Address,
    /// The program of the component `command`, if it has a weight.
    program: Option<RefCell<RewardProgram>>,
    /// Takes the lines that the program writes for people.
    pub say: fn(&str),
}

impl TextReward {
    /// The rewards without stop strings, which keep the program's lines to themselves, and wait for the program no longer than a moment once
    /// the run is asked to end; `seed` is that of the drawn ones.
    pub fn new(
        tokens: &ModelTokenizer,
        reward: &RewardConfig,
        extraction: Extraction,
        seed: u64,
    ) -> TextReward {
        let program = reward.command.as_ref().filter(|_| reward.is_active("command"));
        let program = program.map(|c| RewardProgram::new(&c.line, c.timeout));
        let program = program.map(|p| RefCell::new(p.heeding(|| stop::requested().is_some())));
        TextReward {
            reward: reward.clone(),
            extraction,
            stops: Stops::new(tokens, &[]),
            draws: Address::new(seed, Purpose::Coin),
            program,
            say: |_| (),
        }
    }

    /// Refuses a reward that no group can be compared by.
    fn summable(&self, reward: RewardBreakdown) -> Result<RewardBreakdown, RewardError> {
        let weighted = self.reward.active().filter_map(|(i, component)| {
            Some((component.name, self.reward.weights[i] * reward.components[i]?))
        });
        match weighted.into_iter().find(|(_, x)| x.is_nan() || x.abs() > LARGEST) {
            Some((component, value)) => Err(RewardError::TooLarge { component, value }),
            None => Ok(reward),
        }
    }

    /// The program's reward of each response; `None` without a program.
    fn program_rewards(
        &self,
        step: u64,
        prompt: &TrainingPrompt,
        responses: &[SampledResponse],
        texts: &[String],
    ) -> Result<Vec<Option<f64>>, RewardError> {
        let Some(program) = &self.program else { return Ok(vec![None; responses.len()]) };
        let (asked, gold) = (self.stops.tokens.text(&prompt.tokens)?, prompt.gold.to_string());
        let question = |(response, text): (&SampledResponse, &String)| Question {
            prompt: asked.clone(),
            completion: text.clone(),
            gold: gold.clone(),
            tokens: response.tokens.len(),
            token_ids: response.tokens.clone(),
            step,
            row: Question::columns(&prompt.others),
        };
        let questions: Vec<Question> = responses.iter().zip(texts).map(question).collect();
        Ok(program.borrow_mut().ask(&questions, &mut |line| (self.say)(line))?)
    }
}

impl RewardFunction for TextReward {
    fn rewards(&self, step: u64, prompt: &TrainingPrompt, responses: &[SampledResponse]) -> Rewards {
        let texts = responses.iter().map(|r| self.stops.text(&r.tokens));
        let texts = texts.collect::<Result<Vec<String>, _>>()?;
        let said = self.program_rewards(step, prompt, responses, &texts)?;
        let draws = self.draws.prompt(prompt.number);
        let reward = |(i, text): (usize, &String)| {
            let (length, gold, extraction) = (responses[i].tokens.len(), &prompt.gold, self.extraction);
            let (program, draw) = (said[i], draws.response(i as u64).unit(0));
            let row = &prompt.others;
            let (problem, cut_off) = (prompt.problem.as_deref(), responses[i].truncated);
            let input =
                RewardInput { text, length, problem, cut_off, gold, extraction, program, draw, step, row };
            self.summable(self.reward.score(&input))
        };
        texts.iter().enumerate().map(reward).collect()
    }
}
