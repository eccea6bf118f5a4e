//! Settings that several methods share, declared and read in one place.

use super::Method;
use crate::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
use crate::assignment::{Assignment, EntropySelection, OutcomeCredit, Scope};
use crate::group::EvidenceKind;
use crate::kl::Kl;
use crate::objective::{Correction, Objective, Unit};
use crate::ratio::{PolicyRatio, TraceRatio};
use crate::reduction::Reduction;
use crate::settings::{Param, SettingError, Settings};
use crate::surrogate::Surrogate;
use crate::trace::Token;

const INF: f64 = f64::INFINITY;

/// The value of `scale` under which there is no standard deviation.
const UNSCALED: &[&str] = &["none"];

/// `scale`, `std_preset`, `std_ddof`, `std_epsilon`, `clamp`.
pub(super) fn advantage(scale: &str, clamp: Option<f64>) -> Vec<Param> {
    let clamp = Param::optional(
        "clamp",
        clamp,
        -INF,
        0.0,
        "lower bound of the advantage (the GRPO-lambda paper: -0.1)",
    );
    [self::scale(scale, "trl"), vec![clamp]].concat()
}

/// `scale`, `std_preset`, `std_ddof`, `std_epsilon`.
pub(super) fn scale(scale: &str, preset: &str) -> Vec<Param> {
    vec![
        Param::choice(
            "scale",
            scale,
            &["group", "batch", "none"],
            "what centred rewards are divided by: the standard deviation of the group or the batch, or nothing",
        ),
        Param::choice(
            "std_preset",
            preset,
            &["trl", "verl", "understand_r1_zero", "openrlhf", "deepseekmath"],
            "whose ddof and epsilon the standard deviation uses",
        )
        .idle_under("scale", UNSCALED),
        Param::choice(
            "std_ddof",
            "none",
            &["none", "0", "1"],
            "ddof of the standard deviation; none: the preset's",
        )
        .idle_under("scale", UNSCALED),
        Param::optional("std_epsilon", None, 0.0, INF, "added to the standard deviation; none: the preset's")
            .idle_under("scale", UNSCALED),
    ]
}

/// Reads [`advantage`], or [`scale`] alone.
pub(super) fn outcome(settings: &Settings, baseline: Baseline) -> OutcomeAdvantage {
    let preset = settings.word("std_preset");
    let (_, mut std) =
        Std::PRESETS.into_iter().find(|(name, _)| *name == preset).expect("choices are the presets");
    match settings.word("std_ddof") {
        "0" => std.ddof = 0,
        "1" => std.ddof = 1,
        _ => {}
    }
    if let Some(epsilon) = settings.optional("std_epsilon") {
        std.epsilon = epsilon;
    }
    let scale = match settings.word("scale") {
        "group" => Scale::Group(std),
        "others" => Scale::Others(std),
        "batch" => Scale::Batch(std),
        _ => Scale::None,
    };
    let clamp = if settings.has("clamp") { settings.optional("clamp") } else { None };
    OutcomeAdvantage { baseline, scale, clamp }
}

/// `clip`, `epsilon_low`, `epsilon_high`, `clip_max`.
pub(super) fn clip(default: &str) -> Vec<Param> {
    clip_at(default, 0.2, 0.2)
}

/// [`clip`] with other defaults of the bounds.
pub(super) fn clip_at(default: &str, low: f64, high: f64) -> Vec<Param> {
    vec![
        Param::choice(
            "clip",
            default,
            &["ppo", "printed", "two_sided", "none"],
            "form of the clipped surrogate: PPO's, min(c1,c2)*A as the GRPO-lambda algorithms print it, PPO's with the ratio capped at clip_max, or no clip",
        ),
        Param::number("epsilon_low", low, 0.0, 1.0, "the ratio is clipped below at 1 - epsilon_low")
            .idle_under("clip", &["printed", "none"]),
        Param::number("epsilon_high", high, 0.0, INF, "the ratio is clipped above at 1 + epsilon_high")
            .idle_under("clip", &["none"]),
        Param::number(
            "clip_max",
            4.0,
            1.0,
            INF,
            "cap of the unclipped ratio for clip=two_sided, at least 1 + epsilon_high",
        )
        .idle_under("clip", &["ppo", "printed", "none"]),
    ]
}

/// Reads [`clip`].
pub(super) fn surrogate(settings: &Settings) -> Surrogate {
    let (low, high) = (settings.number("epsilon_low"), settings.number("epsilon_high"));
    match settings.word("clip") {
        "ppo" => Surrogate::Clip { low, high },
        "printed" => Surrogate::Printed { high },
        "two_sided" => Surrogate::TwoSided { low, high, delta: settings.number("clip_max") },
        _ => Surrogate::Unclipped,
    }
}

/// What the range of a single setting cannot refuse: a cap of the two-sided clip inside the clip itself.
pub(super) fn check_together(settings: &Settings) -> Result<(), SettingError> {
    if !settings.has("clip_max") || settings.word("clip") != "two_sided" {
        return Ok(());
    }
    let bound = 1.0 + settings.number("epsilon_high");
    if settings.number("clip_max") >= bound {
        return Ok(());
    }
    Err(SettingError::Invalid {
        key: "clip_max".to_owned(),
        value: settings.word("clip_max").to_owned(),
        expected: format!("at least 1 + epsilon_high = {bound}"),
    })
}

/// `beta`, `kl`.
pub(super) fn kl() -> Vec<Param> {
    vec![
        Param::number(
            "beta",
            0.0,
            0.0,
            INF,
            "coefficient of the KL term (the GRPO-lambda paper: 0.04); not 0 needs ref_logps",
        ),
        Param::choice(
            "kl",
            "k3",
            &["k1", "k2", "k3", "ratio_k3", "abs", "k1_k2", "k3_k2"],
            "estimator of the KL to the reference policy; k1_k2 and k3_k2 have the gradient of k2 (verl's k1+, k3+)",
        )
        .idle_under("beta", &["0"]),
    ]
}

/// Reads [`kl`].
pub(super) fn kl_term(settings: &Settings) -> Option<(Kl, f64)> {
    let beta = settings.number("beta");
    let kl = match settings.word("kl") {
        "k1" => Kl::K1,
        "k2" => Kl::K2,
        "k3" => Kl::K3,
        "ratio_k3" => Kl::RatioK3,
        "abs" => Kl::Abs,
        "k1_k2" => Kl::K1K2,
        _ => Kl::K3K2,
    };
    (beta != 0.0).then_some((kl, beta))
}

/// Reference log-probabilities when there is a KL term, those of the sampler when its mismatch is corrected.
pub(super) fn kl_evidence(settings: &Settings) -> Vec<EvidenceKind> {
    let reference = kl_term(settings).map(|_| EvidenceKind::RefLogps);
    let sampler = correction_of(settings).map(|_| EvidenceKind::SamplerLogps);
    reference.into_iter().chain(sampler).collect()
}

/// `correction`, `correction_low`, `correction_high`.
fn correction() -> Vec<Param> {
    const OFF: &[&str] = &["none"];
    vec![
        Param::choice(
            "correction",
            "none",
            &[
                "none",
                "token_truncate",
                "token_mask",
                "sequence_truncate",
                "sequence_mask",
                "token_in_sequence_mask",
            ],
            "importance weight of the sampler's mismatch, which multiplies the policy loss: of each token or of the response, cut at the bounds (TIS) or 0 outside them (MIS); not none needs sampler_logps",
        ),
        Param::number("correction_low", 0.0, 0.0, 1.0, "smallest weight of the correction")
            .idle_under("correction", OFF),
        Param::number("correction_high", 3.0, 1.0, INF, "largest weight of the correction (TRL: 3, verl: 2)")
            .idle_under("correction", OFF),
    ]
}

/// Reads [`correction`].
fn correction_of(settings: &Settings) -> Option<Correction> {
    let (unit, masked) = match settings.word("correction") {
        "token_truncate" => (Unit::Token, false),
        "token_mask" => (Unit::Token, true),
        "sequence_truncate" => (Unit::Sequence, false),
        "sequence_mask" => (Unit::Sequence, true),
        "token_in_sequence_mask" => (Unit::TokenInSequence, true),
        _ => return None,
    };
    let (low, high) = (settings.number("correction_low"), settings.number("correction_high"));
    Some(Correction { unit, masked, low, high })
}

/// `reduction`, `max_length`, `mask_truncated`, and the settings of [`correction`].
pub(super) fn reduction(default: &str) -> Vec<Param> {
    let own = vec![
        Param::choice(
            "reduction",
            default,
            &["token_mean", "group_token_mean", "response_mean", "response_sum", "constant"],
            "how token losses become one number: mean over all tokens of the batch, mean over groups of their token mean, mean over responses of their token mean or token sum, or sum over tokens / (responses * max_length)",
        ),
        Param::number("max_length", 256.0, 1.0, INF, "the constant of reduction=constant, in tokens")
            .idle_under("reduction", &["token_mean", "group_token_mean", "response_mean", "response_sum"]),
        Param::flag("mask_truncated", false, "give responses that were cut off weight 0"),
    ];
    [own, correction()].concat()
}

/// `top_fraction`, `entropy_scope`, `entropy_threshold`.
pub(super) fn selection() -> Vec<Param> {
    vec![
        Param::number(
            "top_fraction",
            0.2,
            0.0,
            1.0,
            "share of the tokens, those of highest entropy, to keep",
        ),
        Param::choice(
            "entropy_scope",
            "batch",
            &["batch", "response"],
            "what the share is taken of: all tokens of the batch, or those of each response",
        ),
        Param::optional(
            "entropy_threshold",
            None,
            0.0,
            INF,
            "keep tokens of at least this entropy, in nats, instead of a share",
        ),
    ]
}

/// Reads [`selection`].
pub(super) fn selection_of(settings: &Settings) -> EntropySelection {
    let scope = if settings.word("entropy_scope") == "batch" { Scope::Batch } else { Scope::Response };
    let top = EntropySelection::Top { top: settings.number("top_fraction"), scope };
    settings.optional("entropy_threshold").map_or(top, EntropySelection::AtLeast)
}

/// Reads [`reduction`].
pub(super) fn reduction_of(settings: &Settings) -> Reduction {
    match settings.word("reduction") {
        "token_mean" => Reduction::TokenMean,
        "group_token_mean" => Reduction::GroupTokenMean,
        "response_mean" => Reduction::PerResponse,
        "response_sum" => Reduction::Constant(1.0),
        _ => Reduction::Constant(settings.number("max_length")),
    }
}

/// All settings of a method without a trace, in the order of tables.
pub(super) fn baseline_params(scale: &str, clip_form: &str, reduce: &str) -> Vec<Param> {
    [advantage(scale, None), clip(clip_form), kl(), reduction(reduce)].concat()
}

/// The same advantage at every token, with the settings of [`advantage`] or [`scale`].
pub(super) fn spread(settings: &Settings, baseline: Baseline) -> Box<dyn Assignment> {
    Box::new(OutcomeCredit::constant(outcome(settings, baseline)))
}

/// A method without a trace.
pub(super) fn baseline_method(settings: &Settings, baseline: Baseline) -> Box<dyn Method> {
    plain(settings, spread(settings, baseline))
}

/// A method without a trace, with the settings of [`clip`], [`kl`] and [`reduction`].
pub(super) fn plain(settings: &Settings, assignment: Box<dyn Assignment>) -> Box<dyn Method> {
    with_ratio(settings, assignment, token_ratio())
}

/// A method with the settings of [`clip`], [`kl`] and [`reduction`].
pub(super) fn with_ratio(
    settings: &Settings,
    assignment: Box<dyn Assignment>,
    ratio: Box<dyn PolicyRatio>,
) -> Box<dyn Method> {
    Box::new(objective(settings, assignment, ratio, surrogate(settings)))
}

/// A method without a trace, with a surrogate of its own and the settings of [`kl`] and [`reduction`].
pub(super) fn with_surrogate(
    settings: &Settings,
    assignment: Box<dyn Assignment>,
    surrogate: Surrogate,
) -> Box<dyn Method> {
    Box::new(objective(settings, assignment, token_ratio(), surrogate))
}

/// The parts with the settings of [`kl`] and [`reduction`].
pub(super) fn objective(
    settings: &Settings,
    assignment: Box<dyn Assignment>,
    ratio: Box<dyn PolicyRatio>,
    surrogate: Surrogate,
) -> Objective {
    Objective {
        assignment,
        ratio,
        unit_mean: false,
        surrogate,
        kl: kl_term(settings),
        reduction: reduction_of(settings),
        mask_truncated: settings.flag("mask_truncated"),
        correction: correction_of(settings),
    }
}

/// Evidence of the KL term and of the method itself.
pub(super) fn with_kl(settings: &Settings, own: EvidenceKind) -> Vec<EvidenceKind> {
    [vec![own], kl_evidence(settings)].concat()
}

/// The ratio of the methods that have no trace: the token's own.
pub(super) fn token_ratio() -> Box<dyn PolicyRatio> {
    Box::new(TraceRatio(Box::new(Token)))
}
