//! The table.

use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::{Cell, Table};

use super::measure::Numbers;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let columns = [
        "optimiser",
        "lambda",
        "part",
        "clamp",
        "mean_advantage",
        "seeds",
        "change",
        "change_low",
        "change_high",
        "predicted",
        "beyond",
        "beyond_low",
        "beyond_high",
        "together_low",
        "together_high",
        "grad_norm",
    ];
    let mut table = Table::new(&columns);
    for a in &n.arms {
        let predicted = |of: fn([Interval; 2]) -> f64| Cell::from(a.predicted.map(of));
        table.push(vec![
            a.optimiser.as_str().into(),
            a.lambda.into(),
            a.part.as_str().into(),
            a.clamp.into(),
            a.mean_advantage.into(),
            n.seeds.into(),
            a.change.mid.into(),
            a.change.low.into(),
            a.change.high.into(),
            predicted(|[of_theorem, _]| of_theorem.mid),
            predicted(|[_, beyond]| beyond.mid),
            predicted(|[_, beyond]| beyond.low),
            predicted(|[_, beyond]| beyond.high),
            a.together.low.into(),
            a.together.high.into(),
            a.grad_norm.into(),
        ]);
    }
    vec![(String::new(), table)]
}
