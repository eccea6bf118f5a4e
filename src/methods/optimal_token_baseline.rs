//! Optimal token baseline.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::TokenBaseline;
use crate::group::InputKind;
use crate::settings::{Param, choice};

choice! {
    /// The baseline at positions that one response alone reaches.
    enum Tail { "baseline" => Baseline, "zero" => Zero }
}

/// Rewards minus an energy-weighted baseline per token position, see [`TokenBaseline`] for the formulas.
///
/// Sequence mask and importance weights of the published code are left out: this is its on-policy form.
pub static SPEC: MethodSpec = MethodSpec {
    name: "optimal_token_baseline",
    title: "Optimal token baseline",
    about: "rewards minus a baseline per token position, weighted by the realised energy of each response, PPO clip, token mean",
    source: "arXiv 2602.07078; verl optimal_token_baseline",
    provenance: Provenance::Published,
    samples: &["", "tail=zero"],
    params: || {
        let own = vec![Param::choice(
            "tail",
            Tail::Baseline,
            "positions that only the longest response of a group reaches: its own reward is the baseline, or (verl's handle_zero_tail) there is none",
        )];
        [own, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Collisions),
    build: |settings| {
        let bare_tail = settings.choice::<Tail>("tail") == Tail::Zero;
        shared::plain(settings, Box::new(TokenBaseline { bare_tail }))
    },
};
