//! TEMPO: group outcomes plus prefix-tree temporal differences.

use super::{Aggregate, Divisor, MethodSpec, Preset, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::{TreeAdvantage, TreeCredit};
use crate::group::InputKind;

/// TEMPO (arXiv 2509.18314), after the authors' code.
///
/// ```text
/// A_{i,t} = ( r_i - mean r + V(s_{t+1}) - V(s_t) ) / (std r + 1e-6),      V: prefix values of the group's tree
/// ```
/// Where no response parts from the others the difference is 0 and the advantage GRPO's; the root is a place to part like any other, so
/// responses that differ from their first token on give that token GRPO's advantage twice. Expected update without `std`:
/// the policy gradient with a factor per prefix, from `G-1` where responses never meet to `2(G-1)` at the prompt (see the test of
/// its closed form); with `std` a factor per prompt on top.
pub static SPEC: MethodSpec = MethodSpec {
    name: "tempo",
    title: "TEMPO",
    about: "z-scored group rewards plus differences of prefix-tree values where responses part, PPO clip with a higher upper bound, token mean",
    source: "arXiv 2509.18314; the authors' code (fatebreaker/tempo), from which the equation is taken",
    provenance: Provenance::Published,
    samples: &[""],
    params: || {
        let clip = shared::clip_at(0.2, 0.28);
        [
            shared::scale(Divisor::Group, Preset::Verl),
            clip,
            shared::kl(),
            shared::reduction(Aggregate::TokenMean),
        ]
        .concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Tokens),
    build: |settings| {
        let outcome = shared::outcome(settings, Baseline::GroupMean);
        shared::plain(settings, Box::new(TreeAdvantage { outcome, credit: TreeCredit::Difference }))
    },
};
