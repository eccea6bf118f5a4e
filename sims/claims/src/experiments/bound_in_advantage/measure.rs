//! What is computed.

use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::Random;

use super::effect::{Effect, Reading, off_enumeration, readings};
use crate::experiment::Context;
use crate::experiments::common::mdp::{Mdp, random_mdps};
use crate::experiments::common::vectors::largest;

pub(super) struct Numbers {
    /// Names of the MDPs; those of the zoo come first.
    pub(super) mdps: Vec<String>,
    /// How many are of the zoo.
    pub(super) of_zoo: usize,
    pub(super) readings: Vec<OfReading>,
    /// Share of the tokens of unrewarded responses with a positive advantage, per MDP.
    pub(super) optimistic: Vec<f64>,
    pub(super) check: Check,
}

pub(super) struct OfReading {
    pub(super) reading: Reading,
    /// Per MDP.
    pub(super) effects: Vec<Effect>,
}

/// The wrapper against brute force, on one random MDP.
pub(super) struct Check {
    /// Responses of the MDP.
    pub(super) responses: usize,
    /// The largest difference over the readings.
    pub(super) worst: f64,
    /// The largest relative effect, so that there is something to check.
    pub(super) effect: f64,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let count = if context.full { 100 } else { 20 };
    let of_zoo = ["eos_hazard", "eos_hazard_dependent", "full"];
    let mut mdps: Vec<Mdp> = of_zoo.into_iter().map(Mdp::named).collect::<anyhow::Result<_>>()?;
    mdps.extend(random_mdps(count, context.seed, Random { eos: 1.0, horizon: 4, ..Random::default() })?);
    let all = readings();
    let count = all.len();
    let mut of_readings = Vec::new();
    for (i, reading) in all.into_iter().enumerate() {
        (context.progress)(i as f64 / count as f64, reading.name);
        let effects = mdps.iter().map(|mdp| Effect::new(&reading, mdp)).collect::<anyhow::Result<_>>()?;
        of_readings.push(OfReading { reading, effects });
    }
    Ok(Numbers {
        of_zoo: of_zoo.len(),
        readings: of_readings,
        optimistic: mdps.iter().map(|mdp| optimistic_share(&mdp.oracle())).collect(),
        mdps: mdps.into_iter().map(|mdp| mdp.name).collect(),
        check: check()?,
    })
}

/// Share of the tokens of unrewarded responses whose advantage `0 - V0 + b(s_t)` is positive.
fn optimistic_share(oracle: &Oracle) -> f64 {
    let tree = oracle.tree;
    let products = oracle.path_products();
    let (mut positive, mut all) = (0.0, 0.0);
    for leaf in tree.leaves() {
        for (reward, p) in tree.outcomes(leaf).filter(|(r, _)| *r == 0.0) {
            for edge in tree.path(leaf) {
                let weight = p * oracle.leaf_prob(leaf);
                all += weight;
                positive +=
                    if reward - oracle.j + 1.0 - products[tree.edge_node(edge)] > 0.0 { weight } else { 0.0 };
            }
        }
    }
    positive / all
}

fn check() -> anyhow::Result<Check> {
    let mdp = Mdp::random(Random { seed: 4, symbols: 3, horizon: 3, eos: 1.0, ..Random::default() })?;
    let (mut worst, mut effect) = (Vec::new(), Vec::new());
    for reading in readings() {
        worst.push(off_enumeration(&reading, &mdp)?);
        effect.push(Effect::new(&reading, &mdp)?.relative);
    }
    Ok(Check { responses: mdp.tree.leaf_count(), worst: largest(worst), effect: largest(effect) })
}
