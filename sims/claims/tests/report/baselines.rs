//! The recorded runs on addition: complete, and the page quotes them.

use crate::root;
use grpo_lambda_stats::table::{Cell, Table};
use grpo_lambda_stats::{OverTasks, mean, t_interval};

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
    let systematic = ["systematic_rloo", "systematic_prefix_rloo"];
    for (file, further) in [("baseline_variance.csv", &[][..]), ("systematic_variance.csv", &systematic[..])]
    {
        let runs = Table::from_csv(&read(file)).unwrap();
        let ratios = |method: &str, weights: &str| {
            numbers(&runs, &[("method", method), ("weights", weights)], "over_rloo")
        };
        assert_eq!(ratios("rloo", "start"), [1.0; 48]);
        let prefix = ["prefix_rloo", "prefix_rloo control=state"];
        for method in prefix.into_iter().chain(RIDGES).chain(further.iter().copied()) {
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
}

#[test]
fn the_page_quotes_what_systematic_groups_learn() {
    let page = read("README.md");
    let runs = Table::from_csv(&read("systematic.csv")).unwrap();
    let learning = |method: &str| -> Vec<f64> {
        let of_seed = |seed: i32| {
            let own = numbers(&runs, &[("arm", method), ("seed", &seed.to_string())], "learning");
            assert_eq!(own.len(), 1, "{method}, seed {seed}: one rate was chosen");
            own[0]
        };
        (200..212).map(of_seed).collect()
    };
    let first = learning("rloo");
    let row = format!("| `rloo` | {:.3} | |", mean(&first).unwrap());
    assert!(page.contains(&row), "llm/results/README.md lacks\n{row}");
    for method in ["systematic_rloo", "systematic_prefix_rloo"] {
        let own = learning(method);
        let differences: Vec<f64> = own.iter().zip(&first).map(|(a, b)| a - b).collect();
        let (i, p) = (t_interval(&differences, 0.975).unwrap(), OverTasks::new(&differences).unwrap().p);
        let own = mean(&own).unwrap();
        let row = format!(
            "| `{method}` | {own:.3} | {:+.3} ({:+.3} to {:+.3}), p = {p:.4} |",
            i.mid, i.low, i.high
        );
        assert!(page.contains(&row), "llm/results/README.md lacks\n{row}");
    }
}
