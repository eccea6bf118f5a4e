//! What a device answers when it cannot go on.

/// What a device answers when it cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Less memory than asked for.
    #[error(
        "out of device memory: {wanted} MiB for {what}, with {in_use} MiB in use and {free} MiB free on {device}; \
         in training lower memory.micro_batch_tokens or set memory.recompute_layers=true (the run goes on from its last checkpoint), in evaluation \
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
