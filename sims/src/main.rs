//! `sim`: the experiments of grpo-lambda and the tools to check a trainer against it.

use std::process::ExitCode;

/// Enumeration makes very many small vectors; with this allocator it takes two thirds of the time.
#[cfg(not(target_family = "wasm"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    grpo_lambda_sims::cli::main()
}
