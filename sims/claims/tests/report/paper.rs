//! The report is complete and true: every claim has its test, data, figure and row, and the committed numbers are those
//! of a fresh run.

use crate::{close, committed, finding, findings, long, root, text};
use grpo_lambda_claims::atlas::{self, updates};
use grpo_lambda_claims::experiment::{CASES, Context, Experiment, Report};
use grpo_lambda_claims::experiments::REGISTRY;
use grpo_lambda_claims::sentences::{NOT_TESTED, SENTENCES, SentenceId};
use grpo_lambda_claims::store::Store;
use grpo_lambda_claims::{report, run};
use grpo_lambda_stats::table::{Cell, Table};
use grpo_lambda_tools::DEFAULT_SEED;
use std::collections::BTreeSet;

/// The numbers of a text, and the text with each of them replaced by `#`.
fn split_numbers(text: &str) -> (String, Vec<f64>) {
    let (mut skeleton, mut numbers, mut rest) = (String::new(), Vec::new(), text);
    while let Some(c) = rest.chars().next() {
        let longest = rest
            .char_indices()
            .map(|(i, c)| i + c.len_utf8())
            .take_while(|end| rest[..*end].chars().all(|c| c.is_ascii_digit() || "+-.e".contains(c)))
            .filter(|end| rest[..*end].ends_with(|c: char| c.is_ascii_digit()))
            .filter_map(|end| rest[..end].parse::<f64>().ok().map(|x| (end, x)))
            .last();
        match longest {
            Some((end, x)) => {
                numbers.push(x);
                skeleton.push('#');
                rest = &rest[end..];
            }
            None => {
                skeleton.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    (skeleton, numbers)
}

fn same_text(a: &str, b: &str) -> bool {
    let ((a, x), (b, y)) = (split_numbers(a), split_numbers(b));
    a == b && x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| close(*x, *y))
}

fn same_cell(a: &Cell, b: &Cell) -> bool {
    match (a, b) {
        (Cell::Number(x), Cell::Number(y)) => close(*x, *y),
        (a, b) => same_text(&a.format(12), &b.format(12)),
    }
}

fn difference(committed: &Table, fresh: &Table) -> Option<String> {
    if committed.columns != fresh.columns {
        return Some(format!("columns {:?} against {:?}", committed.columns, fresh.columns));
    }
    if committed.rows.len() != fresh.rows.len() {
        return Some(format!("{} rows against {}", committed.rows.len(), fresh.rows.len()));
    }
    let cells = committed.rows.iter().zip(&fresh.rows).enumerate();
    cells.flat_map(|(i, (a, b))| a.iter().zip(b).enumerate().map(move |(j, (a, b))| (i, j, a, b))).find_map(
        |(i, j, a, b)| {
            (!same_cell(a, b)).then(|| format!("row {}, {}: {a:?} against {b:?}", i + 1, fresh.columns[j]))
        },
    )
}

#[test]
fn committed_numbers_are_those_of_a_fresh_quick_run() {
    let mut wrong = Vec::new();
    // These two take nine tenths of the whole time.
    let slow = |id: &str| ["learning", "length_bonus"].contains(&id);
    for e in REGISTRY.iter().filter(|e| long::of(!slow(e.id), true)) {
        let context =
            Context { seed: DEFAULT_SEED, full: false, progress: &|_, _| {}, store: &Store::none() };
        let fresh: Report = (e.run)(&context).unwrap_or_else(|error| panic!("{}: {error:#}", e.id));
        let tested: Vec<SentenceId> = fresh.findings.iter().filter_map(|f| f.tests).collect();
        let own = SENTENCES.iter().filter(|s| s.experiment == e.id);
        assert_eq!(tested, own.map(|s| s.id).collect::<Vec<_>>(), "{}", e.id);
        let single_cases = |file: &str| file.ends_with(&format!("_{CASES}.csv"));
        for (file, table) in run::tables(e.id, &fresh).into_iter().filter(|(file, _)| !single_cases(file)) {
            let path = root().join("paper/data").join(&file);
            let committed = std::fs::read_to_string(&path)
                .map_err(|e| e.to_string())
                .and_then(|text| Table::from_csv(&text).map_err(|e| e.to_string()));
            // Through CSV and back, as the committed one went.
            let fresh = Table::from_csv(&table.to_csv("")).expect("own output");
            match committed {
                Ok(committed) => wrong.extend(difference(&committed, &fresh).map(|d| format!("{file}: {d}"))),
                Err(error) => wrong.push(format!("{file}: {error}")),
            }
        }
        for stem in run::figure_stems(e.id, &fresh) {
            if !root().join(format!("paper/figures/{stem}.png")).is_file() {
                wrong.push(format!("{stem}.png: not committed"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "run `cargo run --bin sim -- --regenerate` and commit paper/:\n{}",
        wrong.join("\n")
    );
}

/// Everything that owns files in `paper/`.
fn everything() -> Vec<&'static Experiment> {
    [REGISTRY, atlas::REGISTRY].concat()
}

/// The atlas takes a minute: rows of a few entries on the first tasks stand for it. They are computed as the whole is,
/// with the seeds of their places.
#[test]
fn committed_rows_of_the_atlas_are_those_of_a_fresh_computation() {
    const ENTRIES: [&str; 6] =
        ["GRPO", "RLOO", "GRPO-λ both", "OAR-P", "GAE, noisy critic", "VinePPO, K = 8"];
    let fresh = updates::excerpt(DEFAULT_SEED, 3, &ENTRIES).expect("the atlas");
    let fresh = Table::from_csv(&fresh.to_csv("")).expect("own output");
    let mut known = committed("atlas_updates.csv");
    let (task, method) = (known.column("task").unwrap(), known.column("method").unwrap());
    let key = |row: &[Cell]| (row[task].format(3), row[method].format(3));
    let wanted: Vec<_> = fresh.rows.iter().map(|row| key(row)).collect();
    known.rows.retain(|row| wanted.contains(&key(row)));
    assert_eq!(fresh.rows.len(), 3 * ENTRIES.len());
    let wrong = difference(&known, &fresh);
    assert!(wrong.is_none(), "run `cargo run --bin sim -- atlas --regenerate` and commit paper/: {wrong:?}");
}

#[test]
fn every_experiment_has_its_test_data_figure_and_row() {
    let theory = text("tests/theory/main.rs");
    let ids: Vec<&str> = everything().iter().map(|e| e.id).collect();
    let stems = |folder: &str, ending: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(root().join("paper").join(folder)).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter_map(|n| n.strip_suffix(ending).map(str::to_owned)).collect()
    };
    let (data, png) = (stems("data", ".csv"), stems("figures", ".png"));
    for (registry, page) in [(REGISTRY, "README.md"), (atlas::REGISTRY, atlas::PAGE)] {
        let text = text(&format!("paper/{page}"));
        for id in registry.iter().map(|e| e.id) {
            let owned =
                |set: &BTreeSet<String>| set.iter().filter(|s| report::owner(s, &ids) == Some(id)).count();
            let file = |path: String| root().join(path).is_file();
            let in_theory = theory.contains(&format!("mod {id};")) && file(format!("tests/theory/{id}.rs"));
            // A claim about printed tables has no theory to test; its arithmetic is tested next to its experiment.
            assert!(in_theory || file(format!("sims/claims/tests/report/{id}.rs")), "{id} has no test");
            assert!(data.contains(&format!("{id}_verdicts")) && owned(&data) >= 2, "{id} has no data");
            let is_running =
                ["branch", "pretrained"].contains(&id) && !file(format!("paper/data/{id}_compared.csv"));
            assert!(owned(&png) >= 1 || is_running, "{id} has no figure");
            assert!(text.contains(&format!("| [`{id}`](#{id}) |")), "{id} has no row in paper/{page}");
        }
    }
    for stem in data.iter().chain(&png) {
        let of_cards = stem.starts_with("gpu_").then_some("docs/gpu.md");
        let named = OF_PAGES.iter().find(|(name, _)| name == stem).map(|(_, page)| *page);
        let linked = of_cards.or(named).is_some_and(|page| {
            let linked = |file: String| text(page).contains(&file);
            linked(format!("paper/data/{stem}.csv")) || linked(format!("figures/{stem}.png"))
        });
        assert!(
            linked || report::owner(stem, &ids).is_some(),
            "{stem} in paper/ belongs to no claim and no page"
        );
    }
}

/// Data of pages that are about the code, not about a claim, or that were recorded.
const OF_PAGES: [(&str, &str); 19] = [
    ("atlas_lucky_guess", "paper/atlas.md"),
    ("atlas_lucky_guess_verdicts", "paper/atlas.md"),
    ("atlas_oar", "paper/atlas.md"),
    ("atlas_oar_verdicts", "paper/atlas.md"),
    ("atlas_search", "paper/atlas.md"),
    ("atlas_search_learning", "paper/atlas.md"),
    ("atlas_search_learning_overall", "paper/atlas.md"),
    ("atlas_search_weights", "paper/atlas.md"),
    ("bound_in_advantage", "paper/README.md"),
    ("bound_in_advantage_verdicts", "paper/README.md"),
    ("conformance", "docs/agreement.md"),
    ("faults", "docs/promises.md"),
    ("fuzz", "tests/README.md"),
    ("museum", "docs/museum.md"),
    ("recorded_off_policy", "paper/atlas.md"),
    ("mutants", "docs/museum.md"),
    ("mutants_decoder", "docs/museum.md"),
    ("mutants_grade", "docs/museum.md"),
    ("recorded_verdicts", "paper/atlas.md"),
];

/// Statements about this crate, not about the paper: one that does not hold is a defect here, not a result.
const OF_THIS_CRATE: [(&str, &str); 1] = [("learning", "grid")];

#[test]
fn statements_about_this_crate_hold() {
    for (id, key) in OF_THIS_CRATE {
        assert_eq!(finding(id, key).verdict, "Holds", "{id}: {key}");
    }
}

#[test]
fn generated_blocks_are_up_to_date() {
    let paper = root().join("paper");
    let (claims, maps) =
        (report::blocks(REGISTRY, &paper).unwrap(), report::blocks(atlas::REGISTRY, &paper).unwrap());
    let pages = [
        (paper.join("README.md"), &claims),
        (root().join("README.md"), &claims),
        (root().join("docs/conventions.md"), &claims),
        (root().join("llm/results/README.md"), &claims),
        (paper.join(atlas::PAGE), &maps),
    ];
    for (file, blocks) in pages {
        let text = std::fs::read_to_string(&file).unwrap();
        let fresh = blocks.fill(&text).unwrap();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&file, &fresh).unwrap();
        } else {
            assert_eq!(fresh, text, "{} is stale: run `UPDATE_DOCS=1 cargo test-all`", file.display());
        }
    }
}

#[test]
fn every_experiment_has_one_primary_endpoint_and_the_finding_that_decides_it() {
    let endpoints = grpo_lambda_claims::endpoints::endpoints().unwrap();
    let ids: BTreeSet<&str> = everything().iter().map(|e| e.id).collect();
    assert_eq!(endpoints.keys().map(String::as_str).collect::<BTreeSet<_>>(), ids);
    for (id, endpoint) in endpoints {
        let keys: Vec<String> = findings(id).into_iter().map(|found| found.key).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "{id}: {keys:?}");
        assert!(keys.contains(&endpoint.decided_by), "{id}: {}", endpoint.decided_by);
    }
}

#[test]
fn numbers_in_text_are_compared_as_numbers() {
    assert!(same_text("max 4.4e-16 over 12 cases", "max 0 over 12 cases"));
    assert!(!same_text("gain 1.2 points", "gain 1.3 points"));
    assert!(!same_text("E5 holds", "E5 fails"));
}

#[test]
fn every_sentence_of_the_paper_has_the_finding_that_tests_it() {
    for s in SENTENCES {
        let found = findings(s.experiment).iter().filter(|found| found.statement == s.statement).count();
        assert_eq!(found, 1, "{}: {found} findings test {:?}", s.experiment, s.id);
        assert!(s.words.chars().count() <= 280, "{}: a cell has no room for its place", s.words);
    }
    for s in NOT_TESTED {
        assert!(!s.why.is_empty() && SENTENCES.iter().all(|t| t.words != s.words));
    }
}

/// Runs `typeset.py` with these arguments; `None` without python3.
fn typeset(arguments: &[&str]) -> Option<std::process::Output> {
    let run = std::process::Command::new("python3")
        .args(["-B", "paper/typeset.py"])
        .args(arguments)
        .current_dir(root())
        .output();
    run.map_err(|_| println!("skipped: no python3")).ok()
}

/// The PDF names the hashes of what it was typeset from; nothing is typeset here.
#[test]
fn the_paper_is_typeset_from_the_committed_data() {
    let Some(out) = typeset(&["--check"]) else { return };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(root().join("paper/paper.pdf").is_file());
}

#[test]
fn a_number_typed_into_a_sentence_of_the_paper_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("typed.typ");
    let paper = text("paper/paper.typ");
    let sentence = "= Reproduction\n";
    assert!(paper.contains(sentence));
    for (typed, found) in [
        ("", ""),
        ("It gains 0.37.", "0.37"),
        ("In 7 cases $x = 9$.", "7"),
        ("#text(\"0.5\")", "0.5"),
        ("With $x = 0.04$.", "0.04"),
        ("In #task-count; more.", "`#task-count;` swallows its semicolon"),
        ("In #given[tasks].at(1); more.", "`#given[tasks].at(1);` swallows"),
        ("#emph[#word(task-count);]", "`#word(task-count);` swallows"),
    ] {
        std::fs::write(&path, paper.replace(sentence, &format!("{sentence}{typed}\n"))).unwrap();
        let Some(out) = typeset(&["--typed", path.to_str().unwrap()]) else { return };
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.success(), typed.is_empty(), "{typed}: {said}");
        assert!(said.contains(found), "{typed}: {said}");
    }
    // A setting in a formula of its own, and a semicolon that is printed.
    let allowed = "With $beta = 0.04$ and $p < 0.001$, in #task-count\\; more.";
    std::fs::write(&path, paper.replace(sentence, &format!("{sentence}{allowed}\n"))).unwrap();
    let Some(out) = typeset(&["--typed", path.to_str().unwrap()]) else { return };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
