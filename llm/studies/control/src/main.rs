//! Controlled experiments on a small transformer: `cargo run --release -p grpo-lambda-control --
//! noise|clamp|baseline FILE SEEDS [key=value ..]`,
//! `rates PROTOCOL FILE`, `chain FILE`, or `quality FILE CHAIN_FILE SEEDS`, which measures the updates of CHAIN's
//! methods on so many of its seeds.
//!
//! The file is written row by row, and the same command goes on where it was stopped. `RAYON_NUM_THREADS` seeds are
//! under way at a time.

use std::path::Path;
use std::process::ExitCode;

use grpo_lambda::advantage::ClampPart;
use grpo_lambda_control::{LabError, baseline, chain, clamp, noise, rates};

const USAGE: &str = "usage: grpo-lambda-control noise|clamp|baseline FILE SEEDS [key=value ..], or rates PROTOCOL FILE, \
    or chain FILE, or quality FILE CHAIN_FILE SEEDS";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (which, file, seeds, overrides) = match words.as_slice() {
        [which, file] if which == "chain" => return ended(chain::run(Path::new(file))),
        [which, file, seeds, overrides @ ..] => (which, Path::new(file), seeds, overrides),
        _ => return refused(USAGE),
    };
    match (which.as_str(), overrides) {
        ("rates", []) => ended(rates::run(file, Path::new(seeds))),
        ("quality", [count]) => match count.parse() {
            Ok(count) => ended(chain::quality(file, Path::new(seeds), count)),
            Err(_) => refused(&format!("SEEDS = {count}: must be a whole number; {USAGE}")),
        },
        ("noise" | "baseline" | "clamp", _) => match seeds.parse() {
            Ok(seeds @ 1..=1000) => ended(experiment(which, file, seeds, overrides)),
            _ => refused(&format!("SEEDS = {seeds}: must be a whole number from 1 to 1000; {USAGE}")),
        },
        _ => refused(USAGE),
    }
}

fn ended(done: Result<(), LabError>) -> ExitCode {
    done.map_or_else(|e| refused(&e.to_string()), |()| ExitCode::SUCCESS)
}

/// The command that is written into the file: without the file's own name, which may change.
fn command(which: &str, seeds: u64, overrides: &[String]) -> String {
    let words = [which, "FILE", &seeds.to_string()];
    words.into_iter().chain(overrides.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}

fn experiment(which: &str, file: &Path, seeds: u64, overrides: &[String]) -> Result<(), LabError> {
    let command = command(which, seeds, overrides);
    match which {
        "noise" => noise::run(file, &command, seeds, overrides),
        "baseline" => baseline::run(file, &command, seeds, overrides),
        _ => {
            let (ratios, parts) = (clamp::RATIOS.to_vec(), ClampPart::ALL.to_vec());
            let grid = clamp::Grid { seeds: 0..seeds, ratios, parts, overrides: overrides.to_vec() };
            clamp::run(file, &command, &grid)
        }
    }
}

fn refused(line: &str) -> ExitCode {
    eprintln!("error: {line}");
    ExitCode::from(2)
}
