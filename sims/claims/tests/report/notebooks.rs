//! The notebooks are what a reader sees on the page: executed in order, on the committed data, without a number typed
//! by hand.
//!
//! All but the last test read the files only. That one runs where a Python with `notebooks/requirements.txt` is found
//! (`python3`, or the one that `NOTEBOOK_PYTHON` names) and says so where it is not.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::{close, committed, root};
use grpo_lambda_stats::table::{Cell, Table};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// Larger ones are slow to open where they are rendered.
const LARGEST_FILE: usize = 1_000_000;

fn folder() -> PathBuf {
    root().join("notebooks")
}

struct Notebook {
    name: String,
    bytes: usize,
    json: Value,
}

impl Notebook {
    fn cells(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let cells = self.json["cells"].as_array().unwrap().iter();
        cells.filter(move |c| c["cell_type"] == kind)
    }

    fn outputs(&self) -> impl Iterator<Item = &Value> {
        self.cells("code").flat_map(|c| c["outputs"].as_array().unwrap())
    }
}

fn notebooks() -> Vec<Notebook> {
    let mut all: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "ipynb"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            Notebook {
                name: path.file_name().unwrap().to_string_lossy().into_owned(),
                bytes: text.len(),
                json: serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
            }
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!all.is_empty());
    all
}

/// nbformat keeps texts as a list of lines, or as one string.
fn joined(text: &Value) -> String {
    match text {
        Value::Array(lines) => lines.iter().map(|l| l.as_str().unwrap()).collect(),
        text => text.as_str().unwrap().to_owned(),
    }
}

#[test]
fn the_two_notebooks_are_there() {
    let names: Vec<_> = notebooks().into_iter().map(|n| n.name).collect();
    assert_eq!(names, ["atlas_explorer.ipynb", "theory_tour.ipynb"]);
}

#[test]
fn they_state_their_kernel_and_were_executed_in_order_without_error() {
    for n in notebooks() {
        assert_eq!(n.json["nbformat"], 4, "{}", n.name);
        assert_eq!(n.json["metadata"]["kernelspec"]["name"], "python3", "{}", n.name);
        assert_eq!(n.json["metadata"]["kernelspec"]["language"], "python", "{}", n.name);
        let mut ids = BTreeSet::new();
        for cell in n.json["cells"].as_array().unwrap() {
            let id = cell["id"].as_str().unwrap_or_else(|| panic!("{}: a cell without id", n.name));
            assert!(ids.insert(id), "{}: two cells {id}", n.name);
        }
        for (k, cell) in n.cells("code").enumerate() {
            assert_eq!(cell["execution_count"], k + 1, "{}, cell {}: run ./check.sh", n.name, cell["id"]);
            // Times of execution would change with every run.
            assert!(cell["metadata"].get("execution").is_none(), "{}, cell {}", n.name, cell["id"]);
        }
        for output in n.outputs() {
            let kind = output["output_type"].as_str().unwrap();
            assert!(kind != "error" && output["name"] != "stderr", "{}: {output}", n.name);
        }
    }
}

/// `read` hands out the named columns only, so there is no other way to the data than these.
#[test]
fn they_reach_the_data_through_read_alone_and_nothing_outside_the_repository() {
    let forbidden = [
        "read_csv",
        "open(",
        "Path(",
        "__file__",
        "http",
        "import os",
        "subprocess",
        "../",
        "\"/",
        "'/",
        "~/",
        "!pip",
        "%pip",
    ];
    for n in notebooks() {
        for cell in n.cells("code") {
            let source = joined(&cell["source"]);
            for word in forbidden {
                assert!(!source.contains(word), "{}, cell {}: {word}", n.name, cell["id"]);
            }
        }
        for cell in n.cells("markdown") {
            let text = joined(&cell["source"]);
            for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(l, _)| l) {
                assert!(
                    link.starts_with("https://arxiv.org/") || folder().join(link).exists(),
                    "{}, cell {}: {link} leads nowhere",
                    n.name,
                    cell["id"]
                );
            }
        }
    }
}

#[test]
fn their_figures_are_stored_and_the_files_stay_small() {
    for n in notebooks() {
        assert!(n.bytes < LARGEST_FILE, "{}: {} bytes", n.name, n.bytes);
        let mut figures = 0;
        for cell in n.cells("code") {
            let shown =
                cell["outputs"].as_array().unwrap().iter().filter(|o| o["data"].get("image/png").is_some());
            let shown = shown.inspect(|o| {
                let png = joined(&o["data"]["image/png"]);
                assert!(png.starts_with("iVBORw0KGgo"), "{}, cell {}: no PNG", n.name, cell["id"]);
                let text = joined(&o["data"]["text/plain"]);
                assert!(
                    text.starts_with("Figure: "),
                    "{}, cell {}: a figure without its finding",
                    n.name,
                    cell["id"]
                );
            });
            let shown = shown.count();
            let source = joined(&cell["source"]);
            let asked = source.lines().filter(|l| l.starts_with("look.show(")).count();
            assert!(shown >= asked, "{}, cell {}: {asked} figures, {shown} stored", n.name, cell["id"]);
            figures += shown;
        }
        assert!(figures >= 8, "{}: {figures} figures", n.name);
    }
}

/// A text without its equations and code.
fn prose(text: &str) -> String {
    let without = |text: &str, mark: &str| text.split(mark).step_by(2).collect::<Vec<_>>().join(" ");
    let text = ["```", "$$", "$", "`"].iter().fold(text.to_owned(), |text, mark| without(&text, mark));
    // The address of a link is no prose either.
    text.split("](").map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect()
}

fn typed_numbers(text: &str) -> Vec<String> {
    let words = prose(text).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let measured = |w: &str| {
        let digits: Vec<char> = w.chars().collect();
        w.ends_with('%')
            || digits.windows(3).any(|c| c[0].is_ascii_digit() && c[1] == '.' && c[2].is_ascii_digit())
    };
    words.into_iter().filter(|w| measured(w) && !w.contains("2510.00194")).collect()
}

#[test]
fn no_result_is_typed_into_their_prose() {
    assert_eq!(typed_numbers("gain 0.7 at $q=0.99$ and `0.1`, [x](y/1.2)"), ["0.7"]);
    for n in notebooks() {
        for cell in n.cells("markdown") {
            let found = typed_numbers(&joined(&cell["source"]));
            assert!(found.is_empty(), "{}, cell {}: print it from the data: {found:?}", n.name, cell["id"]);
        }
    }
}

/// The digest of a column in `data.py`: the mean of the finite numbers, the count of different values of a text.
fn summary(table: &Table, column: &str) -> (&'static str, Option<f64>) {
    let at = table.columns.iter().position(|c| c == column).unwrap();
    let cells: Vec<&Cell> = table.rows.iter().map(|row| &row[at]).filter(|c| **c != Cell::Empty).collect();
    // A table reads only finite numbers as such.
    let number =
        |c: &&Cell| c.number().or_else(|| c.format(12).parse().ok().filter(|x: &f64| x.is_infinite()));
    let numbers: Vec<f64> = cells.iter().filter_map(number).collect();
    if numbers.len() == cells.len() {
        let finite: Vec<f64> = numbers.into_iter().filter(|x| x.is_finite()).collect();
        let mean = finite.iter().sum::<f64>() / finite.len() as f64;
        ("mean", (!finite.is_empty()).then_some(mean))
    } else {
        let different: BTreeSet<String> = cells.iter().map(|c| c.format(12)).collect();
        ("different", Some(different.len() as f64))
    }
}

#[test]
fn their_stored_outputs_are_those_of_the_committed_data() {
    for n in notebooks() {
        let noted: Vec<_> = n.outputs().filter_map(|o| o["metadata"].get("data_read")).collect();
        assert_eq!(noted.len(), 1, "{}: end it with sources()", n.name);
        let noted = noted[0].as_object().unwrap();
        assert!(noted.len() >= 5, "{} read {} files", n.name, noted.len());
        for (file, seen) in noted {
            let table = committed(file);
            let stale = |what: &str| {
                format!("{}: the outputs are older than {file} ({what}): notebooks/check.sh", n.name)
            };
            assert_eq!(seen["rows"], table.rows.len(), "{}", stale("rows"));
            for (column, seen) in seen["columns"].as_object().unwrap() {
                assert!(table.columns.contains(column), "{}", stale(column));
                let (kind, now) = summary(&table, column);
                let then = seen.get(kind).unwrap_or_else(|| panic!("{}", stale(column))).as_f64();
                let same = match (then, now) {
                    (Some(a), Some(b)) => close(a, b),
                    (a, b) => a == b,
                };
                assert!(same, "{}: {then:?}, now {now:?}", stale(column));
            }
        }
    }
}

/// A Python that has what `requirements.txt` pins, or why there is none.
fn python() -> Result<String, String> {
    let python = std::env::var("NOTEBOOK_PYTHON").unwrap_or_else(|_| "python3".into());
    let check = "import sys, importlib.metadata as m\n\
        for line in open('requirements.txt'):\n    name, version = line.split('==')\n    assert m.version(name) == \
        version.strip(), f'{name} {m.version(name)} instead of {version.strip()}'";
    let out = Command::new(&python).args(["-c", check]).current_dir(folder()).output();
    match out {
        Err(error) => Err(format!("{python}: {error}")),
        Ok(out) if !out.status.success() => {
            let text = String::from_utf8_lossy(&out.stderr).into_owned();
            Err(format!("{python}: {}", text.lines().last().unwrap_or_default()))
        }
        Ok(_) => Ok(python),
    }
}

#[test]
fn executed_again_they_say_the_same() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => return println!("skipped, no Python with notebooks/requirements.txt: {reason}"),
    };
    let code = "import sys, json, nbformat, nbclient\n\
        n = nbformat.read(sys.argv[1], as_version=4)\n\
        nbclient.NotebookClient(n, timeout=300, record_timing=False, resources={'metadata': {'path': '.'}}).execute()\n\
        print(json.dumps([o['data']['text/plain'] for c in n.cells if c.cell_type == 'code' for o in c.outputs]))";
    for n in notebooks() {
        let mut command = Command::new(&python);
        command.args(["-c", code, &n.name]).current_dir(folder()).env("PYTHONDONTWRITEBYTECODE", "1");
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}: {}", n.name, String::from_utf8_lossy(&out.stderr));
        let fresh: Vec<String> = serde_json::from_slice(&out.stdout).unwrap();
        let stored: Vec<String> = n.outputs().map(|o| joined(&o["data"]["text/plain"])).collect();
        assert_eq!(fresh, stored, "{}", n.name);
    }
}
