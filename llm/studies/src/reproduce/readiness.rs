//! Weights, data sets and benchmarks that a grid needs, and how to get those that are missing.

use std::path::Path;

use grpo_lambda_decoder::model;

use super::axes::{PaperModel, benchmarks};
use super::grid::Cell;
use super::run::Grid;
use crate::failure::Failure;
use grpo_lambda_trainer::eval::benchmark::{self, BenchmarkError};
use grpo_lambda_trainer::input::data::{self, OnBadRow};

/// Something that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// `weights`, `data set` or `benchmark`.
    pub kind: &'static str,
    pub name: String,
    /// Its place, or the problem with it and how to get it.
    pub state: Result<String, String>,
}

/// Everything that these cells need, in the order in which it is used; the benchmarks' files are looked for in `data`.
/// A grid of toy models needs nothing.
pub fn needs(grid: &Grid, cells: &[Cell], data: &Path) -> Result<Vec<Need>, Failure> {
    let mut found: Vec<Need> = Vec::new();
    let mut add = |need: Need| {
        if !found.iter().any(|other| (other.kind, &other.name) == (need.kind, &need.name)) {
            found.push(need);
        }
    };
    for cell in cells {
        let preset = grid.preset(cell.model)?;
        if let Some(path) = grid.scale.weights(&preset) {
            add(of_weights(cell.model, &path));
        }
        for name in grid.scale.data(&preset, cells, cell.model) {
            add(of_data(name));
        }
    }
    if !found.is_empty() {
        found.extend(benchmarks().iter().map(|b| asked(&b.key, data)));
    }
    Ok(found)
}

/// Refuses a grid that lacks something, before anything long starts.
pub fn check(grid: &Grid, cells: &[Cell], data: &Path) -> Result<(), Failure> {
    let missing = |Need { kind, name, state }: Need| {
        state.err().map(|problem| Failure::refused(format!("{kind} {name}: {problem}")))
    };
    needs(grid, cells, data)?.into_iter().find_map(missing).map_or(Ok(()), Err)
}

/// The weights of a model, which are looked for at `path`.
pub fn of_weights(model: &PaperModel, path: &Path) -> Need {
    Need { kind: "weights", name: model.id.clone(), state: weights(model, path) }
}

/// A data set by its name on the hub.
pub fn of_data(name: String) -> Need {
    let found = data::locate(&name);
    Need {
        kind: "data set",
        name,
        state: found.map(|at| at.root.display().to_string()).map_err(|e| e.to_string()),
    }
}

/// The weights of a model, if those at `path` are of its shape.
fn weights(model: &PaperModel, path: &Path) -> Result<String, String> {
    let shown = path.display();
    if !path.join("config.json").exists() {
        return Err(format!(
            "not in {shown}; hf download {} --local-dir {shown}, or name another directory with model.checkpoint",
            model.id
        ));
    }
    let shape = model::ModelConfig::load(path).map_err(|e| e.to_string())?;
    let expected = model.shape().parameter_shapes();
    if shape.parameter_shapes() != expected {
        let count = |shapes: &[(String, Vec<usize>)]| {
            shapes.iter().map(|(_, s)| s.iter().product::<usize>()).sum::<usize>()
        };
        return Err(format!(
            "{shown} holds another model: {} parameters, {} has {}",
            count(&shape.parameter_shapes()),
            model.id,
            count(&expected)
        ));
    }
    model::weights::inspect(path, &shape).map_err(|e| e.to_string())?;
    Ok(shown.to_string())
}

/// A benchmark, whose file is looked for in this directory.
pub fn asked(name: &str, benchmarks: &Path) -> Need {
    let found = benchmark::resolve(&[name.to_owned()], None, benchmarks, OnBadRow::Refuse);
    let state = match found {
        Ok(all) => Ok(format!("{} problems", all.iter().map(|b| b.items.len()).sum::<usize>())),
        Err(BenchmarkError::Unknown { .. }) => Err(no_benchmark(name, benchmarks)),
        Err(e) => Err(e.to_string()),
    };
    Need { kind: "benchmark", name: name.to_owned(), state }
}

/// The refusal of a benchmark that is no file yet.
pub fn no_benchmark(name: &str, benchmarks: &Path) -> String {
    format!(
        "no {name}.jsonl in {} (--data), nor {name}.json or {name}.parquet; put one of its published files there \
         under that name (docs/reproduce.md lists them), or lines {{\"problem\": \"..\", \"answer\": \"..\"}}",
        benchmarks.display()
    )
}

/// The lines for a terminal; nothing where nothing is needed.
pub fn text(needs: &[Need]) -> String {
    let line = |need: &Need| match &need.state {
        Ok(place) => format!("there: {} {}: {place}\n", need.kind, need.name),
        Err(problem) => format!("{} {}: {problem}\n", need.kind, need.name),
    };
    let missing = needs.iter().filter(|need| need.state.is_err()).count();
    let head = match (needs.len(), missing) {
        (0, _) => return String::new(),
        (_, 0) => "Everything that is needed is there.".to_owned(),
        (all, n) => format!("Of {all} things that are needed {n} are missing:"),
    };
    format!("{head}\n{}\n", needs.iter().map(line).collect::<String>())
}
