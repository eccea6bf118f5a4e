//! The effect of the bound on the expected update of a reading.

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Coupling, Credit, Loss, Method};
use grpo_lambda_mdp::expected::{Situation, enumerated, implied};
use grpo_lambda_mdp::{Oracle, Target, Tree};

use crate::experiments::common::mdp::Mdp;
use crate::experiments::common::methods::method;
use crate::experiments::common::vectors::{cosine, difference, gap, largest, norm};

const GROUP: usize = 4;

/// A reading of the method.
pub(super) struct Reading {
    pub(super) name: &'static str,
    method: &'static str,
    settings: String,
    /// λ of its trace.
    pub(super) lambda: Option<f64>,
    /// True if the weight of a token does not depend on the other tokens of its response.
    pub(super) constant: bool,
}

/// The readings, those without a trace first.
pub(super) fn readings() -> [Reading; 8] {
    let trace = |lambda: f64| format!("lambda={lambda} scale=none clamp=none reduction=response_sum");
    [
        ("RLOO", "rloo", String::new(), None, true),
        ("centred, constant", "dr_grpo", "max_length=1".into(), None, true),
        ("z-score, constant", "grpo", "reduction=response_sum".into(), None, true),
        ("z-score, token mean", "grpo", "reduction=token_mean".into(), None, false),
        ("z-score, 1/T", "grpo", String::new(), None, false),
        ("trace 0.5", "grpo_lambda", trace(0.5), Some(0.5), false),
        ("trace 0.9", "grpo_lambda", trace(0.9), Some(0.9), false),
        ("trace 0.99", "grpo_lambda", trace(0.99), Some(0.99), false),
    ]
    .map(|(name, method, settings, lambda, constant)| Reading {
        name,
        method,
        settings,
        lambda,
        constant,
    })
}

impl Reading {
    fn plain(&self) -> anyhow::Result<Box<dyn Method>> {
        method(self.method, &self.settings)
    }

    fn bounded(&self, mdp: &Mdp) -> anyhow::Result<WithBound> {
        Ok(WithBound::new(self.plain()?, &mdp.oracle()))
    }
}

/// The expected update `g'` with the bound against `g` without, on one MDP.
pub(super) struct Effect {
    /// The largest component of `E[g'] - E[g]`.
    pub(super) change: f64,
    /// `|E[g'] - E[g]| / |E[g]|`.
    pub(super) relative: f64,
    /// The change's cosine with the policy gradient.
    pub(super) cosine: f64,
    /// `tr Cov g' / tr Cov g`.
    pub(super) variance_ratio: f64,
}

impl Effect {
    pub(super) fn new(reading: &Reading, mdp: &Mdp) -> anyhow::Result<Effect> {
        let situation = Situation::on_policy(&mdp.tree, &mdp.policy, GROUP);
        let plain = implied(reading.plain()?.as_ref(), &situation)?;
        let bounded = implied(&reading.bounded(mdp)?, &situation)?;
        let change = difference(&bounded.update, &plain.update);
        Ok(Effect {
            change: largest(change.iter().map(|x| x.abs())),
            relative: norm(&change) / norm(&plain.update),
            cosine: cosine(&change, &mdp.oracle().grad_j()),
            variance_ratio: bounded.total_variance() / plain.total_variance(),
        })
    }
}

/// The largest difference between the expected update with the bound by implied credit and by brute force over all pairs of responses.
pub(super) fn off_enumeration(reading: &Reading, mdp: &Mdp) -> anyhow::Result<f64> {
    let bounded = reading.bounded(mdp)?;
    let situation = Situation::on_policy(&mdp.tree, &mdp.policy, 2);
    let (a, b) = (implied(&bounded, &situation)?, enumerated(&bounded, &situation)?);
    Ok(gap(&a.update, &b.update).max(gap(&a.variance, &b.variance)))
}

/// A registered method that adds the bound to its advantages.
#[derive(Debug)]
struct WithBound {
    inner: Box<dyn Method>,
    tree: Tree,
    /// `1 - Π_{k<t} (1 - π(EOS|s_k))` per prefix.
    bound: Vec<f64>,
}

impl WithBound {
    fn new(inner: Box<dyn Method>, oracle: &Oracle) -> WithBound {
        let bound = oracle.path_products().iter().map(|p| 1.0 - p).collect();
        WithBound { inner, tree: oracle.tree.clone(), bound }
    }

    /// The bound at every token of a response; none for a stand-in without tokens.
    fn along(&self, response: &Response) -> Vec<f64> {
        let mut at = Target::Node(0);
        let step = |&token: &u32| match at {
            Target::Node(node) => {
                at = self.tree.edge(node, token).map_or(at, |e| self.tree.target(e));
                self.bound[node]
            }
            Target::Leaf(_) => unreachable!("a response has no token after its end"),
        };
        response.tokens.iter().map(step).collect()
    }
}

impl Method for WithBound {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let mut credits = self.inner.credit(batch);
        for (credit, response) in credits.iter_mut().zip(batch.iter().flat_map(|g| &g.responses)) {
            for (a, b) in credit.advantages.iter_mut().zip(self.along(response)) {
                *a += b;
            }
        }
        credits
    }
    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
        self.inner.loss_around(response, credit, logps, frozen)
    }
    fn coupling(&self) -> Coupling {
        self.inner.coupling()
    }
}
