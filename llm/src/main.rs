//! `llm-train`: not built yet; says so and exits with status 1.

use std::process::ExitCode;

fn main() -> ExitCode {
    eprintln!(
        "llm-train: the language-model trainer is not part of this version, so nothing was trained.\n\
         It will run SFT, GRPO-lambda and evaluation on a transformer with the loss code of this crate.\n\
         What works today: `cargo run --bin sim` (the laboratory) and `sim estimate` (check your own trainer's losses)."
    );
    ExitCode::FAILURE
}
