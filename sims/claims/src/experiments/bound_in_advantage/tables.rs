//! The table.

use grpo_lambda_stats::table::Table;

use super::findings::ROUNDING;
use super::measure::Numbers;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let mut table = Table::new(&[
        "mdp",
        "method",
        "lambda",
        "relative_change",
        "cosine_of_change_with_gradient",
        "variance_ratio",
    ]);
    for of_reading in &n.readings {
        for (mdp, e) in n.mdps.iter().zip(&of_reading.effects) {
            let real = e.relative > ROUNDING;
            table.push(vec![
                mdp.as_str().into(),
                of_reading.reading.name.into(),
                of_reading.reading.lambda.into(),
                if real { e.relative } else { 0.0 }.into(),
                real.then_some(e.cosine).into(),
                e.variance_ratio.into(),
            ]);
        }
    }
    vec![(String::new(), table)]
}
