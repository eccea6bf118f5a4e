//! The tables.

use grpo_lambda_stats::table::Table;

use super::measure::Numbers;
use super::reuse::{DRIFT_MDP, FORMS};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        (String::new(), points(n)),
        ("off_policy".into(), off_policy(n)),
        ("trust_region".into(), trust_region(n)),
    ]
}

fn points(n: &Numbers) -> Table {
    let mut table = Table::new(&["ratio", "advantage", "form", "loss", "slope"]);
    for p in &n.points {
        for (form, loss) in [("ppo", p.ppo), ("printed", p.printed), ("two_sided", p.two_sided)] {
            table.push(vec![
                p.ratio.into(),
                p.advantage.into(),
                form.into(),
                loss.value.into(),
                loss.slope.into(),
            ]);
        }
    }
    table
}

fn off_policy(n: &Numbers) -> Table {
    let mut table = Table::new(&["mdp", "step", "form", "cosine_with_grad_j", "norm"]);
    for m in &n.off_policy {
        for (f, (form, _)) in FORMS.into_iter().enumerate() {
            table.push(vec![
                m.mdp.into(),
                m.step.into(),
                form.into(),
                m.cosines[f].into(),
                m.norms[f].into(),
            ]);
        }
    }
    table
}

/// Every tenth update.
fn trust_region(n: &Numbers) -> Table {
    let mut table = Table::new(&["mdp", "form", "updates", "kl_from_sampling_policy", "smallest_ratio", "j"]);
    for drift in &n.drifts {
        for (updates, at) in drift.steps.iter().enumerate().step_by(10) {
            table.push(vec![
                DRIFT_MDP.into(),
                drift.form.into(),
                updates.into(),
                at.kl.into(),
                at.ratio.into(),
                at.j.into(),
            ]);
        }
    }
    table
}
