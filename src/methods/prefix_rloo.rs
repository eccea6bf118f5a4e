//! RLOO with values of prefixes from the other responses.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::PrefixControl;
use crate::group::InputKind;
use crate::settings::{Param, Settings, choice};
use crate::systematic::Sets;

choice! {
    /// The bearer of a value.
    enum Control { "action" => Action, "state" => State }
}

/// RLOO whose baseline knows the prefix; see [`PrefixControl`] for the formulas and why it is unbiased.
///
/// With a very large `shrinkage` it is RLOO.
pub static SPEC: MethodSpec = MethodSpec {
    name: "prefix_rloo",
    title: "Prefix RLOO",
    about: "rewards minus leave-one-out values of prefix and token from the group's prefix tree, handed back where they depend on the token: unbiased; no clip, sum over tokens",
    source: "ours; after RLOO, TEMPO's prefix tree (arXiv 2509.18314), shrinkage baselines (arXiv 2511.03710) and Q-Prop (arXiv 1611.02247)",
    provenance: Provenance::Ours,
    samples: &["", "control=state shrinkage=0 lambda=0.5"],
    params: || [own(), shared::loss(Clip::None, Aggregate::ResponseSum)].concat(),
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Tokens),
    build: |settings| shared::plain(settings, Box::new(control(settings, Sets::SINGLE))),
};

/// `shrinkage`, `control`, `lambda`.
pub(super) fn own() -> Vec<Param> {
    vec![
        Param::number(
            "shrinkage",
            4.0,
            0.0,
            f64::INFINITY,
            "how many responses the coarser estimate counts for: prefix towards prompt, token towards prefix",
        ),
        Param::choice(
            "control",
            Control::Action,
            "what has a value of its own: each token after a prefix, or the prefix alone",
        ),
        Param::number(
            "lambda",
            1.0,
            0.0,
            1.0,
            "decay of later TD errors of control=state; below 1 the update is biased",
        )
        .idle_under("control", &["action"]),
    ]
}

/// Reads [`own`].
pub(super) fn control(settings: &Settings, sets: Sets) -> PrefixControl {
    PrefixControl {
        sets,
        shrinkage: settings.number("shrinkage"),
        action: settings.choice::<Control>("control") == Control::Action,
        lambda: settings.number("lambda"),
    }
}
