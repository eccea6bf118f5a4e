//! Conventions that papers print.

use super::{Convention, EMPTY, Framework};

const PAPER: Framework = Framework { name: "paper", version: "as printed" };
const ENTRY: Convention = Convention { framework: PAPER, ..EMPTY };

const PPO_CLIP: &str = "PPO, 1 - eps to 1 + eps";
const Z_SCORE: &str = "(r - mean) / std of the group";

pub(super) static ROWS: &[Convention] = &[
    Convention {
        words: "GRPO (DeepSeekMath)",
        advantage: Z_SCORE,
        ddof: Some(0),
        epsilon: Some(0.0),
        reduction: "1/(B T_i): mean over responses of their token mean",
        clip: PPO_CLIP,
        kl: "k3, beta 0.04",
        method: "grpo",
        settings: "std_preset=deepseekmath beta=0.04",
        differs: "neither ddof nor eps is printed: 0 and 0.2 are our choices",
        place: "arXiv 2402.03300, Eq. 3 and 4",
        ..ENTRY
    },
    Convention {
        words: "Dr. GRPO",
        advantage: "r - mean of the group",
        reduction: "1/(B L), L a constant",
        clip: PPO_CLIP,
        method: "dr_grpo",
        place: "arXiv 2503.20783; understand-r1-zero",
        ..ENTRY
    },
    Convention {
        words: "DAPO",
        advantage: Z_SCORE,
        ddof: Some(0),
        epsilon: Some(0.0),
        reduction: "1/sum T: token mean",
        clip: "PPO, 0.8 to 1.28",
        method: "dapo",
        settings: "std_preset=deepseekmath overlong_limit=20480 overlong_cache=4096",
        differs: "dynamic sampling is the trainer's; ddof is not printed",
        place: "arXiv 2503.14476, Eq. 8 to 13",
        ..ENTRY
    },
    Convention {
        words: "BNPO (Beta normalisation)",
        advantage: "(r - p) / Beta density of p",
        reduction: "1/sum T: token mean",
        clip: PPO_CLIP,
        method: "bnpo_beta",
        differs: "shares its name with TRL's reduction bnpo and nothing else",
        place: "arXiv 2506.02864",
        ..ENTRY
    },
    Convention {
        words: "RLOO",
        advantage: "r - mean of the other responses",
        reduction: "1/B: sum over tokens, mean over responses",
        clip: "none",
        method: "rloo",
        place: "arXiv 2402.14740",
        ..ENTRY
    },
    Convention {
        words: "GSPO",
        advantage: Z_SCORE,
        ddof: Some(0),
        epsilon: Some(0.0),
        reduction: "1/B: mean over responses",
        clip: "PPO on the geometric mean of ratios, 1 - 3e-4 to 1 + 4e-4",
        method: "gspo",
        settings: "std_preset=deepseekmath",
        differs: "ddof is not printed",
        place: "arXiv 2507.18071, Eq. 5 to 7",
        ..ENTRY
    },
    Convention {
        words: "CISPO",
        advantage: Z_SCORE,
        ddof: Some(0),
        epsilon: Some(0.0),
        reduction: "1/sum T: token mean",
        clip: "the ratio, capped and held, weighs log pi",
        method: "cispo",
        settings: "std_preset=deepseekmath",
        differs: "the cap is not printed as a number that holds for all models; 5 is TRL's",
        place: "arXiv 2506.13585 (MiniMax-M1)",
        ..ENTRY
    },
    Convention {
        words: "GRPO-lambda",
        advantage: "max(z-score of the group, -0.1)",
        reduction: "not printed; token mean here",
        clip: "PPO on a decayed product of ratios",
        kl: "k3, beta 0.04",
        method: "grpo_lambda",
        settings: "beta=0.04",
        differs: "what the paper leaves open stands in the README of the paper's report",
        place: "arXiv 2510.00194",
        ..ENTRY
    },
];
