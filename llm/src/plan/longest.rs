//! The lengths that a plan is made for.

/// The longest rows that a run may meet in training, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// Of a prompt.
    pub prompt: usize,
    /// Of a prompt and its worked solution; 0 without supervised learning.
    pub example: usize,
}
