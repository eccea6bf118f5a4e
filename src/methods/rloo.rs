//! RLOO: REINFORCE with a leave-one-out baseline.

use super::{Aggregate, Clip, Divisor, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::settings::Param;

/// RLOO (Ahmadian et al. 2024; verl, OpenRLHF).
///
/// ```text
/// A_i = r_i - mean_{j != i} r_j
/// L   = (1/B) sum_i sum_t -rho A
/// ```
/// Expected update on-policy: the policy gradient exactly.
pub static SPEC: MethodSpec = MethodSpec {
    name: "rloo",
    title: "RLOO",
    about: "rewards minus the mean of the other responses, no clip, sum over tokens, mean over responses",
    source: "Ahmadian et al. 2024; verl and OpenRLHF",
    provenance: Provenance::Published,
    samples: &["", "correction=token_mask correction_high=2 correction_low=0.4"],
    params,
    evidence: shared::kl_evidence,
    build: |settings| shared::baseline_method(settings, Baseline::LeaveOneOut),
};

/// The usual settings, with one more value of `scale`.
fn params() -> Vec<Param> {
    let mut params = shared::baseline_params(Divisor::None, Clip::None, Aggregate::ResponseSum);
    params[0] = Param::choice(
        "scale",
        Divisor::None,
        "what centred rewards are divided by: the standard deviation of the group, of the other responses of the group (NeMo-RL) or of the batch, or nothing",
    );
    params
}
