//! T4, on a fork: a short and a long answer that are chosen equally often.

use grpo_lambda::methods::Method;
use grpo_lambda::trace::{Recent, Trace};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::{Branch, Family, Fork};

use crate::experiments::common::methods::method;

/// Probability of each of the two good branches, so that `V(s_0) = 0.25` with success 0.9 and 0.8.
const GOOD: f64 = 0.25 / 1.7;
/// `A` of the long answer over that of the short one, at success 0.8 and 0.9.
pub(super) const ADVANTAGE_RATIO: f64 = (0.8 - 0.25) / (0.9 - 0.25);
const LAMBDAS: [f64; 13] = [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0];

/// Two branches that are chosen equally often, and a third of length 10 that is never rewarded.
fn fork(lengths: [usize; 2], success: [f64; 2]) -> Fork {
    Fork {
        branches: vec![
            Branch::new("short", lengths[0], success[0], GOOD),
            Branch::new("long", lengths[1], success[1], GOOD),
            Branch::new("astray", 10, 0.0, 1.0 - 2.0 * GOOD),
        ],
    }
}

/// What a method's expected update does at the prompt of a [`fork`]; short answer first.
#[derive(Clone, Copy)]
pub(super) struct Preference {
    /// Implied credits.
    pub(super) credit: [f64; 2],
    /// Steps of the logits.
    pub(super) step: [f64; 2],
    pub(super) q: [f64; 2],
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

    /// Whether the worse answer gains on the better one: the steps of the two logits are in the wrong order. (The branches
    /// are equally likely, so that ∇J orders the logits as Q does.)
    pub(super) fn inverts(&self) -> bool {
        (self.step[0] - self.step[1]) * (self.q[0] - self.q[1]) < 0.0
    }
}

/// The example of the zoo: implied credit `E[(r - V0) c_0(T)]` by the oracle; short answer first.
pub(super) struct OracleCredit {
    pub(super) v0: f64,
    pub(super) q: [f64; 2],
    pub(super) advantage: [f64; 2],
    pub(super) credit: [f64; 2],
}

pub(super) fn oracle_credit() -> anyhow::Result<OracleCredit> {
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

/// A method where the short answer is better, and where the long one is.
pub(super) struct OfMethod {
    pub(super) name: String,
    pub(super) short_better: Preference,
    pub(super) long_better: Preference,
}

pub(super) fn methods() -> anyhow::Result<Vec<OfMethod>> {
    let of = |(name, registered, settings): (String, &str, String)| {
        let method = method(registered, &settings)?;
        let preference = |success| Preference::new(method.as_ref(), [2, 50], success, 8);
        Ok(OfMethod { name, short_better: preference([0.9, 0.8])?, long_better: preference([0.8, 0.9])? })
    };
    variants().into_iter().map(of).collect()
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
pub(super) struct Region {
    pub(super) method: &'static str,
    pub(super) success: [f64; 2],
    pub(super) preference: Preference,
}

/// Who inverts, over an `n` by `n` grid of success probabilities; rows from the top, where the long answer's success is 1.
pub(super) fn regions(n: usize) -> anyhow::Result<Vec<Region>> {
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
                let preference = Preference::new(method.as_ref(), [2, 50], success, 4)?;
                all.push(Region { method: name, success, preference });
            }
        }
    }
    Ok(all)
}

/// The credits of a better short answer and a worse longer one under a recent trace.
pub(super) struct AtLambda {
    pub(super) normalise: &'static str,
    pub(super) len: usize,
    pub(super) lambda: f64,
    pub(super) credit: [f64; 2],
}

impl AtLambda {
    pub(super) fn ratio(&self) -> f64 {
        self.credit[1] / self.credit[0]
    }
}

pub(super) fn by_lambda() -> anyhow::Result<Vec<AtLambda>> {
    let mut all = Vec::new();
    for normalise in ["none", "mean"] {
        for len in [4, 10, 50, 200] {
            for lambda in LAMBDAS {
                let settings = format!(
                    "scale=none clamp=none reduction=response_sum normalise={normalise} lambda={lambda}"
                );
                let method = method("grpo_lambda", &settings)?;
                let credit = Preference::new(method.as_ref(), [2, len], [0.9, 0.8], 4)?.credit;
                all.push(AtLambda { normalise, len, lambda, credit });
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
