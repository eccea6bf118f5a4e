//! The table.

use grpo_lambda_stats::table::{Cell, Table};
use serde::{Deserialize, Serialize};

use super::measure::{Level, Numbers, PARTS};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let columns = [
        "optimiser",
        "rate",
        "rate_over_best_of_grpo",
        "part",
        "seeds",
        "accuracy",
        "gain",
        "gain_low",
        "gain_high",
        "p",
        "p_holm",
        "sampled",
        "ungradable",
        "entropy",
        "kl",
        "grad_norm",
    ];
    let mut table = Table::new(&columns);
    for c in &n.cells {
        for (arm, part) in PARTS.iter().enumerate() {
            let gain = c.gain[arm];
            let level = |level: &Level| {
                let x = level.of[arm];
                if x.is_finite() { Cell::Number(x) } else { Cell::Empty }
            };
            table.push(vec![
                c.optimiser.as_str().into(),
                c.rate.into(),
                c.ratio.into(),
                part.name().into(),
                n.seeds.into(),
                level(&c.accuracy),
                gain.mid.into(),
                gain.low.into(),
                gain.high.into(),
                c.p[arm].into(),
                c.p_holm[arm].into(),
                level(&c.sampled),
                level(&c.ungradable),
                level(&c.entropy),
                level(&c.kl),
                level(&c.grad_norm),
            ]);
        }
    }
    vec![(String::new(), table), ("overall".into(), overall(n))]
}

/// A row of `clamp_parts_overall.csv`: a mean over the learning rates.
#[derive(Serialize, Deserialize)]
pub(crate) struct GainRow {
    pub(crate) optimiser: String,
    pub(crate) gain_of: String,
    pub(crate) gain: f64,
    gain_low: f64,
    gain_high: f64,
    p_holm: f64,
}

fn overall(n: &Numbers) -> Table {
    Table::from_rows(n.overall.iter().flat_map(|o| {
        let names = PARTS[1..].iter().map(|part| part.name()).chain(["both beyond the sum of the parts"]);
        names.zip(&o.gains).map(|(name, gain)| GainRow {
            optimiser: o.optimiser.clone(),
            gain_of: name.to_owned(),
            gain: gain.interval.mid,
            gain_low: gain.interval.low,
            gain_high: gain.interval.high,
            p_holm: gain.p_holm,
        })
    }))
}
