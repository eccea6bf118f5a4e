//! `llm-train`: supervised learning, RL and evaluation of a language model with the verified methods.

use std::process::ExitCode;

fn main() -> ExitCode {
    grpo_lambda_llm::cli::main()
}
