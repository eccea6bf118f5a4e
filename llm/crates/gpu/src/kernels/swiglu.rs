//! The gate of the MLP.

use super::launch::{ROW, kernel};
use crate::ptr::Real;

kernel! {
    /// `y = silu(gate) up`.
    Swiglu "swiglu" {
        /// Gate, then up, without their bias.
        read gate_up: Real[tokens, 2, width],
        read bias: Real[2, width] or null,
        write y: Real[tokens, width],
        size tokens: u32,
        pass width: u32,
    }
    threads ROW; grid (tokens, 1);
    bytes gate_up[tokens, 2, width], y[tokens, width];
}

kernel! {
    /// The gradient of [`Swiglu`] with respect to `gate_up`, which `dgate_up` may be.
    SwigluBackward "swiglu_backward" {
        /// Without bias.
        read gate_up: Real[tokens, 2, width],
        read bias: Real[2, width] or null,
        read dy: Real[tokens, width],
        write dgate_up: Real[tokens, 2, width],
        size tokens: u32,
        pass width: u32,
    }
    threads ROW; grid (tokens, 1);
    bytes gate_up[tokens, 2, width], dy[tokens, width], dgate_up[tokens, 2, width];
}
