//! The data sets of the paper's reinforcement learning.

/// A data set of the paper's reinforcement learning.
#[derive(Debug, PartialEq, Eq)]
pub struct PaperDataset {
    /// As in Tables 3 to 6.
    pub name: &'static str,
    /// `owner/name` on the Hugging Face hub, with subset and split where there are several. The paper links the two in the middle; for the others, where what it cites is kept.
    pub id: &'static str,
    /// Rows for training, as published (ORZ: of the name); for the share of them a run sees.
    pub rows: u64,
}

/// The four, in the order of Tables 3 and 4.
pub static DATASETS: &[PaperDataset] = &[
    PaperDataset { name: "math12k", id: "hiyouga/math12k", rows: 12_000 },
    PaperDataset { name: "math-rl-16k", id: "riddickz/math-rl-16k", rows: 16_000 },
    PaperDataset { name: "gsm8k", id: "openai/gsm8k:main/train", rows: 7_473 },
    PaperDataset { name: "orzmath57k", id: "Open-Reasoner-Zero/orz_math_57k_collection", rows: 57_000 },
];
