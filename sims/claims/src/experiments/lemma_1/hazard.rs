//! The printed bound where the hazard of EOS depends on the path, and where it does not.

use grpo_lambda_mdp::zoo::{EosHazard, EosHazardDependent, Family};
use grpo_lambda_mdp::{Oracle, Tabular};

use super::prefixes::{Depth, Prefix, depths, full_binary, prefixes};
use crate::experiments::common::mdp::Mdp;

/// Violations of the printed bound.
#[derive(Default)]
pub(super) struct Hazards {
    /// Path-independent hazard: prefixes that violate, and all.
    pub(super) pointwise: usize,
    pub(super) prefixes: usize,
    /// The same hazard: depths that violate on average over the prefixes alive.
    pub(super) on_average: usize,
    /// Path-dependent hazard: depths that violate on average, and all.
    pub(super) uneven: usize,
    pub(super) uneven_depths: usize,
}

/// On 200 MDPs with a path-independent hazard, and on those of `mdps`.
pub(super) fn hazards(mdps: &[Mdp]) -> anyhow::Result<Hazards> {
    let mut found = Hazards::default();
    for seed in 0..200 {
        let Mdp { tree, mut policy, .. } = full_binary(seed)?;
        for node in tree.nodes() {
            // The symbols keep their random odds, EOS gets the probability 0.1.
            for edge in tree.edges_of(node).filter(|&e| tree.token(e) == tree.eos()) {
                let others: f64 =
                    tree.edges_of(node).filter(|&e| e != edge).map(|e| policy.logits[e].exp()).sum();
                policy.logits[edge] = (others * 0.1 / 0.9).ln();
            }
        }
        found.add_even(&Oracle::new(&tree, &policy));
    }
    // A path-dependent hazard: prefixes alive have large path products, so that the printed bound is smaller than P(τ<=t).
    for depth in mdps.iter().flat_map(|m| depths(&m.oracle())) {
        found.uneven_depths += 1;
        found.uneven += usize::from(depth.violates_on_average());
    }
    Ok(found)
}

impl Hazards {
    /// Path-independent: the product is the survival, and the lemma holds on average over the prefixes alive.
    fn add_even(&mut self, oracle: &Oracle) {
        let prefixes = prefixes(oracle);
        self.prefixes += prefixes.len();
        self.pointwise += prefixes.iter().filter(|p| Prefix::violates(p)).count();
        self.on_average += depths(oracle).iter().filter(|d| Depth::violates_on_average(d)).count();
    }
}

/// The depths of a family of the zoo with a hazard of EOS.
pub(super) struct OfHazard {
    pub(super) name: &'static str,
    pub(super) depths: Vec<Depth>,
}

pub(super) fn hazards_of_zoo() -> anyhow::Result<Vec<OfHazard>> {
    let same = EosHazard { hazard: 0.1, symbols: 2, horizon: 10 };
    let dependent = EosHazardDependent { horizon: 10, ..EosHazardDependent::default() };
    Ok(vec![
        OfHazard { name: "same hazard everywhere", depths: depths_of(&same)? },
        OfHazard { name: "hazard depends on path", depths: depths_of(&dependent)? },
    ])
}

fn depths_of(family: &impl Family) -> anyhow::Result<Vec<Depth>> {
    let tree = family.tree()?;
    let policy: Tabular = family.initial(&tree);
    Ok(depths(&Oracle::new(&tree, &policy)))
}
