//! `length_bias`: what weights that depend on the length of a response do to preferences.
//!
//! ```text
//! T3   all responses of length T:   E[(r - V0) Σ_k c_k ∇_k] = Σ_k c_k ∇_(k)J          ∇_(k): logits at depth k
//! T4   lengths vary:                ω(s,a) = E[(r - V0) c_k(T) | s,a]  is not  κ Q(s,a) + const(s)
//! G4   weight 1/T_i:                E[g] = (G-1)/G ( ∇E[r/T] - V0 ∇E[1/T] )
//! ```

mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{Mdp, method, random_mdps};
use crate::experiments::common::record::Yes;
use crate::experiments::common::{at_least_exact, cosine, gap};
use grpo_lambda::methods::Method;
use grpo_lambda::trace::{Recent, RowIndex, Style, Trace};
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::{Branch, Family, Fork, Random};
use grpo_lambda_mdp::{Oracle, Tabular};
use serde::Serialize;
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "length_bias",
    title: "Does the trace keep the order of answers of different lengths?",
    claim: "Does a weight that depends on the length of a response keep the better of two answers in front?",
    source: "ours; the paper: \"drastically improving the credit assignment through rapid value propagation towards \
        earlier tokens\" (section 1)",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

struct Numbers {
    fixed_length: Vec<FixedLength>,
    oracle_credit: OracleCredit,
    methods: Vec<OneWay>,
    regions: Vec<Region>,
    ratios: Vec<Ratio>,
    per_response: Vec<PerResponse>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let fixed_length = fixed_length()?;
    (context.progress)(0.2, "implied credit");
    let oracle_credit = oracle_credit()?;
    (context.progress)(0.3, "methods");
    let methods = methods()?;
    (context.progress)(0.5, "regions");
    let regions = regions(if context.full { 21 } else { 13 })?;
    let ratios = ratios()?;
    (context.progress)(0.9, "1/T");
    let per_response = per_response(context.seed)?;
    Ok(Numbers { fixed_length, oracle_credit, methods, regions, ratios, per_response })
}

const GROUP: usize = 4;
/// MDPs whose responses all have the same length (T3).
const MDPS: [&str; 6] = ["pivot", "lucky_guess", "needle", "deceptive", "noisy", "parity"];
const TRACES: [(Style, &str, f64); 4] = [
    (Style::Recent, "recent", 0.9),
    (Style::Recent, "recent", 0.99),
    (Style::Both, "both", 0.9),
    (Style::Both, "both", 0.99),
];

/// GRPO-lambda's expected update under one trace.
#[derive(Default, Serialize)]
struct FixedLength {
    mdp: &'static str,
    length: usize,
    style: &'static str,
    lambda: f64,
    cosine_with_gradient: f64,
    /// From the policy gradient with each depth rescaled by its column sum.
    largest_difference_below: f64,
}

fn fixed_length() -> anyhow::Result<Vec<FixedLength>> {
    let mut all = Vec::new();
    for name in MDPS {
        let Mdp { tree, .. } = Mdp::named(name)?;
        let len = tree.max_len();
        anyhow::ensure!(tree.leaves().all(|l| tree.leaf_len(l) == len), "{name} has ragged responses");
        // A random policy: at the uniform one some of these have no gradient.
        let policy = Tabular::random(&tree, 1, 0.7);
        let oracle = Oracle::new(&tree, &policy);
        for trace in TRACES {
            all.push(under_trace(name, &oracle, &policy, trace)?);
        }
    }
    Ok(all)
}

fn under_trace(
    mdp: &'static str,
    oracle: &Oracle,
    policy: &Tabular,
    (printed, style, lambda): (Style, &'static str, f64),
) -> anyhow::Result<FixedLength> {
    let tree = oracle.tree;
    let length = tree.max_len();
    let settings = format!("style={style} lambda={lambda} scale=none clamp=none reduction=response_sum");
    let method = method("grpo_lambda", &settings)?;
    let update = implied(method.as_ref(), &Situation::on_policy(tree, policy, GROUP))?.update;
    let weights = RowIndex { q: lambda, floor: 0.0, style: printed }.column_sums(length);
    let gradient = oracle.grad_j();
    let share = (GROUP as f64 - 1.0) / GROUP as f64;
    let weight = |edge| weights[tree.depth(tree.edge_node(edge))];
    let rescaled: Vec<f64> = tree.edges().map(|e| share * weight(e) * gradient[e]).collect();
    Ok(FixedLength {
        mdp,
        length,
        style,
        lambda,
        cosine_with_gradient: cosine(&update, &gradient),
        largest_difference_below: at_least_exact(gap(&update, &rescaled)),
    })
}

/// Probability of each of the two good branches, so that `V(s_0) = 0.25` with success 0.9 and 0.8.
const GOOD: f64 = 0.25 / 1.7;
/// `A` of the long answer over that of the short one, at success 0.8 and 0.9.
const ADVANTAGE_RATIO: f64 = (0.8 - 0.25) / (0.9 - 0.25);
const LAMBDAS: [f64; 13] = [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0];

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

/// The credits of a better short answer and a worse longer one under a recent trace.
#[derive(Serialize)]
struct Ratio {
    normalise: &'static str,
    long_length: usize,
    lambda: f64,
    credit_short: f64,
    credit_long: f64,
    credit_ratio: f64,
    advantage_ratio: f64,
}

fn ratios() -> anyhow::Result<Vec<Ratio>> {
    let mut all = Vec::new();
    for normalise in ["none", "mean"] {
        for long_length in [4, 10, 50, 200] {
            for lambda in LAMBDAS {
                let settings = format!(
                    "scale=none clamp=none reduction=response_sum normalise={normalise} lambda={lambda}"
                );
                let method = method("grpo_lambda", &settings)?;
                let [credit_short, credit_long] =
                    Preference::new(method.as_ref(), [2, long_length], [0.9, 0.8], 4)?.credit;
                all.push(Ratio {
                    normalise,
                    long_length,
                    lambda,
                    credit_short,
                    credit_long,
                    credit_ratio: credit_long / credit_short,
                    advantage_ratio: ADVANTAGE_RATIO,
                });
            }
        }
    }
    Ok(all)
}

/// The expected update of GRPO with 1/T per response (G4).
#[derive(Default, Serialize)]
struct PerResponse {
    mdp: String,
    mean_length: f64,
    cosine_with_gradient: f64,
    largest_difference_to_formula_below: f64,
}

fn per_response(seed: u64) -> anyhow::Result<Vec<PerResponse>> {
    let mut mdps = random_mdps(3, seed, Random { eos: 1.0, ..Random::default() })?;
    mdps.push(Mdp::named("eos_hazard_dependent")?);
    mdps.push(Mdp::named("fork")?);
    mdps.iter().map(on_mdp).collect()
}

fn on_mdp(mdp: &Mdp) -> anyhow::Result<PerResponse> {
    let method = method("grpo", "scale=none reduction=response_mean")?;
    let oracle = mdp.oracle();
    let update = implied(method.as_ref(), &Situation::on_policy(&mdp.tree, &mdp.policy, GROUP))?.update;
    // ∇E[r/T] - V0 ∇E[1/T], each as the policy gradient of an MDP with that reward.
    let gradient = |f: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let credit = oracle.implied_credit(|leaf, _, w| w.fill(f(leaf)));
        oracle.update_of_credit(&credit)
    };
    let rate = gradient(&|leaf| mdp.tree.reward(leaf) / mdp.tree.leaf_len(leaf) as f64);
    let inverse = gradient(&|leaf| 1.0 / mdp.tree.leaf_len(leaf) as f64);
    let share = (GROUP as f64 - 1.0) / GROUP as f64;
    let formula: Vec<f64> = rate.iter().zip(&inverse).map(|(a, b)| share * (a - oracle.j * b)).collect();
    Ok(PerResponse {
        mdp: mdp.name.clone(),
        mean_length: oracle.mean_length(),
        cosine_with_gradient: cosine(&update, &oracle.grad_j()),
        largest_difference_to_formula_below: at_least_exact(gap(&formula, &update)),
    })
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
