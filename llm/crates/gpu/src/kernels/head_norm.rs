//! RMSNorm of every query head and of every key head over its own numbers, and its gradients.

use super::heads::HeadShape;
use super::launch::{ROW, kernel};
use super::norm::COLUMNS;
use crate::ptr::Real;

/// Warps of a block; each works on one head of one token at a time.
const WARPS: u32 = ROW / 32;

kernel! {
    /// `y = x / sqrt(mean x^2 + eps) * weight` of every query and key head `x` of the fused projection plus its bias; values get their
    /// bias alone. `qkv` and `out` may be one. Heads have at most [`HeadShape::WIDEST`] elements.
    HeadNorm "head_norm" {
        read qkv: Real[tokens, heads.line()],
        read bias: Real[heads.line()] or null,
        /// Weights for every query head, then for every key head.
        read weight: Real[2, heads.dim],
        write out: Real[tokens, heads.line()],
        pass tokens: u32,
        pass heads: HeadShape,
        pass eps: f32,
    }
    threads ROW; grid ((tokens * (heads.query + 2 * heads.key)).div_ceil(WARPS), 1);
    bytes qkv[tokens, heads.line()], out[tokens, heads.line()];
    before(device) heads.check(Self::NAME, device);
}

kernel! {
    /// Replaces the gradient of [`HeadNorm`]'s output by that of the projection plus its bias, in query and key heads; that of the
    /// values is the same.
    HeadNormBackward "head_norm_backward" {
        read qkv: Real[tokens, heads.line()],
        read bias: Real[heads.line()] or null,
        read weight: Real[2, heads.dim],
        update dqkv: Real[tokens, heads.line()],
        /// Sums of `dy x / sqrt(mean x^2 + eps)` over query heads and over key heads, for [`HeadNormWeight`]. Part `p` has, in both, those
        /// whose place in their list by token and head is `i` with `i / 8` equal to `p` modulo the number of parts. If absent, the weight
        /// gets no gradient.
        write parts: f32[Self::parts(tokens, heads), 2, heads.dim] or null,
        pass tokens: u32,
        pass heads: HeadShape,
        pass eps: f32,
    }
    threads ROW; grid (Self::parts(tokens, heads), 2);
    bytes qkv[tokens, heads.queries() + heads.keys()], dqkv[2, tokens, heads.queries() + heads.keys()];
    before(device) heads.check(Self::NAME, device);
}

impl HeadNormBackward {
    /// Most parts: blocks enough for the processors of a GPU, and few enough that their sum is little work.
    const MOST_PARTS: u32 = 512;

    /// Parts of the gradient of the weights, of so many tokens.
    pub fn parts(tokens: u32, heads: HeadShape) -> u32 {
        (tokens * heads.query.max(heads.key)).div_ceil(WARPS).min(Self::MOST_PARTS)
    }
}

kernel! {
    /// `dweight += ` the sum of the parts that [`HeadNormBackward`] left.
    HeadNormWeight "head_norm_weight" {
        read parts: f32[rows, width],
        update dweight: f32[width],
        /// Parts.
        pass rows: u32,
        /// Elements of a part, `2 dim`.
        pass width: u32,
    }
    threads COLUMNS; grid (width.div_ceil(32), 1);
}
