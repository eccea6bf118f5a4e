//! What is computed.

use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::{Random, RandomRewards};

use super::corrected::Corrected;
use super::hazard::{Hazards, OfHazard, hazards, hazards_of_zoo};
use super::minimal::{Minimal, minimal};
use super::prefixes::{Depth, Prefix, depths, full_binary, prefixes};
use super::shrink::{Shrunk, search};
use super::values::{Success, Values, success, values};
use crate::experiment::Context;
use crate::experiments::common::mdp::Mdp;

pub(super) struct Numbers {
    /// MDPs per family.
    pub(super) mdps: usize,
    /// The first family is the one that is drawn.
    pub(super) families: Vec<OfFamily>,
    pub(super) shrunk: Shrunk,
    pub(super) minimal: Minimal,
    /// At γ = 1.
    pub(super) corrected: Corrected,
    /// At γ < 1.
    pub(super) discounted: Corrected,
    pub(super) hazards: Hazards,
    pub(super) success: Success,
    pub(super) values: Values,
    /// Of each MDP of the first family.
    pub(super) by_depth: Vec<Vec<Depth>>,
    pub(super) of_zoo: Vec<OfHazard>,
}

/// The prefixes of a family of random MDPs.
pub(super) struct OfFamily {
    pub(super) name: &'static str,
    pub(super) prefixes: Vec<Prefix>,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let count: u64 = if context.full { 2000 } else { 200 };
    let base = context.seed.wrapping_mul(100_000);
    let [binary, ragged, noisy] = [full_binary, ragged, noisy]
        .map(|mdp| (0..count).map(|i| mdp(base + i)).collect::<anyhow::Result<Vec<Mdp>>>());
    let (binary, ragged, noisy) = (binary?, ragged?, noisy?);
    (context.progress)(0.3, "prefixes");
    let families = vec![
        OfFamily::new("two symbols, EOS everywhere", &binary),
        OfFamily::new("random trees", &ragged),
        OfFamily::new("noisy rewards, EOS everywhere", &noisy),
    ];
    (context.progress)(0.5, "shrinking");
    let shrunk = search(base)?;
    (context.progress)(0.7, "corrected statements");
    let (mut corrected, mut discounted) = (Corrected::default(), Corrected::default());
    for mdp in binary.iter().chain(&ragged).chain(&noisy) {
        corrected.add(&mdp.oracle());
        for gamma in [0.5, 0.9, 0.99] {
            let tree = mdp.tree.clone().with_gamma(gamma);
            discounted.add(&Oracle::new(&tree, &mdp.policy));
        }
    }
    Ok(Numbers {
        mdps: binary.len(),
        families,
        minimal: minimal(&shrunk)?,
        shrunk,
        corrected,
        discounted,
        hazards: hazards(&binary)?,
        success: success(&binary),
        values: values(&binary),
        by_depth: binary.iter().map(|m| depths(&m.oracle())).collect(),
        of_zoo: hazards_of_zoo()?,
    })
}

fn ragged(seed: u64) -> anyhow::Result<Mdp> {
    Mdp::random(Random { seed, ..Random::default() })
}

fn noisy(seed: u64) -> anyhow::Result<Mdp> {
    Mdp::random(Random { seed, eos: 1.0, rewards: RandomRewards::Probabilities, ..Random::default() })
}

impl OfFamily {
    fn new(name: &'static str, mdps: &[Mdp]) -> OfFamily {
        OfFamily { name, prefixes: mdps.iter().flat_map(|m| prefixes(&m.oracle())).collect() }
    }
}
