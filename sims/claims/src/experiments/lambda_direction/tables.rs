//! The table.

use grpo_lambda_stats::table::Table;

use super::measure::{Curve, Numbers, REPORTED, STEPS, lambda};
use super::moments::CRITICS;
use crate::experiments::common::vectors::{mean, quantile};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let mut table = Table::new(&[
        "mdp",
        "critic",
        "lambda",
        "bias",
        "relative_bias",
        "variance",
        "variance_p10",
        "variance_p90",
    ]);
    for (critic, curves) in CRITICS.into_iter().zip(&n.curves) {
        let (random, named) = curves.split_at(n.random);
        add_means(&mut table, critic, random);
        for (mdp, curve) in n.named.iter().zip(named) {
            add_named(&mut table, critic, mdp, curve);
        }
    }
    vec![(String::new(), table)]
}

/// Means over the random MDPs.
fn add_means(table: &mut Table, critic: &str, curves: &[Curve]) {
    for i in 0..=STEPS {
        let of = |f: &dyn Fn(&Curve) -> f64| curves.iter().map(f).collect::<Vec<f64>>();
        let variance = of(&|c| c.variance[i]);
        table.push(vec![
            format!("mean of {} random", curves.len()).into(),
            critic.into(),
            lambda(i).into(),
            mean(&of(&|c| c.visible_bias(i))).into(),
            mean(&of(&|c| c.relative_bias(i))).into(),
            mean(&variance).into(),
            quantile(&variance, 0.1).into(),
            quantile(&variance, 0.9).into(),
        ]);
    }
}

fn add_named(table: &mut Table, critic: &str, mdp: &str, curve: &Curve) {
    for i in REPORTED {
        table.push(vec![
            mdp.into(),
            critic.into(),
            lambda(i).into(),
            curve.visible_bias(i).into(),
            curve.relative_bias(i).into(),
            curve.variance[i].into(),
            None.into(),
            None.into(),
        ]);
    }
}
