//! Training on a GPU: the decoder, the optimiser and the sampler as kernels and matrix products over [`Device`] memory.
//!
//! | module | holds |
//! | --- | --- |
//! | [`device`] | the seam: memory, kernel launches, matrix products |
//! | [`ledger`] | what is allocated, for what, and the peak |
//! | [`kernels`] | the kernels' source, and one typed function for each |
//! | [`select`] | which device a run gets |
//! | [`blas`] | row-major products as BLAS libraries compute them |
//! | [`image`] | machine code of the kernels, kept on disk |
//! | `cuda` | the CUDA card |
//! | [`dry`] | a device that computes nothing and counts everything: memory and work of a step before it is run |
//!
//! Three devices stand behind the seam. The CUDA card (feature `cuda`) compiles the kernels when it starts. The emulator of the
//! tests compiles *the same source* with a C++ compiler and runs it thread by thread, so what a kernel computes is proved on any
//! machine. The dry run executes nothing; since it follows the very code of a step, what it counts is what a step allocates.

pub mod blas;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod dry;
#[cfg(any(feature = "cuda", test))]
mod free_list;
pub mod image;
pub mod kernels;
pub mod ledger;
pub mod select;

pub use device::{Arg, Buffer, Device, DeviceError, Dtype, Gemm, Matrix};
pub use kernels::Kernels;
