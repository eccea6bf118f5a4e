//! The tables.

use grpo_lambda_stats::table::Table;

use super::measure::{BATCHES, Numbers};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let mut readings = Table::new(&[
        "reading",
        "policy",
        "batches",
        "largest_loss_difference",
        "largest_relative_gradient_difference",
    ]);
    for r in &n.readings {
        for (policy, d) in [("on-policy", r.on_policy), ("off-policy", r.off_policy)] {
            readings.push(vec![
                r.name.into(),
                policy.into(),
                BATCHES.into(),
                d.loss.into(),
                d.gradient.into(),
            ]);
        }
    }
    let mut by_lambda = Table::new(&["lambda", "quantity", "relative_difference_from_grpo"]);
    for at in &n.by_lambda {
        for (name, value) in
            [("GAE with the implied critic", at.implied_critic), ("GRPO-lambda, recent", at.recent)]
        {
            by_lambda.push(vec![at.lambda.into(), name.into(), value.into()]);
        }
    }
    vec![(String::new(), readings), ("by_lambda".into(), by_lambda)]
}
