//! [`TrainingPrompt`].

use grpo_lambda_grade::Gold;

/// A training prompt with its reference answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingPrompt {
    /// Token ids of the prompt.
    pub tokens: Vec<u32>,
    pub gold: Gold,
    /// The address of its random numbers; no other prompt of the step has this number.
    pub number: u64,
}

/// Token ids of the prompts.
pub(super) fn ids(prompts: &[TrainingPrompt]) -> Vec<&[u32]> {
    prompts.iter().map(|p| p.tokens.as_slice()).collect()
}
