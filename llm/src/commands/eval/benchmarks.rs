//! The problems of an evaluation: the named ones, or those that the model's run held out.

use std::path::Path;

use grpo_lambda_decoder::model;

use super::{EvalArgs, on_bad_row};
use crate::commands::Failure;
use grpo_lambda_trainer::eval::benchmark::{self, Benchmark, HELD_OUT};
use grpo_lambda_trainer::eval::origin::Origin;
use grpo_lambda_trainer::eval::settings::Protocol;
use grpo_lambda_trainer::input::task::{Task, TaskSource};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::progress::say;

/// The benchmarks that are asked, in order.
pub(super) fn benchmarks(
    args: &EvalArgs,
    origin: Option<&Origin>,
    checkpoint: &Path,
) -> Result<Vec<Benchmark>, Failure> {
    let names = names(args, origin);
    let limit = args.limit.unwrap_or(usize::MAX);
    let own = match origin {
        Some(origin) if names.iter().any(|name| name == HELD_OUT) => {
            Some(held_out(origin, checkpoint, limit)?)
        }
        _ => None,
    };
    let benchmarks = benchmark::resolve(&names, own.as_ref(), &args.data, limit, on_bad_row(args))
        .map_err(Failure::refused)?;
    for benchmark in benchmarks.iter().filter(|b| b.bad_rows > 0) {
        let (name, rows) = (&benchmark.name, benchmark.bad_rows);
        say(&format!("warning: {name}: {rows} rows cannot be used and are left out"));
    }
    Ok(benchmarks)
}

/// The names given, or those of the protocol, or the problems that the model's run held out.
fn names(args: &EvalArgs, origin: Option<&Origin>) -> Vec<String> {
    if !args.benchmarks.is_empty() {
        return args.benchmarks.clone();
    }
    let [stories, addition] = benchmark::EMBEDDED;
    let default: &[&str] = match (args.protocol, origin.map(|origin| &origin.config.task)) {
        (Protocol::Paper, _) => &benchmark::PAPER,
        (Protocol::Plain, Some(TaskSource::Dataset(_))) => &[HELD_OUT],
        (Protocol::Plain, Some(TaskSource::Embedded(Task::Addition))) => &[addition],
        (Protocol::Plain, _) => &[stories],
    };
    default.iter().map(|name| (*name).to_owned()).collect()
}

fn held_out(origin: &Origin, checkpoint: &Path, limit: usize) -> Result<Benchmark, Failure> {
    let positions = model::ModelConfig::load(checkpoint).map_err(Failure::refused)?.max_position_embeddings;
    let tokens = ModelTokenizer::load(checkpoint).map_err(Failure::refused)?;
    let rows =
        origin.held_out(checkpoint, (&tokens, positions), limit, &mut say).map_err(Failure::refused)?;
    say(&format!(
        "{HELD_OUT}: {} problems of the held-out split of {}, of which training measures the first {} (eval.n)",
        rows.len(),
        origin.run.display(),
        origin.config.eval.n
    ));
    Ok(Benchmark::of_rows(HELD_OUT, rows))
}
