//! Where the rewards of a rollout come from.

use grpo_lambda_decoder::rollout::Sampled;
use grpo_lambda_grade::Extraction;

use super::rollout::Exercise;
use crate::input::tokens::{TokenError, Tokens};
use crate::reward::{Earned, RewardConfig, Seen};

/// Grades the responses to a prompt.
pub trait RewardFunction {
    /// What each response earns, in order.
    ///
    /// # Errors
    /// When a response cannot be decoded.
    fn rewards(&self, exercise: &Exercise, responses: &[Sampled]) -> Result<Vec<Earned>, TokenError>;
}

/// The rewards of a run: those of its configuration, by a response's text and length.
#[derive(Clone, Copy, Debug)]
pub struct TextReward<'a> {
    /// Decodes a response.
    pub tokens: &'a Tokens,
    /// The components and their weights.
    pub reward: &'a RewardConfig,
    /// Where the answer stands in a response.
    pub extraction: Extraction,
}

impl RewardFunction for TextReward<'_> {
    fn rewards(&self, exercise: &Exercise, responses: &[Sampled]) -> Result<Vec<Earned>, TokenError> {
        let reward = |response: &Sampled| {
            let text = self.tokens.text(&response.tokens)?;
            let (length, gold) = (response.tokens.len(), &exercise.gold);
            Ok(self.reward.score(&Seen { text: &text, length, gold, extraction: self.extraction }))
        };
        responses.iter().map(reward).collect()
    }
}
