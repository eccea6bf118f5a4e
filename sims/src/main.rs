//! `sim`: the experiments of grpo-lambda and the tools to check a trainer against it.

use std::process::ExitCode;

fn main() -> ExitCode {
    grpo_lambda_sims::cli::main()
}
