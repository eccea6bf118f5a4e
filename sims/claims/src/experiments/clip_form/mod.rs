//! `clip_form`: PPO's clip, the one Algorithms 1 and 2 print, and the two-sided one.

mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{Mdp, method};
use crate::experiments::common::{gap, largest, norm};
use grpo_lambda::surrogate::{Surrogate, ValueAndSlope};
use grpo_lambda_mdp::expected::{Situation, cosine, implied};
use grpo_lambda_mdp::{Oracle, Tabular, Tree, zoo};
use serde::Serialize;
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clip_form",
    title: "Is the clip printed in Algorithms 1 and 2 that of PPO?",
    claim: "Main text: \"ℓ_π = min(π^GAE_ratio(s_t) δ_t, clip(π^GAE_ratio(s_t), 1-ϵ, 1+ϵ) δ_t)\"; Algorithm 1: \
        \"coef_2 ← clamp(coef_1, \
        1±ϵ_clip)\", \"ℓ ← -min(coef_1, coef_2) δ\"",
    source: "GRPO-λ, Section 3 against Algorithms 1 and 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

struct Numbers {
    /// Row by row of the map, advantages from the top.
    points: Vec<Point>,
    /// At ratios 0.5 and 1.5 and advantage -1.
    examples: [Point; 2],
    on_policy: OnPolicy,
    off_policy: Vec<AfterStep>,
    /// After `0..=UPDATES` updates under every form.
    distances: Vec<Distance>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    (context.progress)(0.2, "on-policy");
    let (on_policy, off_policy) = (on_policy()?, off_policy()?);
    (context.progress)(0.6, "inner updates");
    Ok(Numbers {
        points: Point::grid(),
        examples: Point::examples(),
        on_policy,
        off_policy,
        distances: distances()?,
    })
}

const EPSILON: f64 = 0.2;
const CAP: f64 = 1.6;

const PPO: Surrogate = Surrogate::Clip { low: EPSILON, high: EPSILON };
const PRINTED: Surrogate = Surrogate::Printed { high: EPSILON };
const TWO_SIDED: Surrogate = Surrogate::TwoSided { low: EPSILON, high: EPSILON, delta: CAP };

/// Loss of one token, with its derivative with respect to `log π`.
fn loss(form: Surrogate, ratio: f64, advantage: f64) -> ValueAndSlope {
    form.at(ratio.ln(), advantage).loss
}

/// The ratios of the maps; none is a bound of the clip.
fn ratios() -> Vec<f64> {
    (0..14).map(|i| 0.45 + 0.1 * f64::from(i)).collect()
}

/// The advantages of the maps, from the top.
fn advantages() -> Vec<f64> {
    (-4..=4).rev().map(|i| 0.5 * f64::from(i)).collect()
}

/// The three forms at one ratio and advantage.
#[derive(Clone)]
struct Point {
    ratio: f64,
    advantage: f64,
    ppo: ValueAndSlope,
    printed: ValueAndSlope,
    two_sided: ValueAndSlope,
}

impl Point {
    fn new(ratio: f64, advantage: f64) -> Point {
        let [ppo, printed, two_sided] = [PPO, PRINTED, TWO_SIDED].map(|form| loss(form, ratio, advantage));
        Point { ratio, advantage, ppo, printed, two_sided }
    }

    /// The points of the maps, advantages from the top.
    fn grid() -> Vec<Point> {
        let row = |a: f64| ratios().into_iter().map(move |ratio| Point::new(ratio, a));
        advantages().into_iter().flat_map(row).collect()
    }

    fn examples() -> [Point; 2] {
        [0.5, 1.5].map(|ratio| Point::new(ratio, -1.0))
    }

    /// The largest difference of the printed form's loss and slope from PPO's.
    fn apart(&self) -> f64 {
        let (a, b) = (self.ppo, self.printed);
        (a.value - b.value).abs().max((a.slope - b.slope).abs())
    }

    /// True if the advantage is negative and the ratio outside the clip interval.
    fn lowered_outside(&self) -> bool {
        self.advantage < 0.0 && !(1.0 - EPSILON..=1.0 + EPSILON).contains(&self.ratio)
    }

    /// The greater of the gaps from the printed loss to Algorithm 1's formula, and from that to `-min(ratio, 1+ε) A`.
    fn off_formula(&self) -> f64 {
        let (ratio, a) = (self.ratio, self.advantage);
        let literal = -ratio.min(ratio.clamp(1.0 - EPSILON, 1.0 + EPSILON)) * a;
        (self.printed.value - literal).abs().max((literal + ratio.min(1.0 + EPSILON) * a).abs())
    }
}

const GROUP: usize = 8;
/// Expected updates on groups of the first policy in the run that shows the trust region.
const UPDATES: usize = 200;

/// A clip form of the registered methods: its name and its settings.
const FORMS: [(&str, &str); 4] = [
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
struct OnPolicy {
    mdps: usize,
    /// The largest difference of the expected updates.
    difference: f64,
}

fn on_policy() -> anyhow::Result<OnPolicy> {
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

/// The expected update of a form after the policy has moved along the gradient since sampling.
#[derive(Clone, Default, Serialize)]
struct AfterStep {
    mdp: &'static str,
    /// The change of the largest logit, in nats.
    step: f64,
    form: &'static str,
    /// Cosine with `∇J` at the policy that is updated.
    cosine_with_grad_j: f64,
    norm: f64,
}

fn off_policy() -> anyhow::Result<Vec<AfterStep>> {
    let mut all = Vec::new();
    for name in ["lucky_guess", "deceptive"] {
        let mdp = Mdp::named(name)?;
        let grad = mdp.oracle().grad_j();
        for i in -30..=30 {
            let step = 0.1 * f64::from(i);
            let mut current = mdp.policy.clone();
            current.step(&grad, step / largest(grad.iter().map(|g| g.abs())));
            let now = Oracle::new(&mdp.tree, &current).grad_j();
            for (form, clip) in FORMS {
                let expected = update(clip, &mdp.tree, &mdp.policy, &current)?;
                let (cosine_with_grad_j, norm) = (cosine(&expected, &now), norm(&expected));
                all.push(AfterStep { mdp: name, step, form, cosine_with_grad_j, norm });
            }
        }
    }
    Ok(all)
}

/// The MDP of the run that shows the trust region.
const DISTANCE_MDP: &str = "noisy";

/// A policy after some expected updates on groups of the first one, against that one.
#[derive(Clone, Copy, Default, Serialize)]
struct Distance {
    mdp: &'static str,
    form: &'static str,
    updates: usize,
    /// `KL(sampler || policy)` over responses, in nats.
    #[serde(rename = "kl_from_sampling_policy")]
    kl: f64,
    /// The smallest token ratio.
    #[serde(rename = "smallest_ratio")]
    ratio: f64,
    /// `J` of the policy.
    j: f64,
}

impl Distance {
    fn new((form, updates): (&'static str, usize), behaviour: &Oracle, current: &Oracle) -> Distance {
        let log_ratio: Vec<f64> =
            current.log_probs.iter().zip(&behaviour.log_probs).map(|(new, old)| new - old).collect();
        let kl = behaviour.tree.edges().map(|e| -behaviour.edge_visit(e) * log_ratio[e]).sum();
        let ratio = log_ratio.iter().fold(0.0f64, |m, x| m.min(*x)).exp();
        Distance { mdp: DISTANCE_MDP, form, updates, kl, ratio, j: current.j }
    }
}

fn distances() -> anyhow::Result<Vec<Distance>> {
    let mdp = Mdp::named(DISTANCE_MDP)?;
    let start = mdp.oracle();
    let mut all = Vec::new();
    for (form, clip) in FORMS {
        let mut current = mdp.policy.clone();
        for updates in 0..=UPDATES {
            all.push(Distance::new((form, updates), &start, &Oracle::new(&mdp.tree, &current)));
            let step = update(clip, &mdp.tree, &mdp.policy, &current)?;
            current.step(&step, 0.2);
        }
    }
    Ok(all)
}
