//! What a grid needs before it can begin: weights, data sets, benchmarks; which of it is there, and how to get the rest.

use std::path::Path;

use comfy_table::{Table, presets};
use grpo_lambda_decoder::model;

use super::grid::Cell;
use super::models::PaperModel;
use super::paper::BENCHMARKS;
use super::run::{Grid, GridError};
use crate::eval::benchmark;
use crate::input::data::{self, OnBadRow};

/// Something that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// `weights`, `data set` or `benchmark`.
    pub kind: &'static str,
    pub name: String,
    /// Where it is, or what is wrong with it and how to get it.
    pub state: Result<String, String>,
}

/// Everything that these cells need, in the order in which it is used; `benchmarks` is where their files are looked for. A grid of stand-ins
/// needs nothing.
///
/// # Errors
/// When a preset is refused.
pub fn needs(grid: &Grid, cells: &[Cell], benchmarks: &Path) -> Result<Vec<Need>, GridError> {
    let mut found: Vec<Need> = Vec::new();
    let mut add = |need: Need| {
        if !found.iter().any(|other| (other.kind, &other.name) == (need.kind, &need.name)) {
            found.push(need);
        }
    };
    for cell in cells {
        let preset = grid.preset(&cell.model)?;
        if let Some(path) = grid.scale.weights(&preset) {
            add(Need { kind: "weights", name: cell.model.id.clone(), state: weights(&cell.model, &path) });
        }
        for name in grid.scale.data(&preset, cells, &cell.model) {
            let state =
                data::locate(&name).map(|at| at.root.display().to_string()).map_err(|e| e.to_string());
            add(Need { kind: "data set", name, state });
        }
    }
    if !found.is_empty() {
        found.extend(BENCHMARKS.iter().map(|b| asked(b.key, benchmarks)));
    }
    Ok(found)
}

/// The weights of a model, if those at `path` are of its shape.
fn weights(model: &PaperModel, path: &Path) -> Result<String, String> {
    let shown = path.display();
    if !path.join("config.json").exists() {
        return Err(format!("not in {shown}; hf download {} --local-dir {shown}", model.id));
    }
    let shape = model::ModelConfig::load(path).map_err(|e| e.to_string())?;
    let expected = model.shape.parameter_shapes();
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

fn asked(name: &str, benchmarks: &Path) -> Need {
    let found = benchmark::resolve(&[name.to_owned()], None, benchmarks, usize::MAX, OnBadRow::Refuse);
    let state = match found {
        Ok(all) => Ok(format!("{} problems", all.iter().map(|b| b.items.len()).sum::<usize>())),
        Err(_) if !benchmarks.join(format!("{name}.jsonl")).exists() => Err(format!(
            "no {name}.jsonl in {} (--data); write its problems there, a line {{\"problem\": \"..\", \"answer\": \"..\"}} each",
            benchmarks.display()
        )),
        Err(e) => Err(e.to_string()),
    };
    Need { kind: "benchmark", name: name.to_owned(), state }
}

/// The table for a terminal; nothing where nothing is needed.
pub fn table(needs: &[Need]) -> String {
    if needs.is_empty() {
        return String::new();
    }
    let missing = needs.iter().filter(|need| need.state.is_err()).count();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(["needed", "name", "there?"]);
    for Need { kind, name, state } in needs {
        table.add_row([
            (*kind).to_owned(),
            name.clone(),
            if state.is_ok() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let lines: String = needs
        .iter()
        .filter_map(|need| Some(format!("{} {}: {}\n", need.kind, need.name, need.state.as_ref().err()?)))
        .collect();
    let head = match missing {
        0 => "Everything that is needed is there.".to_owned(),
        n => format!("Of {} things that are needed {n} are missing:", needs.len()),
    };
    format!("{table}\n{head}\n{lines}\n")
}
