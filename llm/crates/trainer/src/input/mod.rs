//! Input of training: data sets and embedded tasks, prompts, tokens.

pub mod around;
pub mod data;
pub mod hub;
pub mod json;
pub mod prompt;
pub mod stops;
pub mod task;
pub mod tokenizer_config;
pub mod tokens;
pub mod vocabulary;
