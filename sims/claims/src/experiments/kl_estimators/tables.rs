//! The tables.

use grpo_lambda_stats::table::Table;

use super::measure::Numbers;
use crate::experiments::common::vectors::EXACT;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![("hand".into(), hand(n)), ("distance".into(), distance(n)), ("responses".into(), responses(n))]
}

fn hand(n: &Numbers) -> Table {
    let mut table =
        Table::new(&["in the loss", "action_1", "action_2", "action_3", "variance", "cosine_with_reverse"]);
    let without_rounding = |x: f64| if x.abs() < EXACT { 0.0 } else { x };
    for row in &n.hand.rows {
        table.push(vec![
            row.name.into(),
            without_rounding(row.gradient[0]).into(),
            without_rounding(row.gradient[1]).into(),
            without_rounding(row.gradient[2]).into(),
            row.variance.into(),
            row.cosine.into(),
        ]);
    }
    table
}

fn distance(n: &Numbers) -> Table {
    let mut table = Table::new(&[
        "scale",
        "estimator",
        "median_kl",
        "cosine",
        "cosine_p10",
        "cosine_p90",
        "norm_ratio",
        "norm_ratio_p10",
        "norm_ratio_p90",
        "variance_ratio",
    ]);
    for at in &n.states.at_scales {
        let [cosine_p10, cosine, cosine_p90] = [0, 1, 2].map(|i| at.cosine.map(|c| c[i]));
        let [norm_p10, norm, norm_p90] = at.norm_ratio;
        table.push(vec![
            at.scale.into(),
            at.estimator.into(),
            at.median_kl.into(),
            cosine.into(),
            cosine_p10.into(),
            cosine_p90.into(),
            norm.into(),
            norm_p10.into(),
            norm_p90.into(),
            at.variance_ratio.into(),
        ]);
    }
    table
}

fn responses(n: &Numbers) -> Table {
    let mut table = Table::new(&[
        "mdp",
        "estimator",
        "cosine_reverse_kl",
        "cosine_forward_kl",
        "norm_ratio",
        "difference_per_state_below",
    ]);
    for r in &n.responses.rows {
        table.push(vec![
            r.mdp.into(),
            r.estimator.into(),
            r.reverse.into(),
            r.forward.into(),
            r.norm_ratio.into(),
            if r.off < EXACT { EXACT } else { r.off }.into(),
        ]);
    }
    table
}
