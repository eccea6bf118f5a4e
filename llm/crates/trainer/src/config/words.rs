//! Words of the settings that choose.

use crate::words::words;

words! {
    /// The kinds of problems.
    pub(super) enum TaskKind {
        Stories = "stories",
        Addition = "addition",
        Dataset = "dataset",
    }
}

words! {
    /// The program part that computes.
    #[derive(Default)]
    pub enum EngineKind {
        /// Our own decoders, on the CPU or a CUDA card.
        #[default]
        Own = "own",
        /// Candle's tensors, on the CPU, a CUDA card or a Mac.
        Candle = "candle",
    }
}
