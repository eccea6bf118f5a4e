//! RMSNorm and its gradients; biases and theirs.

use super::launch::{ROW, kernel};
use crate::ptr::Real;

/// Threads of a block that sums 32 columns.
pub(super) const COLUMNS: u32 = 1024;

kernel! {
    /// `y = x / sqrt(mean x^2 + eps) * weight`. `x` and `y` may be one.
    RmsNorm "rms_norm" {
        read x: Real[tokens, width],
        read weight: Real[width],
        write y: Real[tokens, width],
        /// `1 / sqrt(mean x^2 + eps)`, which the gradients read.
        write scale: f32[tokens] or null,
        size tokens: u32,
        pass width: u32,
        pass eps: f32,
    }
    threads ROW; grid (tokens, 1);
}

kernel! {
    /// `dx += ` the gradient of [`RmsNorm`] with respect to `x`.
    RmsNormBackward "rms_norm_backward" {
        read x: Real[tokens, width],
        /// From [`RmsNorm`].
        read scale: f32[tokens],
        read weight: Real[width],
        read dy: Real[tokens, width],
        update dx: Real[tokens, width],
        size tokens: u32,
        pass width: u32,
    }
    threads ROW; grid (tokens, 1);
}

kernel! {
    /// `dweight += sum_t dy x scale`.
    RmsNormWeight "rms_norm_weight" {
        read x: Real[tokens, width],
        /// From [`RmsNorm`].
        read scale: f32[tokens],
        read dy: Real[tokens, width],
        update dweight: f32[width],
        pass tokens: u32,
        pass width: u32,
    }
    threads COLUMNS; grid (width.div_ceil(32), 1);
}

kernel! {
    /// `x += bias`, row by row.
    AddBias "add_bias" {
        update x: Real[rows, width],
        read bias: Real[width],
        size rows: u32,
        pass width: u32,
    }
    threads ROW; grid (rows, 1);
}

kernel! {
    /// `out += ` the sum of the rows of `x`: the gradient of a bias.
    ColumnSum "column_sum" {
        read x: Real[rows, width],
        update out: f32[width],
        pass rows: u32,
        pass width: u32,
    }
    threads COLUMNS; grid (width.div_ceil(32), 1);
}
