//! The settings of every method that are about the engine that sampled: weights, rejection and masks of its mismatch.

use crate::objective::{Correction, Distance, Estimate, Objective, OffPolicyMask, Rejection, Unit};
use crate::settings::{Param, Settings, choice};

const INF: f64 = f64::INFINITY;

/// Distances that have no lower bound.
const ONE_SIDED: &[&str] = &[
    "none",
    "token_k2",
    "token_k3",
    "seq_sum_k2",
    "seq_sum_k3",
    "seq_mean_k2",
    "seq_mean_k3",
    "seq_max_k2",
    "seq_max_k3",
];

choice! {
    /// The words of `correction`.
    enum Mismatch {
        "none" => None,
        "token_truncate" => TokenTruncate,
        "token_mask" => TokenMask,
        "sequence_truncate" => SequenceTruncate,
        "sequence_mask" => SequenceMask,
        "token_in_sequence_mask" => TokenInSequenceMask,
    }
}

choice! {
    /// The fate of the tokens that a masked correction gives weight 0.
    enum Rejected { "stay" => Stay, "leave" => Leave }
}

choice! {
    /// The words of `reject`, those of verl's `rollout_rs`.
    enum Reject {
        "none" => None,
        "token_k1" => TokenK1,
        "token_k2" => TokenK2,
        "token_k3" => TokenK3,
        "seq_sum_k1" => SumK1,
        "seq_sum_k2" => SumK2,
        "seq_sum_k3" => SumK3,
        "seq_mean_k1" => MeanK1,
        "seq_mean_k2" => MeanK2,
        "seq_mean_k3" => MeanK3,
        "seq_max_k2" => MaxK2,
        "seq_max_k3" => MaxK3,
    }
}

impl Reject {
    fn distance(self) -> Option<Distance> {
        Some(match self {
            Reject::None => return None,
            Reject::TokenK1 => Distance::Token(Estimate::K1),
            Reject::TokenK2 => Distance::Token(Estimate::K2),
            Reject::TokenK3 => Distance::Token(Estimate::K3),
            Reject::SumK1 => Distance::Sum(Estimate::K1),
            Reject::SumK2 => Distance::Sum(Estimate::K2),
            Reject::SumK3 => Distance::Sum(Estimate::K3),
            Reject::MeanK1 => Distance::Mean(Estimate::K1),
            Reject::MeanK2 => Distance::Mean(Estimate::K2),
            Reject::MeanK3 => Distance::Mean(Estimate::K3),
            Reject::MaxK2 => Distance::Max(Estimate::K2),
            Reject::MaxK3 => Distance::Max(Estimate::K3),
        })
    }
}

/// `correction`, `correction_low`, `correction_high`, `rejected`, `reject`, `reject_low`, `reject_high`, `off_policy_mask`.
pub(super) fn params() -> Vec<Param> {
    const OFF: &[&str] = &["none"];
    vec![
        Param::choice(
            "correction",
            Mismatch::None,
            "importance weight of the sampler's mismatch, which multiplies the policy loss: of each token or of the response, cut at the bounds (TIS) or 0 outside them (MIS); not none needs sampler_logps",
        ),
        Param::number("correction_low", 0.0, 0.0, 1.0, "smallest weight of the correction")
            .idle_under("correction", OFF),
        Param::number("correction_high", 3.0, 1.0, INF, "largest weight of the correction (TRL: 3, verl: 2)")
            .idle_under("correction", OFF),
        Param::choice(
            "rejected",
            Rejected::Stay,
            "tokens that a masked correction gives weight 0 stay in the KL term and the divisors (TRL, NeMo-RL), or leave both (slime, AReaL, ROLL)",
        )
        .idle_under("correction", &["none", "token_truncate", "sequence_truncate"]),
        Param::choice(
            "reject",
            Reject::None,
            "distance from the sampler outside whose bounds tokens or responses leave the loss and its divisors (verl: rollout_rs); not none needs sampler_logps",
        ),
        Param::optional(
            "reject_low",
            None,
            0.0,
            INF,
            "smallest ratio that reject=.._k1 keeps, of the sampler to the policy; none: 1 / reject_high",
        )
        .idle_under("reject", ONE_SIDED),
        Param::number(
            "reject_high",
            2.0,
            0.0,
            INF,
            "largest distance that reject keeps; of k1 the largest ratio of the sampler to the policy",
        )
        .idle_under("reject", OFF),
        Param::optional(
            "off_policy_mask",
            None,
            0.0,
            INF,
            "responses of negative advantage whose mean log-ratio of the sampler to the policy exceeds this have no policy loss (TRL: off_policy_mask_threshold)",
        ),
    ]
}

/// Reads [`params`].
fn correction_of(settings: &Settings) -> Option<Correction> {
    let (unit, masked) = match settings.choice("correction") {
        Mismatch::None => return None,
        Mismatch::TokenTruncate => (Unit::Token, false),
        Mismatch::TokenMask => (Unit::Token, true),
        Mismatch::SequenceTruncate => (Unit::Sequence, false),
        Mismatch::SequenceMask => (Unit::Sequence, true),
        Mismatch::TokenInSequenceMask => (Unit::TokenInSequence, true),
    };
    let (low, high) = (settings.number("correction_low"), settings.number("correction_high"));
    let leaves = settings.choice::<Rejected>("rejected") == Rejected::Leave;
    Some(Correction { unit, masked, low, high, leaves })
}

/// Reads `reject` and its bounds, which are ratios where the distance is `k1`.
fn rejection_of(settings: &Settings) -> Option<Rejection> {
    let distance = settings.choice::<Reject>("reject").distance()?;
    let high = settings.number("reject_high");
    let low = settings.optional("reject_low").unwrap_or(1.0 / high);
    let (Distance::Token(of) | Distance::Sum(of) | Distance::Mean(of) | Distance::Max(of)) = distance;
    Some(match of {
        Estimate::K1 => Rejection { distance, low: low.ln(), high: high.ln() },
        Estimate::K2 | Estimate::K3 => Rejection { distance, low: f64::NEG_INFINITY, high },
    })
}

/// True if no ratio lies between the bounds of `reject`.
pub(super) fn rejects_all(settings: &Settings) -> bool {
    settings.has("reject") && rejection_of(settings).is_some_and(|rejection| rejection.low > rejection.high)
}

/// Reads `off_policy_mask`.
fn off_policy_of(settings: &Settings) -> Option<OffPolicyMask> {
    settings.optional("off_policy_mask").map(|bound| OffPolicyMask { bound })
}

/// Puts the settings of [`params`] into an objective.
pub(super) fn corrected(settings: &Settings, objective: Objective) -> Objective {
    Objective {
        correction: correction_of(settings),
        rejection: rejection_of(settings),
        off_policy: off_policy_of(settings),
        ..objective
    }
}

/// True if the settings compare the policy with the sampler.
pub(super) fn compares(settings: &Settings) -> bool {
    correction_of(settings).is_some() || rejection_of(settings).is_some()
}
