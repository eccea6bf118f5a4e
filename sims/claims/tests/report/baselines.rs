//! The recorded runs on addition: complete, and the page quotes them.

use crate::root;
use grpo_lambda_stats::t_interval;
use grpo_lambda_stats::table::{Cell, Table};

const RIDGES: [&str; 3] = ["ridge_rloo", "ridge_rloo shrinkage=1", "ridge_rloo shrinkage=16"];

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join("llm/results").join(name)).expect("a recorded file")
}

/// The numbers of a column in the rows whose first columns are these words.
fn numbers(runs: &Table, keys: &[(&str, &str)], column: &str) -> Vec<f64> {
    let place = |name: &str| runs.column(name).expect("a column");
    let is_own = |row: &&Vec<Cell>| keys.iter().all(|(name, value)| row[place(name)].format(12) == *value);
    let rows = runs.rows.iter().filter(is_own);
    rows.map(|row| row[place(column)].number().expect("a number")).collect()
}

#[test]
fn the_page_quotes_the_mean_over_seeds_of_every_baseline() {
    let page = read("README.md");
    let runs = Table::from_csv(&read("baseline_variance.csv")).unwrap();
    let ratios = |method: &str, weights: &str| {
        numbers(&runs, &[("method", method), ("weights", weights)], "over_rloo")
    };
    assert_eq!(ratios("rloo", "start"), [1.0; 48]);
    for method in ["prefix_rloo", "prefix_rloo control=state"].into_iter().chain(RIDGES) {
        let cell = |weights: &str| {
            let all = ratios(method, weights);
            assert_eq!(all.len(), 48, "{method}, {weights}");
            let i = t_interval(&all, 0.995).unwrap();
            format!("{:.3} ({:.3} to {:.3})", i.mid, i.low, i.high)
        };
        let row = format!("| `{method}` | {} | {} |", cell("start"), cell("after RL"));
        assert!(page.contains(&row), "llm/results/README.md lacks\n{row}");
    }
}
