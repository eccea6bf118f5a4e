//! Settings of a rollout.

/// How a rollout is carried out; changes no response, but for rounding where `prefill_tokens` changes the sizes of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutOptions {
    /// Tokens of prompts that are read at once.
    pub prefill_tokens: usize,
    /// Whether a step is captured once and replayed, instead of launched anew.
    pub capture: bool,
    /// Steps between two questions whether a row is still active.
    pub poll_every: usize,
}

impl Default for RolloutOptions {
    fn default() -> Self {
        RolloutOptions { prefill_tokens: 8192, capture: true, poll_every: 8 }
    }
}
