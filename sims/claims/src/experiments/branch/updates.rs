//! The noise of the methods' updates at the start, next to what the laboratory predicts of small tasks.

use serde::Deserialize;

use super::{ADDITION, CHAIN, GRPO};
use crate::experiments::common::record::{Record, recorded};
use grpo_lambda_stats::{Interval, t_interval};
use grpo_lambda_trials::Study;

/// The recorded rows of the tasks.
const RECORDED: [(&str, &str); 2] = [
    (ADDITION, include_str!("../../../../../paper/data/branch_addition_updates_runs.csv")),
    (CHAIN, include_str!("../../../../../paper/data/branch_chain_updates_runs.csv")),
];

/// A recorded row: a method's update on a seed.
#[derive(Clone, Debug, Deserialize)]
struct Update {
    seed: u64,
    method: String,
    tokens: f64,
    square: f64,
    mean_square: f64,
}

impl Update {
    /// The noise per sampled token; none where the draws do not show a mean update.
    fn noise(&self) -> Option<f64> {
        (self.mean_square > 0.0).then(|| (self.square - self.mean_square) / self.mean_square * self.tokens)
    }
}

/// The laboratory's noise per token of a method, over RLOO's, on three tasks.
#[derive(Clone, Debug, Deserialize)]
struct Laboratory {
    method: String,
    entry: String,
    chain: f64,
    forking_chain: f64,
    carry_add: Option<f64>,
}

/// The logarithms of a method's noise over GRPO's, by seed.
fn over_grpo(updates: &[Update], method: &str) -> Vec<f64> {
    let noise = |seed: u64, name: &str| {
        updates.iter().find(|row| row.seed == seed && row.method == name).and_then(Update::noise)
    };
    let seeds = updates.iter().filter(|row| row.method == method).map(|row| row.seed);
    seeds.filter_map(|seed| Some((noise(seed, method)? / noise(seed, GRPO)?).ln())).collect()
}

/// The rows of both tasks. All ratios are to GRPO's update: `noise` on the transformer, over the seeds whose draws show the mean update of both
/// methods, and the last three columns in the laboratory.
pub(super) fn updates(study: &Study<toml::Table>) -> anyhow::Result<Vec<Record>> {
    let laboratory: Vec<Laboratory> = study.setup["noise_per_token"].clone().try_into()?;
    let Some(grpo) = laboratory.iter().find(|own| own.method == GRPO) else {
        anyhow::bail!("setup.noise_per_token: lacks {GRPO}; add its row");
    };
    let mut rows = Vec::new();
    for (task, text) in RECORDED {
        let updates: Vec<Update> = recorded(text)?;
        for own in laboratory.iter().filter(|own| own.method != GRPO) {
            let ratios = over_grpo(&updates, &own.method);
            let noise = t_interval(&ratios, study.level).map(|i| {
                let [low, mid, high] = [i.low, i.mid, i.high].map(f64::exp);
                Interval { low, mid, high, ..i }
            });
            let carry_add = own.carry_add.zip(grpo.carry_add).map(|(own, grpo)| own / grpo);
            let row = Record::default().with("task", task).with("method", &*own.method);
            rows.push(
                row.with("laboratory", &*own.entry)
                    .with("seeds", ratios.len())
                    .interval("noise", noise)
                    .with("laboratory_chain", own.chain / grpo.chain)
                    .with("laboratory_forking_chain", own.forking_chain / grpo.forking_chain)
                    .with("laboratory_carry_add", carry_add),
            );
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(seed: u64, method: &str, [square, mean_square, tokens]: [f64; 3]) -> Update {
        Update { seed, method: method.to_owned(), tokens, square, mean_square }
    }

    #[test]
    fn noise_is_compared_on_the_seeds_that_show_both_updates() {
        let rows = [
            update(1, GRPO, [5.0, 1.0, 10.0]),
            update(1, "x", [3.0, 1.0, 10.0]),
            update(2, GRPO, [5.0, 1.0, 10.0]),
            update(2, "x", [9.0, 1.0, 20.0]),
            update(3, GRPO, [5.0, -1.0, 10.0]),
            update(3, "x", [3.0, 1.0, 10.0]),
        ];
        assert_eq!(over_grpo(&rows, "x"), [0.5f64.ln(), 4.0f64.ln()]);
    }
}
