#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | holds |
//! | --- | --- |
//! | [`device`] | the seam: memory, kernel launches, matrix products |
//! | [`gemm`], [`ledger`] | its words: products, what is allocated for what |
//! | [`ptr`] | typed pointers into device memory |
//! | [`buffer`], [`mod@array`] | memory that is freed when dropped: bytes, and elements of one type |
//! | [`kernels`] | the kernels' source, and beside each file of it the launches, typed |
//! | [`flat`], [`layout`] | named tensors in one flat array; where every parameter of a decoder is in one |
//! | [`weights`], [`gradients`] | such arrays on a device |
//! | [`lora`] | adapters beside frozen weights |
//! | [`decoder`] | log-probabilities of a batch of rows, and their gradient |
//! | `batch`, `rotary`, `layer`, `heads`, `attention`, `projection`, `lm_head` | its parts |
//! | [`optim`] | AdamW |
//! | [`decode`] | the KV cache: prefill, and one step of decoding |
//! | [`rollout`] | responses sampled where the logits are |
//! | [`random`], [`probe`] | made-up weights; what a device reaches at best |
//! | [`select`] | which device a run gets |
//! | `cuda`, [`blas`], [`image`] | CUDA; row-major products as BLAS libraries compute them; compiled kernels, kept on disk |
//! | [`dry`] | the dry run: memory and work of a step, counted before it is run |
//! | [`check`] | every kernel against its contract, on whatever device there is |
//!
//! Three devices stand behind the seam. CUDA (feature `cuda`) compiles the kernels when it starts. The CPU emulator of the
//! tests compiles *the same source* with a C++ compiler and runs it thread by thread, so what a kernel computes is proved on any
//! machine. The dry run executes nothing; since it follows the very code of a step, what it counts is what a step allocates.

pub mod array;
mod attention;
mod batch;
pub mod blas;
pub mod buffer;
pub mod check;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod decode;
pub mod decoder;
pub mod device;
pub mod dry;
pub mod flat;
#[cfg(any(feature = "cuda", test))]
mod free_list;
pub mod gemm;
pub mod gradients;
mod heads;
pub mod image;
pub mod kernels;
mod layer;
pub mod layout;
pub mod ledger;
mod lm_head;
pub mod lora;
pub mod optim;
pub mod pages;
pub mod probe;
mod projection;
pub mod ptr;
pub mod random;
pub mod rollout;
mod rotary;
pub mod select;
pub mod weights;

pub use array::Array;
pub use buffer::Buffer;
pub use decoder::{Budget, Error, GpuDecoder, Tape};
pub use device::{Arg, Device, DriverMemory, Gemm, Graph, HostWork, Matrix, MatrixMut};
pub use gradients::Gradients;
pub use grpo_lambda_decoder::device::{DeviceError, Dtype};
pub use kernels::Kernels;
pub use layout::Layout;
pub use lora::Adapter;
pub use optim::{GpuAdamW, StatePlace};
pub use projection::Network;
pub use ptr::{Ptr, PtrMut, Real};
pub use weights::Weights;
