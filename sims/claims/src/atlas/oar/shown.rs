//! Tables and figures.

use super::measure::{Agreement, LEN, LEVEL, Numbers, REWARDS, SYMBOLS, Score};
use crate::experiments::common::record::{Record, table};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::{Table, significant};

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

const SHOWN: [Score; 4] = [Score::Masked, Score::Gradient, Score::Gain, Score::Position];

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let correlation = |score| significant(n.credit(0, score).correlation, 2);
    let title = format!(
        "OAR's scores hardly order tokens by their credit: where the answer decides, rank correlation with |A| {} by masking and {} by gradient; the exact answer KL reaches {}",
        correlation(Score::Masked),
        correlation(Score::Gradient),
        correlation(Score::Gain)
    );
    let caption = format!(
        "Means over {} random policies with {} % intervals; alphabet of {SYMBOLS}, responses of {LEN} tokens, the last one is the answer",
        n.policies,
        LEVEL * 100.0
    );
    let figure = Figure::new(title).caption(caption).panel(credit(n)).panel(exact(n));
    vec![(String::new(), figure)]
}

fn correlation_axis() -> Axis {
    Axis::new("rank correlation within a response").range(-1.0, 1.0)
}

/// The place of a score beside the others, and its interval.
fn dodged(k: usize, x: usize, a: Agreement) -> (f64, f64, f64, f64) {
    let offset = (k as f64 - (SHOWN.len() as f64 - 1.0) / 2.0) * 0.16;
    (x as f64 + offset, a.correlation_interval.low, a.correlation, a.correlation_interval.high)
}

fn credit(n: &Numbers) -> Panel {
    let mut panel = Panel::new("with the true |A(s_t, a_t)|")
        .x(Axis::new("what is rewarded").categories([
            "answer",
            "answer = first",
            "sum of all",
            "first token",
        ]))
        .y(correlation_axis());
    for (k, score) in SHOWN.into_iter().enumerate() {
        let rewards = 0..REWARDS.len();
        panel = panel.intervals(score.name(), rewards.map(|r| dodged(k, r, n.credit(r, score))));
    }
    panel.hline(0.0, "")
}

fn exact(n: &Numbers) -> Panel {
    let mut panel = Panel::new("with the exact answer KL")
        .x(Axis::new("how the token is made unknown")
            .categories(["marginalised, all others known", "not written yet"]))
        .y(correlation_axis());
    for (k, score) in SHOWN.into_iter().enumerate() {
        let others = Score::EXACT.into_iter().enumerate().filter(|(_, target)| *target != score);
        let points = others.map(|(x, _)| dodged(k, x, n.exact[x][score as usize]));
        panel = panel.intervals(score.name(), points.collect::<Vec<_>>());
    }
    panel.hline(0.0, "")
}
