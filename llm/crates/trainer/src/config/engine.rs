//! [`EngineKind`]: the program part that computes.

use super::words::words;

words! {
    /// The engine of a run.
    #[derive(Default)]
    pub enum EngineKind {
        /// Our own decoders, on the CPU or a CUDA card.
        #[default]
        Own = "own",
        /// Candle's tensors, on the CPU, a CUDA card or a Mac.
        Candle = "candle",
    }
}
