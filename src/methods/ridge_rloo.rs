//! RLOO with values of prefixes regressed on hidden states of the other responses.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::StateRidge;
use crate::group::InputKind;
use crate::settings::Param;

/// RLOO whose baseline reads the policy's hidden state; see [`StateRidge`] for the formulas and why it is unbiased.
///
/// With a very large `shrinkage` it is RLOO, and with groups of two it always is.
pub static SPEC: MethodSpec = MethodSpec {
    name: "ridge_rloo",
    title: "Ridge RLOO",
    about: "rewards minus leave-one-out values of prefixes, a ridge regression of the other responses' rewards on hidden states: unbiased; no clip, sum over tokens",
    source: "ours; after RLOO, ridge regression (Hoerl and Kennard 1970) and its leave-one-out residual (Allen 1974)",
    provenance: Provenance::Ours,
    samples: &["", "shrinkage=0.1 reduction=response_mean"],
    params: || {
        let own = Param::number(
            "shrinkage",
            4.0,
            0.01,
            f64::INFINITY,
            "weight of the ridge: how many responses in the same state the mean of all others counts for; below 0.01 rounding would show",
        );
        [vec![own], shared::loss(Clip::None, Aggregate::ResponseSum)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Hidden),
    build: |settings| {
        let ridge = StateRidge { shrinkage: settings.number("shrinkage") };
        shared::plain(settings, Box::new(ridge))
    },
};
