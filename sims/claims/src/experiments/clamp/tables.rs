//! The tables.

use grpo_lambda_stats::table::Table;

use super::measure::Numbers;
use super::prompt::setting;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![("push".into(), sums(n)), (String::new(), prompts(n)), ("direction".into(), directions(n))]
}

fn sums(n: &Numbers) -> Table {
    let mut table = Table::new(&["right_of_8", "clamp", "sum_of_advantages"]);
    for s in &n.sums {
        table.push(vec![s.right.into(), setting(s.clamp).into(), s.sum.into()]);
    }
    table
}

fn prompts(n: &Numbers) -> Table {
    let mut table = Table::new(&[
        "p",
        "group",
        "clamp",
        "weight_by_oracle",
        "weight_by_formula",
        "large_group_limit",
        "signal_to_noise",
    ]);
    for w in &n.prompts {
        table.push(vec![
            w.p.into(),
            w.group.into(),
            setting(w.clamp).into(),
            w.by_oracle.into(),
            w.by_formula.into(),
            w.limit.into(),
            w.signal_to_noise.into(),
        ]);
    }
    table
}

fn directions(n: &Numbers) -> Table {
    let mut table = Table::new(&[
        "mdp",
        "rewards",
        "token_weights",
        "cosine_clamped_unclamped",
        "cosine_grad_j_unclamped",
        "cosine_grad_j_clamped",
    ]);
    for t in &n.effects {
        table.push(vec![
            t.mdp.as_str().into(),
            if t.binary { "binary" } else { "real" }.into(),
            t.weights.into(),
            t.cosine.into(),
            t.unclamped_with_gradient.into(),
            t.clamped_with_gradient.into(),
        ]);
    }
    table
}
