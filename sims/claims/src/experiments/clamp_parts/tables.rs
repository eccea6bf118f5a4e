//! The table.

use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::{Cell, Table};

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

/// Means over the learning rates.
fn overall(n: &Numbers) -> Table {
    let mut table = Table::new(&["optimiser", "gain_of", "gain", "gain_low", "gain_high", "p_holm"]);
    for o in &n.overall {
        let names = PARTS[1..].iter().map(|part| part.name()).chain(["both beyond the sum of the parts"]);
        for (name, gain) in names.zip(&o.gains) {
            let Interval { low, mid, high, .. } = gain.interval;
            table.push(vec![
                o.optimiser.as_str().into(),
                name.into(),
                mid.into(),
                low.into(),
                high.into(),
                gain.p_holm.into(),
            ]);
        }
    }
    table
}
