//! A run of experiments: its files, its order, what a failing experiment does to the others.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use grpo_lambda_claims::experiment::{Context, Experiment, Finding, Report, Verdict};
use grpo_lambda_claims::figure::{Figure, Mark, Panel};
use grpo_lambda_claims::run::{Options, run};
use grpo_lambda_stats::table::Table;
use std::fs;
use std::path::Path;

fn finding(statement: &str, verdict: Verdict) -> Finding {
    let key = statement.replace(' ', "_");
    Finding::new(key, statement, verdict).value("largest difference", 1.1e-16).note("in f64")
}

fn report(context: &Context) -> anyhow::Result<Report> {
    (context.progress)(0.5, "half");
    (context.progress)(f64::NAN, "an experiment may get this wrong");
    let mut table = Table::new(&["seed", "value"]);
    table.push(vec![(context.seed as f64).into(), 0.125.into()]);
    Ok(Report {
        findings: vec![
            finding("as printed", Verdict::Fails("0.25 is not 0.5, \"quoted\"".into())),
            finding("corrected", Verdict::HoldsWhen("lambda = 1".into())),
            finding("trivially", Verdict::Holds),
        ],
        tables: vec![(String::new(), table.clone()), ("more".into(), table)],
        figures: vec![("drawn".into(), drawn())],
    })
}

fn drawn() -> Figure {
    let points = Mark::Points { name: "seeds".into(), points: vec![(0.0, 0.0), (1.0, 1.0)] };
    Figure::new("drawn").panel(Panel::new("two points").mark(points))
}

const fn experiment(id: &'static str, run: fn(&Context) -> anyhow::Result<Report>) -> Experiment {
    Experiment { id, title: "", claim: "", source: "", run }
}

static LONG: Experiment = experiment("long", |_| {
    let note = (0..2000).map(|i| format!("n{i}")).collect::<Vec<_>>().join(" ");
    let finding = Finding::new("at_length", "at length", Verdict::Holds).note(note);
    Ok(Report { findings: vec![finding], ..Report::default() })
});
static FIRST: Experiment = experiment("first", report);
static BROKEN: Experiment = experiment("broken", |_| anyhow::bail!("no convergence\nafter 10 steps"));
static PANICS: Experiment = experiment("panics", |_| panic!("an index is off"));
static CLASH: Experiment = experiment("clash", |c| {
    let mut report = report(c)?;
    report.tables.push(("verdicts".into(), Table::new(&["x"])));
    Ok(report)
});
static ESCAPE: Experiment = experiment("escape", |c| {
    let mut report = report(c)?;
    report.figures.push(("../up".into(), Figure::new("up")));
    Ok(report)
});
static LAST: Experiment = experiment("last", report);

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn reports_are_written_and_a_broken_experiment_does_not_stop_the_others() {
    let out = tempfile::tempdir().unwrap();
    let options = Options { out: out.path().to_owned(), seed: 7, full: true };
    let summary = run(&[&FIRST, &BROKEN, &PANICS, &CLASH, &ESCAPE, &LAST], &options).unwrap();

    assert_eq!(summary.failed, ["broken", "panics", "clash", "escape"]);
    let stems = [
        "first.csv",
        "first_more.csv",
        "first_verdicts.csv",
        "last.csv",
        "last_more.csv",
        "last_verdicts.csv",
    ];
    assert_eq!(names(&out.path().join("data")), stems, "a failed experiment writes nothing");
    let pictures = ["first_drawn.png", "first_drawn.svg", "last_drawn.png", "last_drawn.svg"];
    assert_eq!(names(&out.path().join("figures")), pictures);

    let data = fs::read_to_string(out.path().join("data/first.csv")).unwrap();
    assert_eq!(data, "# sim first --seed 7 --full\nseed,value\n7,0.125\n");
    let verdicts = fs::read_to_string(out.path().join("data/first_verdicts.csv")).unwrap();
    let verdicts = Table::from_csv(&verdicts).unwrap();
    assert_eq!(verdicts.columns, ["key", "statement", "verdict", "detail", "values", "rows", "note"]);
    let column = |name: &str| verdicts.column(name).unwrap();
    let words: Vec<_> = verdicts.rows.iter().map(|row| row[column("verdict")].format(4)).collect();
    assert_eq!(words, ["Fails", "Holds when", "Holds"]);
    let first = |name: &str| verdicts.rows[0][column(name)].format(4);
    assert_eq!(first("key"), "as_printed");
    assert_eq!(first("detail"), "0.25 is not 0.5, \"quoted\"");
    assert_eq!(first("values"), r#"{"largest difference":1.1e-16}"#);

    for part in ["first", "as printed", "Fails", "(+2)", "largest difference: 1.1e-16"] {
        assert!(summary.text.contains(part), "{part}: {}", summary.text);
    }
    assert!(!summary.text.contains("corrected"), "only headlines of many experiments: {}", summary.text);
    assert!(summary.text.contains("no convergence\\nafter 10 steps"), "{}", summary.text);
    assert!(summary.text.contains("panicked: an index is off"), "{}", summary.text);
}

#[test]
fn an_experiment_alone_is_shown_in_full_and_among_others_in_brief() {
    let out = tempfile::tempdir().unwrap();
    let options = Options { out: out.path().to_owned(), seed: 7, full: false };
    let alone = run(&[&LONG], &options).unwrap().text;
    assert!(alone.contains("n1999"), "{alone}");
    let among = run(&[&LONG, &FIRST], &options).unwrap().text;
    assert!(among.contains("lambda = 1"), "two experiments show all their findings: {among}");
    assert!(!among.contains("n1999") && among.contains("..") && among.contains("n0 "), "{among}");
}
