//! The cells of a table, and the selection of those to run.

use std::fmt;

use grpo_lambda::settings::did_you_mean;
use grpo_lambda_printed::{Column, TraceStyle, UpdateStyle};

use super::axes::{PaperDataset, PaperModel, models};

/// A cell: one model trained on one data set by one variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub model: &'static PaperModel,
    pub dataset: &'static PaperDataset,
    pub variant: Column,
}

impl Cell {
    /// Its directory under the grid's.
    pub fn slug(&self) -> String {
        let Column { trace_style, update_style, lam } = self.variant;
        let variant = match lam {
            None => trace_style.name().to_owned(),
            Some(lambda) => format!("{}-{}-{lambda}", trace_style.name(), update_style.name()),
        };
        format!("{}/{}/{variant}", self.model.slug(), self.dataset.name)
    }

    /// The method, as settings over a preset whose method is GRPO-λ.
    pub fn method(&self) -> Vec<String> {
        let Column { trace_style, update_style, lam } = self.variant;
        let Some(lambda) = lam else { return vec!["method.name=grpo".to_owned()] };
        vec![
            "method.name=grpo_lambda".to_owned(),
            format!("method.style={}", trace_style.name()),
            format!("method.update={}", update_style.name()),
            format!("method.lambda={lambda}"),
        ]
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.model.name, self.dataset.name, self.variant.name())
    }
}

/// The tables of `--table`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables(Vec<usize>);

impl Tables {
    /// Reads `1`, `3` to `6` or `all`.
    pub fn parse(text: &str) -> Result<Tables, String> {
        const NAMES: [&str; 6] = ["1", "3", "4", "5", "6", "all"];
        match text {
            "all" => Ok(Tables(vec![3, 4, 5, 6])),
            "2" => Err("--table 2: Table 2 holds settings, not results; they are the presets paper-*, as in llm-train \
                        train --preset paper-qwen-1.5b --print-config"
                .to_owned()),
            number if NAMES.contains(&number) => Ok(Tables(number.parse().into_iter().collect())),
            other => Err(format!(
                "--table {other}: must be 1, 3, 4, 5, 6 or all (Tables 3 to 6){}",
                did_you_mean(other, NAMES)
            )),
        }
    }

    pub fn numbers(&self) -> &[usize] {
        &self.0
    }

    /// Every cell, in the order of the tables.
    pub fn cells(&self) -> Vec<Cell> {
        let of_model = |model: &'static PaperModel| {
            let all = model.variants().into_iter();
            let variants: Vec<Column> = match self.0.as_slice() {
                [1] => all.filter(|v| averages(*v, false) || averages(*v, true)).collect(),
                numbers if numbers.contains(&model.printed().table()) => all.collect(),
                _others => Vec::new(),
            };
            model.datasets().flat_map(move |dataset| {
                variants.clone().into_iter().map(move |variant| Cell { model, dataset, variant })
            })
        };
        models().iter().flat_map(of_model).collect()
    }
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [first, .., last] => write!(f, "Tables {first} to {last}"),
            [one] => write!(f, "Table {one}"),
            [] => write!(f, "no table"),
        }
    }
}

/// True for a variant that a row of Table 1 averages, as the audit reconstructs it: GRPO, or recent/ε-trace with every
/// λ.
pub fn averages(variant: Column, lambda: bool) -> bool {
    let is_recent_trace =
        (variant.trace_style, variant.update_style) == (TraceStyle::Recent, UpdateStyle::Trace);
    if lambda { is_recent_trace } else { variant == Column::GRPO }
}

/// The filter of `--only`: keeps cells that match one of the given values for every given key.
#[derive(Clone, Debug, Default)]
pub struct CellFilter(Vec<(&'static Key, Vec<String>)>);

/// A key of `--only`, and the value of a cell under it.
type Key = (&'static str, fn(&Cell) -> String);

const KEYS: [Key; 5] = [
    ("model", |cell| cell.model.slug()),
    ("dataset", |cell| cell.dataset.name.clone()),
    ("style", |cell| cell.variant.trace_style.name().to_owned()),
    ("update", |cell| cell.variant.update_style.name().to_owned()),
    ("lambda", |cell| cell.variant.lam.map_or("none".to_owned(), |l| l.to_string())),
];

impl CellFilter {
    /// Reads `key=value,key=value`; a key may stand there several times. Values are those that some of `cells` have.
    pub fn parse(text: &str, cells: &[Cell]) -> Result<CellFilter, String> {
        let mut only = CellFilter::default();
        let names = KEYS.map(|(name, _)| name);
        for word in text.split(',').map(str::trim) {
            let refused = |why: String| format!("--only {word}: {why}");
            let keys = names.join(", ");
            let (name, wanted) = word
                .split_once('=')
                .ok_or_else(|| refused(format!("must be of the form key=value, with key one of {keys}")))?;
            let key = KEYS
                .iter()
                .find(|(k, _)| *k == name)
                .ok_or_else(|| refused(format!("no such key{}; keys: {keys}", did_you_mean(name, names))))?;
            let mut known: Vec<String> = Vec::new();
            for value in cells.iter().map(key.1) {
                if !known.contains(&value) {
                    known.push(value);
                }
            }
            let plain = wanted.to_lowercase();
            let plain = plain.strip_prefix("ε-").or(plain.strip_prefix("eps-")).unwrap_or(&plain);
            if !known.iter().any(|v| v == plain) {
                let hint = did_you_mean(plain, known.iter().map(String::as_str));
                let known = known.join(", ");
                return Err(refused(format!("the table has no such {name}{hint}; it has {known}")));
            }
            match only.0.iter_mut().find(|(k, _)| k.0 == name) {
                Some((_, values)) => values.push(plain.to_owned()),
                None => only.0.push((key, vec![plain.to_owned()])),
            }
        }
        Ok(only)
    }

    /// True if the cell is kept.
    pub fn keeps(&self, cell: &Cell) -> bool {
        self.0.iter().all(|((_, value), values)| values.contains(&value(cell)))
    }
}
