#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | holds |
//! | --- | --- |
//! | [`device`] | the seam: memory, kernel launches, matrix products |
//! | [`ledger`] | what is allocated, for what, and the peak |
//! | [`kernels`] | the kernels' source, and one typed function for each |
//! | [`layout`] | where every parameter is in one flat array |
//! | [`decoder`] | log-probabilities of a batch of rows, and their gradient |
//! | [`attention`], [`log_prob`], [`projection`] | its parts that are more than a kernel |
//! | [`lora`] | adapters beside frozen weights |
//! | [`optim`] | AdamW |
//! | [`gradients`] | what the backward pass adds to |
//! | [`weights`] | named tensors on a device: weights, gradients, moments |
//! | [`decode`] | keys and values, reading prompts, one step of decoding |
//! | [`rollout`] | responses sampled where the logits are |
//! | [`random`], [`probe`] | made-up weights; what a device reaches at best |
//! | [`select`] | which device a run gets |
//! | [`blas`] | row-major products as BLAS libraries compute them |
//! | [`image`] | machine code of the kernels, kept on disk |
//! | `cuda` | the CUDA card |
//! | [`check`] | every kernel against its contract, on whatever device there is |
//! | [`dry`] | a device that computes nothing and counts everything: memory and work of a step before it is run |
//!
//! Three devices stand behind the seam. The CUDA card (feature `cuda`) compiles the kernels when it starts. The emulator of the
//! tests compiles *the same source* with a C++ compiler and runs it thread by thread, so what a kernel computes is proved on any
//! machine. The dry run executes nothing; since it follows the very code of a step, what it counts is what a step allocates.

pub mod attention;
mod batch;
pub mod blas;
pub mod check;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod decode;
pub mod decoder;
pub mod device;
pub mod dry;
#[cfg(any(feature = "cuda", test))]
mod free_list;
pub mod gradients;
pub mod image;
pub mod kernels;
mod layer;
pub mod layout;
pub mod ledger;
pub mod log_prob;
pub mod lora;
pub mod optim;
pub mod probe;
pub mod projection;
pub mod random;
pub mod rollout;
pub mod select;
pub mod weights;

pub use decoder::{Budget, Error, GpuDecoder, Tape};
pub use device::{Arg, Buffer, Device, Gemm, Matrix};
pub use gradients::Gradients;
pub use grpo_lambda_decoder::device::{DeviceError, Dtype};
pub use kernels::Kernels;
pub use layout::Layout;
pub use lora::Adapter;
pub use optim::GpuAdamW;
pub use projection::Network;
pub use weights::Weights;
