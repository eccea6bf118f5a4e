//! The cells of a table, and the selection of those to run.

use std::fmt;

use grpo_lambda::settings::did_you_mean;

use super::axes::{PaperDataset, PaperModel, Variant, models};

/// The selection of `--table`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableSelection {
    /// Table 1: four models, GRPO and GRPO-lambda, averaged over data sets.
    Averages,
    /// One of Tables 3 to 6: the runs of one model.
    Model(u8),
    /// Tables 3 to 6.
    All,
}

impl TableSelection {
    /// Reads `1`, `3` to `6` or `all`.
    pub fn parse(text: &str) -> Result<TableSelection, String> {
        match text {
            "1" => Ok(TableSelection::Averages),
            "3" | "4" | "5" | "6" => Ok(TableSelection::Model(text.as_bytes()[0] - b'0')),
            "all" => Ok(TableSelection::All),
            "2" => Err("--table 2: Table 2 holds settings, not results; they are the presets paper-*, as in llm-train train --preset paper-qwen-1.5b --print-config".to_owned()),
            _ => Err(format!(
                "--table {text}: must be 1, 3, 4, 5, 6 or all (Tables 3 to 6){}",
                did_you_mean(text, ["1", "3", "4", "5", "6", "all"])
            )),
        }
    }

    /// The tables that are filled.
    pub fn tables(self) -> Vec<u8> {
        match self {
            TableSelection::Averages => vec![1],
            TableSelection::Model(n) => vec![n],
            TableSelection::All => vec![3, 4, 5, 6],
        }
    }
}

impl fmt::Display for TableSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableSelection::Averages => write!(f, "Table 1"),
            TableSelection::Model(n) => write!(f, "Table {n}"),
            TableSelection::All => write!(f, "Tables 3 to 6"),
        }
    }
}

/// A cell: one model trained on one data set by one variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub model: &'static PaperModel,
    pub dataset: &'static PaperDataset,
    pub variant: Variant,
}

impl Cell {
    /// Its directory under the grid's.
    pub fn slug(&self) -> String {
        format!("{}/{}/{}", self.model.slug(), self.dataset.name, self.variant.slug())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.model.name, self.dataset.name, self.variant)
    }
}

/// The variants that a row of Table 1 averages for a model, as the audit reconstructs it: GRPO, or recent/ε-trace with every λ of the model.
pub fn averaged(model: &PaperModel, lambda: bool) -> Vec<Variant> {
    let in_row = |v: &&Variant| match v.lambda() {
        None => !lambda,
        Some(l) => lambda && **v == Variant::recent_trace(l),
    };
    model.variants.iter().filter(in_row).copied().collect()
}

/// Every cell of a selection, in the order of the tables.
pub fn expand(selection: TableSelection) -> Vec<Cell> {
    let mut cells = Vec::new();
    for model in models() {
        let variants = match selection {
            TableSelection::Model(n) if model.table != n => continue,
            TableSelection::Model(_) | TableSelection::All => model.variants.clone(),
            TableSelection::Averages => {
                let in_table_1 = [averaged(model, false), averaged(model, true)].concat();
                model.variants.iter().filter(|v| in_table_1.contains(v)).copied().collect()
            }
        };
        for dataset in model.datasets() {
            cells.extend(variants.iter().map(|variant| Cell { model, dataset, variant: *variant }));
        }
    }
    cells
}

/// The filter of `--only`: keeps cells that match one of the given values for every given key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellFilter(Vec<(&'static str, Vec<String>)>);

const KEYS: [&str; 5] = ["model", "dataset", "style", "update", "lambda"];

/// The value of a cell under a key of `--only`.
fn value(cell: &Cell, key: &str) -> String {
    match key {
        "model" => cell.model.slug(),
        "dataset" => cell.dataset.name.clone(),
        "style" => cell.variant.0.trace_style.name().to_owned(),
        "update" => cell.variant.0.update_style.name().to_owned(),
        _ => cell.variant.lambda().map_or("none".to_owned(), |l| l.to_string()),
    }
}

impl CellFilter {
    /// Reads `key=value,key=value`; a key may stand there several times. Values are those that some of `cells` have.
    pub fn parse(text: &str, cells: &[Cell]) -> Result<CellFilter, String> {
        let mut only = CellFilter::default();
        for word in text.split(',').map(str::trim) {
            let Some((key, wanted)) = word.split_once('=') else {
                return Err(format!(
                    "--only {word}: must be of the form key=value, with key one of {}",
                    KEYS.join(", ")
                ));
            };
            let Some(key) = KEYS.into_iter().find(|k| *k == key) else {
                return Err(format!(
                    "--only {word}: no such key{}; keys: {}",
                    did_you_mean(key, KEYS),
                    KEYS.join(", ")
                ));
            };
            let mut known: Vec<String> = Vec::new();
            for cell in cells {
                let value = value(cell, key);
                if !known.contains(&value) {
                    known.push(value);
                }
            }
            let plain = wanted.to_lowercase();
            let plain = plain.strip_prefix("ε-").or(plain.strip_prefix("eps-")).unwrap_or(&plain);
            if !known.iter().any(|v| v == plain) {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(format!(
                    "--only {word}: the table has no such {key}{}; it has {}",
                    did_you_mean(plain, known.iter().copied()),
                    known.join(", ")
                ));
            }
            match only.0.iter_mut().find(|(k, _)| *k == key) {
                Some((_, values)) => values.push(plain.to_owned()),
                None => only.0.push((key, vec![plain.to_owned()])),
            }
        }
        Ok(only)
    }

    /// True if the cell is kept.
    pub fn keeps(&self, cell: &Cell) -> bool {
        self.0.iter().all(|(key, values)| values.contains(&value(cell, key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(table: &str) -> Vec<Cell> {
        expand(TableSelection::parse(table).expect("a table"))
    }

    #[test]
    fn a_table_has_the_cells_that_are_printed() {
        // Columns times data sets; Table 1: GRPO and recent/ε-trace, with two λ for the small models.
        let counts = ["3", "4", "5", "6", "all", "1"].map(|t| cells(t).len());
        assert_eq!(counts, [36, 36, 12, 8, 92, 4 * (3 + 3 + 2 + 2)]);
        let all = cells("all");
        let mut slugs: Vec<String> = all.iter().map(Cell::slug).collect();
        slugs.sort();
        slugs.dedup();
        assert_eq!(slugs.len(), 92, "every cell has a directory of its own");
        assert!(cells("1").iter().all(|c| all.contains(c)));
    }

    #[test]
    fn only_keeps_what_is_named() {
        let table = cells("3");
        let kept = |text: &str| {
            let only = CellFilter::parse(text, &table).expect("of the table");
            table.iter().filter(|c| only.keeps(c)).count()
        };
        assert_eq!(kept("dataset=gsm8k"), 9);
        assert_eq!(kept("dataset=gsm8k,style=both"), 4);
        assert_eq!(kept("dataset=gsm8k,style=both,style=grpo"), 5);
        assert_eq!(kept("update=ε-trace,lambda=0.98"), 8);
        assert_eq!(kept("model=Qwen-1.5B"), 36);
    }
}
