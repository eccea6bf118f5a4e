//! Where the rewards of a rollout come from.

use std::cell::RefCell;

use grpo_lambda_decoder::generate::SampledResponse;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_grade::Extraction;

use super::prompt::TrainingPrompt;
use crate::input::stops::Stops;
use crate::input::tokens::{ModelTokenizer, TokenError};
use crate::reward::program::{ProgramError, Question, RewardProgram};
use crate::reward::{RewardBreakdown, RewardConfig, RewardInput};
use crate::run::progress::say;

/// Why responses have no reward.
#[derive(Debug, thiserror::Error)]
pub enum RewardError {
    /// A response cannot be decoded.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The program of `reward.command` fails.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Grades the responses to a prompt.
pub trait RewardFunction {
    /// What each response earns, in order.
    ///
    /// # Errors
    /// [`RewardError`].
    fn rewards(
        &self,
        prompt: &TrainingPrompt,
        responses: &[SampledResponse],
    ) -> Result<Vec<RewardBreakdown>, RewardError>;
}

/// The rewards of a run: those of its configuration, by a response's text and length.
#[derive(Debug)]
pub struct TextReward<'a> {
    /// Decodes a response.
    pub tokens: &'a ModelTokenizer,
    /// The components and their weights.
    pub reward: &'a RewardConfig,
    /// Where the answer stands in a response.
    pub extraction: Extraction,
    /// Texts that end a response: what its last token spells beyond them is not graded.
    stops: &'a [String],
    /// Where the draws of the component `coin` are.
    draws: Address,
    /// The program of the component `command`, where it has a weight.
    program: Option<RefCell<RewardProgram>>,
}

impl<'a> TextReward<'a> {
    /// The rewards of a configuration, without stop strings; those that are drawn derive from `seed`.
    pub fn new(
        tokens: &'a ModelTokenizer,
        reward: &'a RewardConfig,
        extraction: Extraction,
        seed: u64,
    ) -> TextReward<'a> {
        let program = reward.command.as_ref().filter(|_| reward.is_active("command"));
        let program = program.map(|c| RefCell::new(RewardProgram::new(&c.line, c.timeout)));
        TextReward {
            tokens,
            reward,
            extraction,
            stops: &[],
            draws: Address::new(seed, Purpose::Coin),
            program,
        }
    }

    /// The same of responses that these texts end.
    pub fn stopping_at(self, stops: &'a [String]) -> TextReward<'a> {
        TextReward { stops, ..self }
    }

    /// What the program says of each response; nothing without one.
    fn of_program(
        &self,
        prompt: &TrainingPrompt,
        responses: &[SampledResponse],
        texts: &[String],
    ) -> Result<Vec<Option<f64>>, RewardError> {
        let Some(program) = &self.program else { return Ok(vec![None; responses.len()]) };
        let (asked, gold) = (self.tokens.text(&prompt.tokens)?, prompt.gold.to_string());
        let question = |(response, text): (&SampledResponse, &String)| Question {
            prompt: asked.clone(),
            completion: text.clone(),
            gold: gold.clone(),
            tokens: response.tokens.len(),
            token_ids: response.tokens.clone(),
        };
        let questions: Vec<Question> = responses.iter().zip(texts).map(question).collect();
        Ok(program.borrow_mut().ask(&questions, &mut |line| say(line))?)
    }
}

impl RewardFunction for TextReward<'_> {
    fn rewards(
        &self,
        prompt: &TrainingPrompt,
        responses: &[SampledResponse],
    ) -> Result<Vec<RewardBreakdown>, RewardError> {
        let stops = Stops::new(self.tokens, self.stops);
        let texts: Vec<String> = responses.iter().map(|r| stops.text(&r.tokens)).collect::<Result<_, _>>()?;
        let said = self.of_program(prompt, responses, &texts)?;
        let draws = self.draws.prompt(prompt.number);
        let reward = |(i, text): (usize, &String)| {
            let (length, gold, extraction) = (responses[i].tokens.len(), &prompt.gold, self.extraction);
            let (program, draw) = (said[i], draws.response(i as u64).unit(0));
            self.reward.score(&RewardInput { text, length, gold, extraction, program, draw })
        };
        Ok(texts.iter().enumerate().map(reward).collect())
    }
}
