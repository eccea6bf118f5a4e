//! The operations of a layer, forward and backward written by hand over plain slices, generic over `f32` and `f64`.

pub mod attention;
mod blocks;
pub mod buffer;
mod floats;
pub mod log_prob;
pub mod matmul;
pub mod norm;
pub(crate) mod parallel;
pub mod real;
pub mod rope;
pub mod simd;
pub(crate) mod sums;
pub mod swiglu;

pub use real::Real;
