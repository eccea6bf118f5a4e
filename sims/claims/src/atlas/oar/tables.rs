use grpo_lambda_stats::table::Table;

use super::measure::{Agreement, Numbers};
use super::scores::REWARDS;
use super::scores::Score;
use crate::experiments::common::record::{Record, table};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let record = |task: &str, score: Score, compared_with: &str, a: &Agreement| {
        Record::default()
            .with("task", task)
            .with("score", score.name())
            .with("compared_with", compared_with)
            .with("rank_correlation", a.correlation)
            .bounds("rank_correlation", a.correlation_interval)
            .with("top_agreement", a.top)
            .bounds("top_agreement", a.top_interval)
            .with("policies", n.policies)
    };
    let credit = REWARDS.iter().zip(&n.credit).flat_map(|(reward, agreements)| {
        Score::ALL.into_iter().zip(agreements).map(move |(score, a)| (reward.name, score, "|A|", a))
    });
    let exact = Score::EXACT.into_iter().zip(&n.exact).flat_map(|(target, agreements)| {
        let others = Score::ALL.into_iter().zip(agreements).filter(move |(score, _)| *score != target);
        others.map(move |(score, a)| ("any", score, target.name(), a))
    });
    let rows = credit.chain(exact).map(|(task, score, with, a)| record(task, score, with, a));
    vec![(String::new(), table(rows))]
}
