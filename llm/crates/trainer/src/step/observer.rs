//! What a training step lets others see of itself: where its phases begin and end.

use grpo_lambda_gpu::DeviceError;

/// A phase of a training step. With micro-batches, forward and backward passes alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Responses are sampled.
    Sample,
    /// Responses are scored by the frozen reference.
    Reference,
    /// The method's evidence is computed.
    Evidence,
    /// Log-probabilities are computed, with a tape.
    Forward,
    /// They are differentiated.
    Backward,
    /// The weights move, and the gradient is cleared.
    Optimiser,
}

/// Watches a step; `()` does not. An observer changes no result.
pub trait Observer {
    /// A phase begins.
    fn begin(&self, _phase: Phase) {}

    /// A phase ends. The work it handed to a device may still be under way: an observer that needs it done waits for the device here.
    ///
    /// # Errors
    /// When the device fails while the observer waits.
    fn end(&self, _phase: Phase) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Observer for () {}

/// Does `work`, the whole of a phase.
pub(super) fn observed<T, E: From<DeviceError>>(
    observer: &dyn Observer,
    phase: Phase,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    observer.begin(phase);
    let done = work()?;
    observer.end(phase)?;
    Ok(done)
}
