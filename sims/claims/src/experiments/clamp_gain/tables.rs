//! The tables.

use grpo_lambda_stats::table::{Cell as Entry, Table};
use serde::{Deserialize, Serialize};

use super::measure::Numbers;
use super::weights::ARMS;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![(String::new(), cells(n)), ("weights".into(), weights(n))]
}

fn cells(n: &Numbers) -> Table {
    let columns = [
        "policy",
        "optimiser",
        "rate_over_best_of_grpo",
        "rate",
        "arm",
        "final_j",
        "gain",
        "gain_low",
        "gain_high",
        "p_of_clamp",
        "p_holm_of_clamp",
    ];
    let mut table = Table::new(&columns);
    for c in &n.cells {
        for (arm, which) in ARMS.iter().enumerate() {
            let gain = c.gain[arm];
            let clamp = arm + 1 == ARMS.len();
            table.push(vec![
                if c.shared { "shared" } else { "table" }.into(),
                c.kind.name().into(),
                c.ratio.into(),
                c.rate.into(),
                which.name.into(),
                c.level[arm].into(),
                gain.mid.into(),
                gain.low.into(),
                gain.high.into(),
                if clamp { c.p.into() } else { Entry::Empty },
                if clamp { c.p_holm.into() } else { Entry::Empty },
            ]);
        }
    }
    table
}

/// A row of `clamp_gain_weights.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct WeightRow {
    pub(crate) success_rate: f64,
    pub(crate) arm: String,
    pub(crate) multiple_of_gradient: f64,
}

fn weights(n: &Numbers) -> Table {
    Table::from_rows(n.weights.iter().flat_map(|(p, weights)| {
        ARMS.iter().zip(weights).map(|(arm, weight)| WeightRow {
            success_rate: *p,
            arm: arm.name.to_owned(),
            multiple_of_gradient: *weight,
        })
    }))
}
