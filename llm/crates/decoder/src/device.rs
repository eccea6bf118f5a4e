//! The words that every device of a model shares: how numbers are stored, and how a device fails.

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

/// What a device answers when it cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Less memory than asked for.
    #[error(
        "out of device memory: {wanted} MiB for {what}, with {in_use} MiB in use and {free} MiB free on {device}; \
         in training lower memory.micro_batch_tokens or set memory.recompute_layers=true (the run resumes from its last checkpoint), in evaluation \
         lower --batch"
    )]
    OutOfMemory {
        /// What it was for.
        what: &'static str,
        /// MiB asked for.
        wanted: u64,
        /// MiB this process holds.
        in_use: u64,
        /// MiB free.
        free: u64,
        /// The device.
        device: String,
    },
    /// The device is not there.
    #[error("{0}")]
    Missing(String),
    /// A call failed.
    #[error("{call} failed on {device}: {reason}")]
    Call {
        /// The call.
        call: String,
        /// The device.
        device: String,
        /// What it said.
        reason: String,
    },
}
