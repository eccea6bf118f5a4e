//! Number types and errors that the devices of a model share.

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

/// Beginning of the message of [`DeviceError::OutOfMemory`] begins.
pub const OUT_OF_MEMORY: &str = "out of device memory";

/// A device that cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Too little memory.
    #[error(
        "{OUT_OF_MEMORY}: {wanted} MiB for {what}, with {in_use} MiB in use and {free} MiB free on {device}"
    )]
    OutOfMemory {
        /// Its purpose.
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
        /// The device's answer.
        reason: String,
    },
}
