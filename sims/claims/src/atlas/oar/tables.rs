//! The table.

use grpo_lambda_stats::table::{Cell, Table};

use super::measure::{Agreement, Numbers};
use super::rewards::REWARDS;
use super::scores::Score;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let mut table = Table::new(&[
        "task",
        "score",
        "compared_with",
        "rank_correlation",
        "rank_correlation_low",
        "rank_correlation_high",
        "top_agreement",
        "top_agreement_low",
        "top_agreement_high",
        "policies",
    ]);
    let mut push = |task: &str, score: Score, compared_with: &str, a: &Agreement| {
        let words: [Cell; 3] = [task.into(), score.name().into(), compared_with.into()];
        let (c, t) = (a.correlation_interval, a.top_interval);
        let numbers = [a.correlation, c.low, c.high, a.top, t.low, t.high, n.policies as f64].map(Cell::from);
        table.push([words.to_vec(), numbers.to_vec()].concat());
    };
    for (reward, agreements) in REWARDS.iter().zip(&n.credit) {
        for (score, agreement) in Score::ALL.into_iter().zip(agreements) {
            push(reward.name, score, "|A|", agreement);
        }
    }
    for (target, agreements) in Score::EXACT.into_iter().zip(&n.exact) {
        for (score, agreement) in Score::ALL.into_iter().zip(agreements).filter(|(s, _)| *s != target) {
            push("any", score, target.name(), agreement);
        }
    }
    vec![(String::new(), table)]
}
