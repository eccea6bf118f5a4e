//! The recorded variances of baselines on addition: complete, and the page quotes them.

use crate::root;
use grpo_lambda_stats::t_interval;
use grpo_lambda_stats::table::Table;

#[test]
fn the_page_quotes_the_mean_over_seeds_of_every_baseline() {
    let folder = root().join("llm/results");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (runs, page) = (Table::from_csv(&read("baseline_variance.csv")).unwrap(), read("README.md"));
    let text = |row: usize, column: &str| runs.rows[row][runs.column(column).unwrap()].format(12);
    let ratios = |method: &str, weights: &str| -> Vec<f64> {
        let own = |row: &usize| text(*row, "method") == method && text(*row, "weights") == weights;
        let rows = (0..runs.rows.len()).filter(own);
        rows.map(|row| runs.rows[row][runs.column("over_rloo").unwrap()].number().unwrap()).collect()
    };
    assert_eq!(ratios("rloo", "start"), [1.0; 48]);
    let ridges = ["ridge_rloo", "ridge_rloo shrinkage=1", "ridge_rloo shrinkage=16"];
    for method in ["prefix_rloo", "prefix_rloo control=state"].into_iter().chain(ridges) {
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
