#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | holds |
//! | --- | --- |
//! | `device` | the seam, [`Device`]: memory, kernel launches, matrix products |
//! | `gemm`, [`ledger`] | its words: [`Gemm`]; the account of what is allocated |
//! | [`ptr`] | typed pointers into device memory |
//! | `buffer`, `array` | memory that is freed when dropped: bytes, and elements of one type |
//! | [`kernels`] | the kernels' source, and next to each file the typed launches |
//! | `flat`, `layout` | named tensors in one flat array; the place of every parameter of a decoder in one |
//! | [`weights`], `gradients` | such arrays on a device |
//! | [`lora`] | adapters next to frozen weights |
//! | `decoder` | [`GpuDecoder`]: log-probabilities of a batch of rows, and their gradient |
//! | `batch`, `layer`, `heads`, `attention`, `projection`, `lm_head` | its parts |
//! | [`optim`] | AdamW |
//! | `decode`, `pages` | the KV cache: prefill, and one step of decoding |
//! | [`generate`] | responses sampled on the device |
//! | [`random`], [`probe`] | random weights; the best rates of a device |
//! | [`select`] | the device of a run |
//! | `cuda`, `blas`, `image` | CUDA; row-major products as BLAS libraries compute them; compiled kernels, kept on disk |
//! | [`dry`] | the dry run: memory and work of a step, counted before it is run |
//! | `check` | every kernel against its contract, on any device |
//!
//! Two devices stand at the seam. CUDA (feature `driver`, and `cuda` for runs to find a card) compiles the kernels when it
//! starts; in the tests its libraries are substitutes, in which a machine executes the compiled kernels on the CPU. The dry
//! run executes nothing; since it follows the very code of a step, it counts what a step allocates.

mod array;
mod attention;
mod batch;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod blas;
mod buffer;
#[cfg(feature = "driver")]
pub mod check;
#[cfg(all(feature = "cuda", not(target_os = "linux")))]
compile_error!("CUDA cards are supported on Linux only; on Windows build in WSL");
#[cfg(all(feature = "driver", target_os = "linux"))]
pub mod cuda;
mod decode;
mod decoder;
mod device;
pub mod dry;
mod flat;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod free_list;
mod gemm;
pub mod generate;
mod gradients;
mod heads;
#[cfg(feature = "driver")]
mod image;
pub mod kernels;
mod layer;
mod layout;
pub mod ledger;
mod lm_head;
pub mod lora;
pub mod optim;
mod pages;
pub mod probe;
mod projection;
pub mod ptr;
pub mod random;
pub mod select;
pub mod weights;

pub use array::Array;
pub use buffer::Buffer;
pub use decode::cache_bytes;
pub use decoder::{Budget, Error, GpuDecoder, Tape};
pub use device::{Device, DriverMemory, Graph, HostWork};
pub use gemm::{Gemm, Matrix, MatrixMut};
pub use gradients::Gradients;
pub use grpo_lambda_decoder::device::{DeviceError, Dtype};
pub use kernels::Kernels;
pub use layout::Layout;
pub use lora::Adapter;
pub use optim::{GpuAdamW, StatePlace};
pub use projection::Network;
pub use ptr::{Arg, Ptr, PtrMut, Real};
pub use weights::Weights;
