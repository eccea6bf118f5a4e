//! The direction, the noise and the credit of the methods' updates, from the recorded sums.

use super::REFERENCE;
use super::rows::UpdateRow;
use crate::experiments::common::record::recorded;
use crate::experiments::common::{average, distinct};
use grpo_lambda_stats::{Interval, t_interval};
use serde::Deserialize;

pub(super) const RECORDED: &str = include_str!("../../../../../paper/data/chain_6_updates_runs.csv");

/// The places of a run, in its order.
pub(super) const PLACES: [&str; 3] = ["start", "middle", "end"];

/// A recorded row: the squares and products of an arm's update at a place of a seed's run.
#[derive(Clone, Debug, Deserialize)]
struct Row {
    seed: u64,
    place: String,
    arm: String,
    square: f64,
    own_square: f64,
    mean_square: f64,
    along: f64,
    gradient_square: f64,
    credit_before: f64,
    credit_after: f64,
    rank_correlation: Option<f64>,
}

impl Row {
    /// The variance of an update at the scale at which its mean goes as far along the gradient as the gradient itself.
    fn noise(&self) -> f64 {
        (self.square - self.own_square) * self.gradient_square / self.along.powi(2)
    }

    fn cosine(&self) -> f64 {
        self.along / (self.mean_square * self.gradient_square).sqrt()
    }
}

pub(super) fn updates(text: &str) -> anyhow::Result<Vec<UpdateRow>> {
    let rows: Vec<Row> = recorded(text)?;
    let arms = distinct(rows.iter().map(|row| row.arm.clone()));
    let keys = PLACES.iter().flat_map(|place| arms.iter().map(|arm| ((*place).to_owned(), arm.clone())));
    let update = |(place, arm): (String, String)| {
        let at = |name: &str| rows.iter().filter(|r| r.place == place && r.arm == name).collect::<Vec<_>>();
        let (own, of_rloo) = (at(&arm), at(REFERENCE));
        let over = |number: fn(&Row) -> f64| -> Option<Interval> {
            let pair = |row: &&Row| Some(number(row) / number(of_rloo.iter().find(|r| r.seed == row.seed)?));
            // A mean update that is lost in noise has no direction.
            let all: Vec<f64> = own.iter().filter_map(pair).filter(|x| x.is_finite()).collect();
            t_interval(&all, super::LEVEL)
        };
        let mean = |number: fn(&Row) -> f64| average(own.iter().map(|r| number(r)));
        let ranked = own.iter().all(|row| row.rank_correlation.is_some());
        Some(UpdateRow {
            seeds: own.len(),
            noise: over(Row::noise)?,
            cosine: over(Row::cosine)?,
            credit_after_over_before: mean(|r| r.credit_after) / mean(|r| r.credit_before),
            rank_correlation: ranked.then(|| mean(|r| r.rank_correlation.unwrap_or(0.0))),
            place,
            arm,
        })
    };
    Ok(keys.filter_map(update).collect())
}
