//! Qwen2, Qwen3, Llama and OLMo 2 decoders: differentiable, and exact to the bit in any batch.
//!
//! | module or type | holds |
//! | --- | --- |
//! | [`config`] | the configuration of a decoder; `config.json` of transformers 4 and 5, read and written; families |
//! | [`config::layer`] | a layer as a program of operations with names and sizes, which everything below reads |
//! | [`weights`] | parameters by name: safetensors, initialisation from a seed |
//! | [`Rows`] | a batch: rows of different lengths end to end, no padding and no masks |
//! | [`Decoder`] | the forward pass and, next to it, the backward pass |
//! | `input` | the decoder as a function of its input embeddings |
//! | [`Gradients`] | gradients by parameter |
//! | [`Decoding`] | decoding: keys and values in pages that a group's responses share |
//! | `ops` | the operations: matrix product, RMSNorm, rotary embedding, ragged attention, SwiGLU, log-probability |
//!
//! # Why the backward pass is written by hand
//!
//! A method touches the model through `d loss / d log pi` of the sampled tokens alone: training needs one forward and one backward function. On the
//! CPU an automatic graph between them costs copies and buffers at every operation, and matrix products whose rounding depends on the number of
//! rows. Written by hand, work space is reused, weight gradients are summed in place, and every number has one order of summation. Measured with
//! the example `implementations` (8 layers of width 256, 16 rows of 256 tokens, one core of a Zen 5; the gradient norms agree to 7 digits):
//!
//! | forward and backward | CPU seconds | peak memory |
//! | --- | --- | --- |
//! | candle graph | 12.3 | 4268 MiB |
//! | this decoder | 3.3 | 461 MiB |
//! | this decoder, recomputed layers | 4.4 | 194 MiB |
//!
//! Tests hold the whole decoder to the candle graph, to finite differences and to transformers.
//!
//! # What is exact
//!
//! On the CPU in `f32` a token's log-probability has the same bits alone or in any batch, with any number of threads, in any
//! micro-batch, with or without a tape or recomputed layers, and decoded token by token or scored at once. Gradients accumulated
//! over micro-batches, in their order, have the bits of the whole batch. `ops/matmul` says why.
//!
//! # An example
//!
//! ```
//! use grpo_lambda_decoder::model::{Architecture::Qwen2, Decoder, Decoding, ForwardOptions, Gradients, ModelShape, Rows, weights};
//!
//! let config = Qwen2.config(ModelShape { vocab: 50, hidden: 32, layers: 2, heads: 4, kv_heads: 2 });
//! let mut model = Decoder::new(config.clone(), weights::initialise(&config, 1, 0.02))?;
//!
//! // score the last three tokens of a row, and push them up
//! let mut rows = Rows::new();
//! rows.push(&[7, 11, 13, 17, 19], 2);
//! let (scores, tape) = model.forward(&rows, ForwardOptions::default())?;
//! let mut gradients = Gradients::new(&config, |_| true);
//! model.backward(tape, &[vec![-1.0; 3]], &mut gradients);
//! model.update(|parameters| {
//!     for (name, gradient) in gradients.parameters() {
//!         let parameter = parameters.get_mut(name).into_iter().flat_map(|p| &mut p.data);
//!         parameter.zip(&gradient.data).for_each(|(p, g)| *p -= 0.1 * g);
//!     }
//! });
//! let after = model.score(&rows, ForwardOptions::default())?;
//! assert!(after.logps[0].iter().sum::<f64>() > scores.logps[0].iter().sum::<f64>());
//!
//! // decoding the same tokens gives the same numbers, to the last bit
//! let mut decoding = Decoding::new(&model);
//! let (ids, mut next) = decoding.prefill(&[&[7, 11]])?;
//! next.log_softmax(1.0);
//! assert_eq!(f64::from(next.row(0)[13]), after.logps[0][0]);
//! let mut next = decoding.step(&ids, &[13])?;
//! next.log_softmax(1.0);
//! assert_eq!(f64::from(next.row(0)[17]), after.logps[0][1]);
//! # Ok::<(), grpo_lambda_decoder::model::Error>(())
//! ```

mod cache;
pub mod config;
mod decoder;
mod error;
mod gradients;
mod input;
#[doc(hidden)]
pub mod ops;
mod rows;
pub mod weights;

pub use cache::{Decoding, NextTokens, RowId};
pub use config::{Architecture, ModelConfig, ModelShape};
pub use decoder::{Cotangents, Decoder, ForwardOptions, Tape, TokenScores, ValueHead, ValueTape, inverse};
pub use error::{Error, Result};
pub use gradients::Gradients;
pub use rows::{Rows, check_tokens};
