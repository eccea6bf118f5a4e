//! `sim`: the experiments of grpo-lambda and the tools to check a trainer against it.

mod cli;
#[cfg(test)]
#[path = "../../tests/documented/help.rs"]
mod help;
#[cfg(feature = "claims")]
mod laboratory;

use std::process::ExitCode;

/// Enumeration makes very many small vectors; with this allocator it takes two thirds of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
