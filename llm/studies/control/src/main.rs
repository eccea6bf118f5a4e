//! Controlled experiments on a small transformer: `cargo run --release -p grpo-lambda-control -- chain FILE`,
//! `branch PROTOCOL addition|chain FILE`, or `noise PROTOCOL addition|chain FILE SEEDS` and `quality FILE CHAIN_FILE
//! SEEDS`, which measure the updates of a protocol's and of CHAIN's methods on so many seeds.
//!
//! The file is written row by row, and the same command goes on where it was stopped. `RAYON_NUM_THREADS` seeds are
//! under way at a time.

use std::path::Path;
use std::process::ExitCode;

use grpo_lambda_control::{Result, branch, chain};

const USAGE: &str = "usage: grpo-lambda-control chain FILE, or branch PROTOCOL addition|chain FILE, \
                     or noise PROTOCOL addition|chain FILE SEEDS, or quality FILE CHAIN_FILE SEEDS";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["chain", file] => ended(chain::run(Path::new(file))),
        ["branch", protocol, task, file] => match branch::Task::named(task) {
            Some(task) => ended(branch::run(Path::new(protocol), task, Path::new(file))),
            None => refused(&format!("{task}: no task of a protocol; {USAGE}")),
        },
        ["noise", protocol, task, file, count] => match (branch::Task::named(task), count.parse()) {
            (Some(task), Ok(count)) => {
                ended(branch::noise(Path::new(protocol), task, Path::new(file), count))
            }
            (None, _) => refused(&format!("{task}: no task of a protocol; {USAGE}")),
            (_, Err(_)) => refused(&format!("SEEDS = {count}: must be a whole number; {USAGE}")),
        },
        ["quality", file, chain_file, count] => match count.parse() {
            Ok(count) => ended(chain::quality(Path::new(file), Path::new(chain_file), count)),
            Err(_) => refused(&format!("SEEDS = {count}: must be a whole number; {USAGE}")),
        },
        _others => refused(USAGE),
    }
}

fn ended(done: Result<()>) -> ExitCode {
    done.map_or_else(|e| refused(&e.to_string()), |()| ExitCode::SUCCESS)
}

fn refused(line: &str) -> ExitCode {
    eprintln!("error: {line}");
    ExitCode::from(2)
}
