//! The problems of an evaluation: the named ones, or those that the model's run held out.

use std::collections::BTreeSet;
use std::path::Path;

use grpo_lambda_decoder::model;

use super::{EvalArgs, on_bad_row};
use crate::commands::{Failure, Result};
use grpo_lambda_studies::reproduce::readiness::no_benchmark;
use grpo_lambda_trainer::eval::benchmark::{self, Benchmark, BenchmarkError, HELD_OUT};
use grpo_lambda_trainer::eval::origin::{Origin, TrainedOn};
use grpo_lambda_trainer::eval::settings::Protocol;
use grpo_lambda_trainer::input::task::{Task, TaskSource};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::progress::say;

/// The problems to ask.
pub(super) struct Questions {
    pub(super) benchmarks: Vec<Benchmark>,
    /// The run whose prompts they are asked with: that of the model, or else that whose held-out problems they are.
    pub(super) origin: Option<Origin>,
    /// Remarks on the problems for a reader of the numbers.
    pub(super) remarks: Vec<String>,
}

/// The problems that are asked, benchmark by benchmark; those that the model was trained on are left out unless asked for.
pub(super) fn questions(args: &EvalArgs, origin: Option<Origin>, checkpoint: &Path) -> Result<Questions> {
    let mut names = names(args, origin.as_ref());
    let limit = args.limit.unwrap_or(usize::MAX);
    let mut of_run = None;
    for name in names.iter_mut().filter(|name| *name != HELD_OUT) {
        let Some(run) = name.strip_suffix(OF_A_RUN) else { continue };
        of_run = Some(run_of(Path::new(run))?);
        HELD_OUT.clone_into(name);
    }
    let own = match of_run.as_ref().or(origin.as_ref()) {
        Some(of) if names.iter().any(|name| name == HELD_OUT) => {
            let at = if of_run.is_some() { super::checkpoint(&of.run)? } else { checkpoint.to_owned() };
            // Of another run's problems those are left out first that this model was trained on.
            Some(held_out(of, &at, if of_run.is_some() { usize::MAX } else { limit })?)
        }
        _ => None,
    };
    let resolved = benchmark::resolve(&names, own.as_ref(), &args.data, on_bad_row(args));
    let mut benchmarks = resolved.map_err(|error| match error {
        BenchmarkError::Unknown { name, data, .. } if benchmark::PAPER.contains(&name.as_str()) => {
            Failure::refused(no_benchmark(&name, &data))
        }
        error => Failure::refused(error),
    })?;
    for benchmark in benchmarks.iter().filter(|b| b.bad_rows > 0) {
        let (name, rows) = (&benchmark.name, benchmark.bad_rows);
        say(&format!("warning: {name}: {rows} rows cannot be used and are left out"));
    }
    let remarks = trained_on(args, checkpoint, &mut benchmarks)?;
    remarks.iter().for_each(|remark| say(&format!("warning: {remark}")));
    benchmarks.iter_mut().for_each(|b| b.items.truncate(limit));
    Ok(Questions { benchmarks, origin: origin.or(of_run), remarks })
}

/// The end of the name of the problems that a run held out.
const OF_A_RUN: &str = ":held-out";

fn run_of(run: &Path) -> Result<Origin> {
    let none = || {
        let run = run.display();
        Failure::refused(format!(
            "--benchmarks {run}{OF_A_RUN}: {run} is no run of llm-train; name its directory, which has a config.toml"
        ))
    };
    Origin::find(run).map_err(Failure::refused)?.ok_or_else(none)
}

/// Leaves out the problems that the model was trained on, and says so.
fn trained_on(args: &EvalArgs, checkpoint: &Path, benchmarks: &mut [Benchmark]) -> Result<Vec<String>> {
    if benchmarks.iter().all(|b| b.embedded) {
        return Ok(Vec::new());
    }
    let positions = model::ModelConfig::load(checkpoint).map_err(Failure::refused)?.max_position_embeddings;
    let trained = match TrainedOn::find(&args.model.model, checkpoint, positions) {
        Ok(trained) => trained,
        Err(e) => {
            return Ok(vec![format!("which problems the model was trained on cannot be determined: {e}")]);
        }
    };
    let runs: Vec<String> =
        trained.runs.iter().map(|(run, data)| format!("{} (task.data = {data})", run.display())).collect();
    let mut remarks = Vec::new();
    for benchmark in benchmarks.iter_mut().filter(|b| !b.embedded) {
        let (name, all) = (benchmark.name.clone(), benchmark.items.len());
        let met = benchmark.items.iter().filter(|item| trained.contains(&item.problem));
        let ids: BTreeSet<String> = met.map(|item| item.id.clone()).collect();
        let met = ids.len();
        benchmark.trained = Some(ids);
        let said = format!("{name}: {met} of {all} problems were trained on in {}", runs.join(" and "));
        match met {
            0 => {}
            _ if args.with_trained => {
                remarks.push(format!("{said}, so the accuracy says how well they are remembered"));
            }
            _ if met == all => {
                return Err(Failure::refused(format!(
                    "{said}; ask those that it held out (--benchmarks {HELD_OUT}), or these all the same with --with-trained"
                )));
            }
            _ => {
                benchmark.items.retain(|item| !trained.contains(&item.problem));
                remarks.push(format!("{said} and are left out; --with-trained asks them too"));
            }
        }
    }
    Ok(remarks)
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

fn held_out(origin: &Origin, checkpoint: &Path, limit: usize) -> Result<Benchmark> {
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
