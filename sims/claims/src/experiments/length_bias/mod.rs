//! `length_bias`: what weights that depend on the length of a response do to preferences.
//!
//! ```text
//! T4   lengths vary:     ω(s,a) = E[(r - V0) c_k(T) | s,a]  is not  κ Q(s,a) + const(s)
//! ```
//!
//! What holds at one length, and under `1/T`, is proved in `tests/theory/length_bias.rs`.

mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::method;
use crate::experiments::common::record::Yes;
use grpo_lambda::methods::Method;
use grpo_lambda::trace::{Recent, Trace};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::{Branch, Family, Fork};
use serde::Serialize;
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "length_bias",
    title: "With the trace, does the better of two answers of different lengths still get more credit?",
    claim: "Does a weight that depends on the length of a response keep the better of two answers in front?",
    source: "Our question, on \"drastically improving the credit assignment through rapid value propagation towards \
        earlier tokens\" (section 1)",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

struct Numbers {
    oracle_credit: OracleCredit,
    methods: Vec<OneWay>,
    regions: Vec<Region>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let oracle_credit = oracle_credit()?;
    (context.progress)(0.3, "methods");
    let methods = methods()?;
    (context.progress)(0.5, "regions");
    let regions = regions(if context.full { 21 } else { 13 })?;
    Ok(Numbers { oracle_credit, methods, regions })
}

/// Probability of each of the two good branches, so that `V(s_0) = 0.25` with success 0.9 and 0.8.
const GOOD: f64 = 0.25 / 1.7;

/// A fork (T4): two branches that are chosen equally often, and a third of length 10 that is never rewarded.
fn fork(lengths: [usize; 2], success: [f64; 2]) -> Fork {
    Fork {
        branches: vec![
            Branch::new("short", lengths[0], success[0], GOOD),
            Branch::new("long", lengths[1], success[1], GOOD),
            Branch::new("astray", 10, 0.0, 1.0 - 2.0 * GOOD),
        ],
    }
}

/// A method's expected update at the prompt of a [`fork`]; short answer first.
#[derive(Clone, Copy)]
struct Preference {
    credit: [f64; 2],
    step: [f64; 2],
    q: [f64; 2],
}

impl Preference {
    fn new(
        method: &dyn Method,
        lengths: [usize; 2],
        success: [f64; 2],
        group: usize,
    ) -> anyhow::Result<Preference> {
        let fork = fork(lengths, success);
        let tree = fork.tree()?;
        let policy = fork.initial(&tree);
        let e = implied(method, &Situation::on_policy(&tree, &policy, group))?;
        let q = Oracle::new(&tree, &policy).q;
        Ok(Preference {
            credit: [e.credit[0], e.credit[1]],
            step: [e.update[0], e.update[1]],
            q: [q[0], q[1]],
        })
    }

    /// True if the worse answer gains on the better one: the steps of the two logits are in the wrong order. (The
    /// branches are equally likely, so that ∇J orders the logits as Q does.)
    fn inverts(&self) -> bool {
        (self.step[0] - self.step[1]) * (self.q[0] - self.q[1]) < 0.0
    }
}

/// The example of the zoo: implied credit `E[(r - V0) c_0(T)]` by enumeration; short answer first.
struct OracleCredit {
    v0: f64,
    q: [f64; 2],
    advantage: [f64; 2],
    credit: [f64; 2],
}

fn oracle_credit() -> anyhow::Result<OracleCredit> {
    let family = Fork::default();
    let tree = family.tree()?;
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    let trace = Recent { q: 0.99 };
    let credit = oracle.implied_credit(|leaf, reward, w| {
        let sums = trace.column_sums(tree.leaf_len(leaf));
        w.iter_mut().zip(sums).for_each(|(w, c)| *w = (reward - oracle.j) * c);
    });
    Ok(OracleCredit {
        v0: oracle.j,
        q: [oracle.q[0], oracle.q[1]],
        advantage: [oracle.advantage(0), oracle.advantage(1)],
        credit: [credit[0], credit[1]],
    })
}

/// A method where one of the two answers is better.
#[derive(Default, Serialize)]
struct OneWay {
    method: String,
    better: &'static str,
    credit_short: f64,
    credit_long: f64,
    credit_ratio: f64,
    step_short: f64,
    step_long: f64,
    inverts: Yes,
}

/// Every method, where the short answer is better and where the long one is.
fn methods() -> anyhow::Result<Vec<OneWay>> {
    let mut all = Vec::new();
    for (name, registered, settings) in variants() {
        let method = method(registered, &settings)?;
        for (better, success) in [("short", [0.9, 0.8]), ("long", [0.8, 0.9])] {
            let p = Preference::new(method.as_ref(), [2, 50], success, 8)?;
            all.push(OneWay {
                method: name.clone(),
                better,
                credit_short: p.credit[0],
                credit_long: p.credit[1],
                credit_ratio: p.credit[1] / p.credit[0],
                step_short: p.step[0],
                step_long: p.step[1],
                inverts: Yes(p.inverts()),
            });
        }
    }
    Ok(all)
}

/// The methods of the table: name for a reader, registered name, settings.
fn variants() -> Vec<(String, &'static str, String)> {
    let mut all = Vec::new();
    let plain = "scale=none clamp=none";
    for reduction in ["token_mean", "response_mean", "constant"] {
        all.push((format!("no trace, {reduction}"), "grpo", format!("{plain} reduction={reduction}")));
    }
    for style in ["recent", "both"] {
        for normalise in ["none", "rows", "mean"] {
            for reduction in ["token_mean", "response_mean", "constant"] {
                all.push((
                    format!("{style}, normalise {normalise}, {reduction}"),
                    "grpo_lambda",
                    format!("{plain} style={style} normalise={normalise} reduction={reduction} lambda=0.99"),
                ));
            }
        }
    }
    all.push((
        "recent as in the paper: z-score, clamp -0.1, token_mean".into(),
        "grpo_lambda",
        "lambda=0.99".into(),
    ));
    all.push(("ε-weight as in the paper".into(), "grpo_lambda", "lambda=0.99 update=weight".into()));
    all.push((
        "GAE with constant critic (delta terminal)".into(),
        "grpo_lambda",
        format!("{plain} delta=terminal reduction=constant lambda=0.99"),
    ));
    all
}

/// A method at one pair of success probabilities.
#[derive(Serialize)]
struct Region {
    method: &'static str,
    q_short: f64,
    q_long: f64,
    advantage_difference: f64,
    credit_difference: f64,
    inverts: Yes,
}

/// Every method over an `n` by `n` grid of success probabilities; rows from the top, where the long answer's success is
/// 1.
fn regions(n: usize) -> anyhow::Result<Vec<Region>> {
    let q = |i: usize| i as f64 / (n - 1) as f64;
    let mut all = Vec::new();
    for (name, registered, settings) in [
        ("no trace, 1/T per response", "grpo", "scale=none reduction=response_mean"),
        ("no trace, token mean", "grpo", "scale=none reduction=token_mean"),
        ("recent, token mean", "grpo_lambda", "scale=none clamp=none lambda=0.99"),
        (
            "recent, weights of mean 1, token mean",
            "grpo_lambda",
            "scale=none clamp=none lambda=0.99 normalise=mean",
        ),
    ] {
        let method = method(registered, settings)?;
        for i in 0..n {
            for j in 0..n {
                let success = [q(j), q(n - 1 - i)];
                let p = Preference::new(method.as_ref(), [2, 50], success, 4)?;
                all.push(Region {
                    method: name,
                    q_short: success[0],
                    q_long: success[1],
                    advantage_difference: p.q[0] - p.q[1],
                    credit_difference: p.credit[0] - p.credit[1],
                    inverts: Yes(p.inverts()),
                });
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fork_has_v0_of_a_quarter_and_equally_likely_answers() {
        let family = fork([2, 50], [0.9, 0.8]);
        let tree = family.tree().unwrap();
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        assert!((oracle.j - 0.25).abs() < 1e-15 && (oracle.probs[0] - oracle.probs[1]).abs() < 1e-15);
    }
}
