//! [`EngineKind`]: the program part that computes.

/// The engine of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// Our own decoders, on the CPU or a CUDA card.
    #[default]
    Own,
    /// Candle's tensors, on the CPU, a CUDA card or a Mac.
    Candle,
}

impl EngineKind {
    /// Their names.
    pub const NAMES: [&str; 2] = ["own", "candle"];

    /// One of [`EngineKind::NAMES`].
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some([EngineKind::Own, EngineKind::Candle][Self::NAMES.iter().position(|n| *n == name)?])
    }
}
