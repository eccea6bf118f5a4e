//! Figures 3 to 15 from a grid's directory.

use grpo_lambda_figure::{Figure, Mark};
use grpo_lambda_printed::UpdateStyle;
use grpo_lambda_stats::t_interval;
use grpo_lambda_stats::table::Table;
use grpo_lambda_studies::reproduce::axes::benchmarks;
use grpo_lambda_studies::reproduce::figures::figures;
use grpo_lambda_studies::reproduce::grid::{Cell, Tables};
use grpo_lambda_studies::reproduce::run::{CellScore, CellScores, CellStatus, Count, Grid};
use grpo_lambda_studies::reproduce::scale::Scale;

/// The figures of a grid whose cells trained for 25 steps; the last 20 have an accuracy of `level` or a tenth more, by turns.
fn drawn(
    settings: &[&str],
    cells: &[Cell],
    level: impl Fn(&Cell) -> f64,
    status: impl Fn(&Cell) -> CellStatus,
) -> Vec<(String, Figure)> {
    let directory = tempfile::tempdir().expect("a directory");
    for cell in cells {
        let run = directory.path().join(cell.slug()).join("run");
        std::fs::create_dir_all(&run).expect("writable");
        let row = |step: usize| {
            let accuracy = if step < 5 { 0.0 } else { level(cell) + 0.1 * (step % 2) as f64 };
            format!("{step},rl,{accuracy},{}\n", 0.001 * step as f64)
        };
        let rows: String = (0..25).map(row).collect();
        std::fs::write(run.join("metrics.csv"), format!("step,stage,accuracy,kl\n{rows}")).expect("writable");
    }
    let overrides = settings.iter().map(|word| (*word).to_owned()).collect();
    let grid = Grid { scale: Scale::Tiny, directory: directory.path().to_owned(), overrides };
    let cells: Vec<_> = cells.iter().map(|cell| (*cell, status(cell))).collect();
    figures(&grid, &cells).expect("drawn")
}

fn gsm8k(table: &str) -> Vec<Cell> {
    let cells = Tables::parse(table).expect("a table").cells();
    cells.into_iter().filter(|cell| cell.dataset.name == "gsm8k").collect()
}

fn is_grpo(cell: &Cell) -> bool {
    cell.variant.lam.is_none()
}

/// A cell whose answers are of so many tokens, known to one.
fn done(tokens: f64) -> CellStatus {
    let score = |benchmark: &str| CellScore {
        benchmark: benchmark.to_owned(),
        all: Count { right: 1, n: 2 },
        decontaminated: None,
        tokens: Some([tokens - 1.0, tokens, tokens + 1.0]),
    };
    let scores = benchmarks().iter().map(|b| score(&b.name)).collect();
    CellStatus::Done(CellScores { checkpoint: "x".into(), how: "greedy".into(), scores })
}

#[test]
fn a_grid_without_a_run_has_no_figure() {
    assert!(drawn(&[], &[], |_| 0.5, |_| CellStatus::Missing).is_empty());
}

#[test]
fn bars_are_means_of_the_last_steps_and_are_counted_where_intervals_part() {
    let level = |cell: &Cell| match (cell.variant.lam, cell.variant.update_style) {
        (None, _) => 0.4,
        (_, UpdateStyle::Trace) => 0.7,
        (_, UpdateStyle::Weight | UpdateStyle::Grpo) => 0.1,
    };
    let all = drawn(&[], &gsm8k("3"), level, |_| CellStatus::Partial);
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["variants-qwen-1.5b", "training-qwen-1.5b"], "lengths need scores");
    let (bars, curves) = (&all[0].1, &all[1].1);
    assert!(bars.title.contains("above GRPO in 4 of 8 comparisons and below it in 4"), "{}", bars.title);
    let Mark::Bars { values, intervals, .. } = &bars.panels[0].marks[0] else { panic!("no bars") };
    let grpo: Vec<f64> = (5..25).map(|step| 0.4 + 0.1 * f64::from(step % 2)).collect();
    let expected = t_interval(&grpo, 0.95).expect("20 steps");
    assert!((values[0].1 - expected.mid).abs() < 1e-12 && values.len() == 9, "{values:?}");
    assert!((intervals[0].0 - expected.low).abs() < 1e-12 && (intervals[0].1 - expected.high).abs() < 1e-12);
    // GRPO and the two traces at λ = 0.99, the accuracy above the KL.
    assert_eq!(curves.panels.len(), 2);
    assert_eq!(curves.panels[0].marks.len(), 3);
    assert!(
        curves.title.contains("higher accuracy in 2 of 2 curves, with the higher KL in 0 of 2"),
        "{}",
        curves.title
    );
}

/// The names under which the lengths of a variant are drawn say what the length law predicts, which `sim length_bonus` measured.
#[test]
fn lengths_stand_next_to_the_prediction_of_the_length_law() {
    let series = |settings: &[&str]| {
        let all =
            drawn(settings, &gsm8k("3"), |_| 0.5, |cell| done(if is_grpo(cell) { 100.0 } else { 110.0 }));
        let (name, figure) = all.into_iter().next_back().expect("lengths");
        assert_eq!(name, "lengths-qwen-1.5b");
        let names: Vec<String> = figure.panels[0].marks.iter().map(|mark| mark.name().to_owned()).collect();
        (figure, names)
    };
    let (figure, names) = series(&[]);
    assert_eq!(names, ["GRPO", "GRPO-λ, predicted longer", "GRPO-λ, no prediction"]);
    assert!(figure.title.contains("longer than GRPO's in 5 of 5 comparisons"), "{}", figure.title);
    let Mark::Intervals { points, .. } = &figure.panels[0].marks[1] else { panic!("no intervals") };
    assert_eq!(points[4], (4.0, 109.0, 110.0, 111.0));
    assert_eq!(series(&["method.clamp=none"]).1, ["GRPO", "GRPO-λ, predicted equal"]);
    assert_eq!(series(&["method.reduction=response_mean"]).1, ["GRPO", "GRPO-λ, no prediction"]);
    let law =
        Table::from_csv(include_str!("../../../../paper/data/length_bonus_law.csv")).expect("committed");
    let column = |name: &str| law.column(name).expect("a column");
    let slope = |advantages: &str| {
        let wanted =
            [("reduction", "token_mean".into()), ("lambda", 0.99.into()), ("advantages", advantages.into())];
        let row = law.rows.iter().find(|row| wanted.iter().all(|(name, value)| row[column(name)] == *value));
        row.expect("a row")[column("slope_of_length")].number().expect("a number")
    };
    assert!(slope("z-score clamped at -0.1") > 0.0);
    assert_eq!(slope("z-score"), 0.0);
}
