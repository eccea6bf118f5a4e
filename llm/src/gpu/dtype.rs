//! How weights and activations are stored.

/// Storage of weights and activations; sums, logits, gradients of weights and the optimiser are `f32` in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit floats.
    F32,
    /// bfloat16: the upper half of an `f32`, rounded to nearest even.
    Bf16,
}

impl Dtype {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::Bf16 => 2,
        }
    }

    /// `f32` or `bf16`: the ending of a kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "f32",
            Dtype::Bf16 => "bf16",
        }
    }
}
