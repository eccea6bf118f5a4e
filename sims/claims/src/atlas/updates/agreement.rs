//! Closed forms of expected updates, tested on every task against the code that fills the atlas.

use grpo_lambda::methods;
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Expected, ExpectedError, Situation, implied, multisets};
use rayon::prelude::*;

use super::row::GROUP;
use crate::training::task::Task;

/// A closed form and how far the expected update is from it.
pub(super) struct Check {
    pub(super) method: &'static str,
    pub(super) statement: &'static str,
    /// Tasks on which it was put to the test.
    pub(super) tasks: usize,
    /// Largest distance on any of them, relative to the closed form's length.
    pub(super) worst: f64,
}

/// Two exact computations of sums of some thousand terms.
pub(super) const EXACT: f64 = 1e-10;
/// The most groups summed for one check.
const TERMS: f64 = 30_000.0;

/// A closed form of a method's expected update in groups of `g`; `None` where it says nothing of the task.
type Form = fn(&Task, &Oracle, usize) -> anyhow::Result<Option<Vec<f64>>>;

/// Method with settings, statement, group size, closed form.
const CHECKS: [(&str, &str, usize, Form); 15] = [
    ("rloo", "E[g] = ∇J", GROUP, |_, o, _| Ok(Some(o.grad_j()))),
    ("dr_grpo max_length=1", "E[g] = (G-1)/G ∇J, over the constant length", GROUP, |_, o, g| {
        Ok(Some(times((g as f64 - 1.0) / g as f64, o.grad_j())))
    }),
    ("grpo reduction=response_sum", "E[g] = w_G(p) ∇J for binary rewards", GROUP, |_, o, g| {
        let binary = o.reward_distribution().iter().all(|&(r, _)| r == 0.0 || r == 1.0);
        Ok(binary.then(|| times(group_weight(o.j, g), o.grad_j())))
    }),
    ("dapo", "on-policy, that of GRPO with a token mean", GROUP, |t, _, g| {
        like("grpo reduction=token_mean", t, g)
    }),
    ("cispo", "on-policy, that of GRPO with a token mean", GROUP, |t, _, g| {
        like("grpo reduction=token_mean", t, g)
    }),
    ("bnpo", "with one group a batch, that of GRPO with a token mean", GROUP, |t, _, g| {
        like("grpo reduction=token_mean", t, g)
    }),
    ("gspo", "on-policy, that of GRPO with 1/T", GROUP, |t, _, g| like("grpo reduction=response_mean", t, g)),
    ("gspo_token", "on-policy, that of GRPO with 1/T", GROUP, |t, _, g| {
        like("grpo reduction=response_mean", t, g)
    }),
    (
        "ppo whiten=false reduction=response_sum",
        "with the exact critic, ∇J at λ = 0.95",
        GROUP,
        |_, o, _| Ok(Some(o.grad_j())),
    ),
    (
        "ppo whiten=false reduction=response_sum lambda=0",
        "with the exact critic, ∇J at λ = 0",
        GROUP,
        |_, o, _| Ok(Some(o.grad_j())),
    ),
    ("vine_ppo reduction=response_sum", "with exact values, ∇J", GROUP, |_, o, _| Ok(Some(o.grad_j()))),
    (
        "tempo scale=none reduction=response_sum",
        "∇J times ((G-1) d + G d - 1 + (1-d)^G) / (G d) per prefix",
        2,
        |_, o, g| Ok(Some(per_prefix(o, |d, n| ((n - 1.0) * d + others(d, n)) / (n * d), g))),
    ),
    ("tempo scale=none reduction=response_sum", "the same in groups of four", 4, |_, o, g| {
        Ok(Some(per_prefix(o, |d, n| ((n - 1.0) * d + others(d, n)) / (n * d), g)))
    }),
    ("spo_tree reduction=response_sum", "∇J times (G d - 1 + (1-d)^G) / (G d) per prefix", 2, |_, o, g| {
        Ok(Some(per_prefix(o, |d, n| others(d, n) / (n * d), g)))
    }),
    (
        "high_entropy entropy_threshold=0.6 scale=none reduction=response_sum",
        "with a threshold on the entropy, (G-1)/G ∇J at the prefixes kept",
        GROUP,
        |_, o, g| {
            let entropies = o.entropies();
            let keep = |(e, x): (usize, f64)| {
                if entropies[o.tree.edge_node(e)] >= 0.6 { x * (g as f64 - 1.0) / g as f64 } else { 0.0 }
            };
            Ok(Some(o.grad_j().into_iter().enumerate().map(keep).collect()))
        },
    ),
];

/// `E (n-1)^+` of the `n` responses of a group of `g` that pass a prefix of visit probability `d`.
fn others(d: f64, g: f64) -> f64 {
    g * d - 1.0 + (1.0 - d).powf(g)
}

fn times(factor: f64, v: Vec<f64>) -> Vec<f64> {
    v.into_iter().map(|x| factor * x).collect()
}

/// The gradient with a factor per prefix, of its visit probability and the group size.
fn per_prefix(oracle: &Oracle, factor: fn(f64, f64) -> f64, g: usize) -> Vec<f64> {
    let scaled = |(e, x)| x * factor(oracle.visit[oracle.tree.edge_node(e)], g as f64);
    oracle.grad_j().into_iter().enumerate().map(scaled).collect()
}

/// `w_G(p) = Σ_k Bin(k; G-1, p) (A(k+1 right, r = 1) - A(k right, r = 0))` of z-scores with Bessel's standard deviation plus 1e-4.
fn group_weight(p: f64, g: usize) -> f64 {
    let n = g as f64;
    let advantage = |right: f64, r: f64| {
        let mean = right / n;
        let std = (right * (1.0 - mean) / (n - 1.0)).sqrt();
        (r - mean) / (std + 1e-4)
    };
    let mut binomial = (1.0 - p).powi(g as i32 - 1);
    let mut weight = 0.0;
    for k in 0..g {
        let right = k as f64;
        weight += binomial * (advantage(right + 1.0, 1.0) - advantage(right, 0.0));
        binomial *= (n - 1.0 - right) / (right + 1.0) * p / (1.0 - p);
    }
    weight
}

fn expected(words: &str, task: &Task, g: usize) -> anyhow::Result<Result<Expected, ExpectedError>> {
    let (name, settings) = words.split_once(' ').unwrap_or((words, ""));
    let method = methods::parse(name, settings)?.method;
    let situation = Situation::on_policy(&task.tree, &task.start, g);
    Ok(implied(method.as_ref(), &situation).or_else(|_| multisets(method.as_ref(), &situation, TERMS)))
}

fn like(words: &str, task: &Task, g: usize) -> anyhow::Result<Option<Vec<f64>>> {
    Ok(expected(words, task, g)?.ok().map(|e| e.update))
}

/// Every check on every task where the sums are feasible.
pub(super) fn checks(tasks: &[Task]) -> anyhow::Result<Vec<Check>> {
    let check = |&(method, statement, g, form): &(&'static str, &'static str, usize, Form)| {
        let mut check = Check { method, statement, tasks: 0, worst: 0.0 };
        for task in tasks {
            let Some(want) = form(task, &Oracle::new(&task.tree, &task.start), g)? else { continue };
            let Ok(found) = expected(method, task, g)? else { continue };
            let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
            let apart = norm(&mut found.update.iter().zip(&want).map(|(a, b)| a - b));
            // A closed form of 0 (nothing kept) is compared as it is.
            let size = norm(&mut want.iter().copied());
            check.tasks += 1;
            check.worst = check.worst.max(if size > 0.0 { apart / size } else { apart });
        }
        Ok(check)
    };
    CHECKS.par_iter().map(check).collect()
}
