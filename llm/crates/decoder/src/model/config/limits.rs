//! The largest numbers of a `config.json` that are believed: far above any model there is, and far below what would take memory by itself or
//! overflow a product of two of them.

/// Bytes of the file.
pub(super) const FILE: u64 = 16 << 20;
/// Layers; the deepest published models have about 200.
pub(super) const LAYERS: usize = 10_000;
/// Tokens of the vocabulary, and widths of the residual stream and of the MLP.
pub(super) const WIDTH: usize = 1 << 24;
/// Heads.
pub(super) const HEADS: usize = 1 << 16;
/// Numbers per head.
pub(super) const HEAD_DIM: usize = 1 << 16;
/// Positions.
pub(super) const POSITIONS: usize = 1 << 32;
/// Added under the root of a norm, whose argument has mean square around 1.
pub(super) const EPS: f64 = 1.0;
/// Base of the rotary frequencies.
pub(super) const ROPE_THETA: f64 = 1e15;
/// Divisors of rotary frequencies.
pub(super) const ROPE_FACTOR: f64 = 1e6;
