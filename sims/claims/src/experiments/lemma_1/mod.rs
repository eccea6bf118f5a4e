//! `lemma_1`: the bound on `V(s_0) - V(s_t)`, as printed and corrected.
//!
//! ```text
//! printed     V(s_0) - V(s_t) <= 1 - Π_{k<t} (1 - π(EOS|s_k))              every prefix s_t
//! L1a         V(s_0) - γ^t E[V(S_t); τ>t] = E[γ^(τ-1) R; τ<=t] <= P(τ<=t)
//!             |V(s_0) - E[V(S_t)|τ>t]| <= P(τ<=t)                            γ = 1
//! L1b         P(τ>t) = E~[Π_{k<t} (1 - π(EOS|S_k))],  E~ under π renormalised without EOS
//! L1c         the stopped value process is a martingale whose spread grows from 0 to V0(1-V0)
//! ```

mod corrected;
mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{Mdp, seeds};
use crate::sentences::SentenceId;
use corrected::{
    Corrected, Hazards, Prefix, Smallest, Success, Values, full_binary, hazards, prefixes, smallest, success,
    values,
};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::{Random, RandomRewards};
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "lemma_1",
    title: "Is Lemma 1 true prefix by prefix, and is it true on average?",
    claim: SentenceId::ValueBound.sentence().statement,
    source: "GRPO-λ, Lemma 1 (section 3.1, proof in appendix A.1, Eq. 3-5)",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

#[derive(Default)]
struct Numbers {
    /// MDPs per family.
    mdps: usize,
    /// The first family is the one that is drawn.
    families: Vec<OfFamily>,
    smallest: Smallest,
    /// At γ = 1.
    corrected: Corrected,
    /// At γ < 1.
    discounted: Corrected,
    hazards: Hazards,
    success: Success,
    values: Values,
}

/// The prefixes of a family of random MDPs.
struct OfFamily {
    name: &'static str,
    prefixes: Vec<Prefix>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let count = if context.full { 2000 } else { 200 };
    let [binary, ragged, noisy] = [full_binary, ragged, noisy]
        .map(|mdp| seeds(context.seed).take(count).map(mdp).collect::<anyhow::Result<Vec<Mdp>>>());
    let (binary, ragged, noisy) = (binary?, ragged?, noisy?);
    (context.progress)(0.3, "prefixes");
    let families = vec![
        OfFamily::new("two symbols, EOS everywhere", &binary),
        OfFamily::new("random trees", &ragged),
        OfFamily::new("noisy rewards, EOS everywhere", &noisy),
    ];
    (context.progress)(0.5, "corrected statements");
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
        smallest: smallest()?,
        corrected,
        discounted,
        hazards: hazards(&binary)?,
        success: success(&binary),
        values: values(&binary),
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
