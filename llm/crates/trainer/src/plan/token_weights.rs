//! The weight of each token in a method's on-policy gradient: [`grpo_lambda::token_weights`].

pub use grpo_lambda::token_weights::*;
