//! Exact expected updates of the forms when a batch is used more than once.

use grpo_lambda_mdp::expected::{Situation, cosine, implied};
use grpo_lambda_mdp::{Oracle, Tabular, Tree, zoo};

use crate::experiments::common::mdp::Mdp;
use crate::experiments::common::methods::method;
use crate::experiments::common::vectors::{gap, largest, norm};

pub(super) const GROUP: usize = 8;
/// Inner updates on one batch of responses in the run that shows the trust region.
pub(super) const UPDATES: usize = 200;

/// A clip form of the registered methods: its name and its settings.
pub(super) const FORMS: [(&str, &str); 4] = [
    ("PPO", "clip=ppo"),
    ("as printed", "clip=printed"),
    ("as printed, A ≥ -0.1", "clip=printed clamp=-0.1"),
    ("no clip", "clip=none"),
];

/// The expected update of GRPO with a clip form, at `current`, from groups sampled by `behaviour`.
fn update(clip: &str, tree: &Tree, behaviour: &Tabular, current: &Tabular) -> anyhow::Result<Vec<f64>> {
    let method = method("grpo", &format!("reduction=response_sum {clip}"))?;
    let situation = Situation { current, ..Situation::on_policy(tree, behaviour, GROUP) };
    Ok(implied(method.as_ref(), &situation)?.update)
}

/// PPO's clip against the printed one, on-policy.
pub(super) struct OnPolicy {
    pub(super) mdps: usize,
    /// The largest difference of the expected updates.
    pub(super) difference: f64,
}

pub(super) fn on_policy() -> anyhow::Result<OnPolicy> {
    let mut found = OnPolicy { mdps: 0, difference: 0.0 };
    for entry in zoo::all() {
        let tree = (entry.build)();
        if entry.name == "random" || tree.leaf_count() > 300 {
            continue;
        }
        let policy = (entry.initial)(&tree);
        let [ppo, printed] = ["clip=ppo", "clip=printed"].map(|clip| update(clip, &tree, &policy, &policy));
        found.difference = found.difference.max(gap(&ppo?, &printed?));
        found.mdps += 1;
    }
    Ok(found)
}

/// The expected updates after the policy has moved along the gradient since sampling.
pub(super) struct AfterStep {
    pub(super) mdp: &'static str,
    /// The change of the largest logit, in nats.
    pub(super) step: f64,
    /// Cosine with `∇J` at the policy that is updated, and norm, one per [`FORMS`].
    pub(super) cosines: [f64; 4],
    pub(super) norms: [f64; 4],
}

impl AfterStep {
    pub(super) fn ppo(&self) -> f64 {
        self.cosines[0]
    }

    pub(super) fn printed(&self) -> f64 {
        self.cosines[1]
    }
}

pub(super) fn off_policy() -> anyhow::Result<Vec<AfterStep>> {
    let mut all = Vec::new();
    for name in ["lucky_guess", "deceptive"] {
        let mdp = Mdp::named(name)?;
        let grad = mdp.oracle().grad_j();
        for i in -30..=30 {
            all.push(moved(name, &mdp, &grad, 0.1 * f64::from(i))?);
        }
    }
    Ok(all)
}

fn moved(name: &'static str, mdp: &Mdp, grad: &[f64], step: f64) -> anyhow::Result<AfterStep> {
    let mut current = mdp.policy.clone();
    current.step(grad, step / largest(grad.iter().map(|g| g.abs())));
    let now = Oracle::new(&mdp.tree, &current).grad_j();
    let mut found = AfterStep { mdp: name, step, cosines: [0.0; 4], norms: [0.0; 4] };
    for (f, (_, clip)) in FORMS.into_iter().enumerate() {
        let expected = update(clip, &mdp.tree, &mdp.policy, &current)?;
        found.cosines[f] = cosine(&expected, &now);
        found.norms[f] = norm(&expected);
    }
    Ok(found)
}

/// The MDP of the run that shows the trust region.
pub(super) const DRIFT_MDP: &str = "noisy";

/// The policies along many updates on the responses of one policy under one form.
pub(super) struct Drift {
    pub(super) form: &'static str,
    /// After `0..=UPDATES` updates.
    pub(super) steps: Vec<Distance>,
}

/// A policy against the one that sampled.
#[derive(Clone, Copy)]
pub(super) struct Distance {
    /// `KL(sampler || policy)` over responses, in nats.
    pub(super) kl: f64,
    /// The smallest token ratio.
    pub(super) ratio: f64,
    /// `J` of the policy.
    pub(super) j: f64,
}

impl Distance {
    fn new(behaviour: &Oracle, current: &Oracle) -> Distance {
        let log_ratio: Vec<f64> =
            current.log_probs.iter().zip(&behaviour.log_probs).map(|(new, old)| new - old).collect();
        let kl = behaviour.tree.edges().map(|e| -behaviour.edge_visit(e) * log_ratio[e]).sum();
        Distance { kl, ratio: log_ratio.iter().fold(0.0f64, |m, x| m.min(*x)).exp(), j: current.j }
    }
}

pub(super) fn drifts() -> anyhow::Result<Vec<Drift>> {
    let mdp = Mdp::named(DRIFT_MDP)?;
    let start = mdp.oracle();
    let drift = |(form, clip)| {
        let mut current = mdp.policy.clone();
        let mut steps = Vec::new();
        for _ in 0..=UPDATES {
            steps.push(Distance::new(&start, &Oracle::new(&mdp.tree, &current)));
            let step = update(clip, &mdp.tree, &mdp.policy, &current)?;
            current.step(&step, 0.2);
        }
        Ok(Drift { form, steps })
    };
    FORMS.into_iter().map(drift).collect()
}
