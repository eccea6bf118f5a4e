//! The model layer: Qwen2 and Llama decoders, differentiable, exact to the bit whatever the batch.
pub mod cache;
pub mod config;
pub mod decoder;
pub mod error;
pub mod gradients;
pub mod ops;
pub mod rows;
pub mod weights;

pub use cache::{Decoding, NextTokens, RowId};
pub use config::Config;
pub use decoder::{Decoder, Options, Scores, Tape};
pub use error::{Error, Result};
pub use gradients::Gradients;
pub use rows::Rows;
