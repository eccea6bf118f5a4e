//! Where the rewards of a rollout come from.

use grpo_lambda_decoder::rollout::SampledResponse;
use grpo_lambda_grade::Extraction;

use super::rollout::TrainingPrompt;
use crate::input::tokens::{ModelTokenizer, TokenError};
use crate::reward::{RewardBreakdown, RewardConfig, RewardInput};

/// Grades the responses to a prompt.
pub trait RewardFunction {
    /// What each response earns, in order.
    ///
    /// # Errors
    /// When a response cannot be decoded.
    fn rewards(
        &self,
        prompt: &TrainingPrompt,
        responses: &[SampledResponse],
    ) -> Result<Vec<RewardBreakdown>, TokenError>;
}

/// The rewards of a run: those of its configuration, by a response's text and length.
#[derive(Clone, Copy, Debug)]
pub struct TextReward<'a> {
    /// Decodes a response.
    pub tokens: &'a ModelTokenizer,
    /// The components and their weights.
    pub reward: &'a RewardConfig,
    /// Where the answer stands in a response.
    pub extraction: Extraction,
}

impl RewardFunction for TextReward<'_> {
    fn rewards(
        &self,
        prompt: &TrainingPrompt,
        responses: &[SampledResponse],
    ) -> Result<Vec<RewardBreakdown>, TokenError> {
        let reward = |response: &SampledResponse| {
            let text = self.tokens.text(&response.tokens)?;
            let (length, gold) = (response.tokens.len(), &prompt.gold);
            Ok(self.reward.score(&RewardInput { text: &text, length, gold, extraction: self.extraction }))
        };
        responses.iter().map(reward).collect()
    }
}
