//! Settings that several methods share, declared and read in one place.

use crate::advantage::{Baseline, Outcome, Scale, Std};
use crate::group::EvidenceKind;
use crate::kl::Kl;
use crate::reduction::Reduction;
use crate::settings::{Param, SettingError, Settings};
use crate::surrogate::Surrogate;

const INF: f64 = f64::INFINITY;

/// The value of `scale` under which there is no standard deviation.
const UNSCALED: &[&str] = &["none"];

/// `scale`, `std_preset`, `std_ddof`, `std_epsilon`, `clamp`.
pub(super) fn advantage(scale: &str, clamp: Option<f64>) -> Vec<Param> {
    vec![
        Param::choice(
            "scale",
            scale,
            &["group", "batch", "none"],
            "what centred rewards are divided by: the standard deviation of the group or the batch, or nothing",
        ),
        Param::choice(
            "std_preset",
            "trl",
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
        Param::optional(
            "clamp",
            clamp,
            -INF,
            0.0,
            "lower bound of the advantage (the GRPO-lambda paper: -0.1)",
        ),
    ]
}

/// Reads [`advantage`].
pub(super) fn outcome(settings: &Settings, baseline: Baseline) -> Outcome {
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
        "batch" => Scale::Batch(std),
        _ => Scale::None,
    };
    Outcome { baseline, scale, clamp: settings.optional("clamp") }
}

/// `clip`, `epsilon_low`, `epsilon_high`, `clip_max`.
pub(super) fn clip(default: &str) -> Vec<Param> {
    vec![
        Param::choice(
            "clip",
            default,
            &["ppo", "printed", "two_sided", "none"],
            "form of the clipped surrogate: PPO's, min(c1,c2)*A as the GRPO-lambda algorithms print it, PPO's with the ratio capped at clip_max, or no clip",
        ),
        Param::number("epsilon_low", 0.2, 0.0, 1.0, "the ratio is clipped below at 1 - epsilon_low")
            .idle_under("clip", &["printed", "none"]),
        Param::number("epsilon_high", 0.2, 0.0, INF, "the ratio is clipped above at 1 + epsilon_high")
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
            &["k1", "k2", "k3", "ratio_k3"],
            "estimator of the KL to the reference policy",
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
        _ => Kl::RatioK3,
    };
    (beta != 0.0).then_some((kl, beta))
}

/// Reference log-probabilities when there is a KL term.
pub(super) fn kl_evidence(settings: &Settings) -> Vec<EvidenceKind> {
    kl_term(settings).map(|_| EvidenceKind::RefLogps).into_iter().collect()
}

/// `reduction`, `max_length`, `mask_truncated`.
pub(super) fn reduction(default: &str) -> Vec<Param> {
    vec![
        Param::choice(
            "reduction",
            default,
            &["token_mean", "response_mean", "response_sum", "constant"],
            "how token losses become one number: mean over all tokens of the batch, mean over responses of their token mean or token sum, or sum over tokens / (responses * max_length)",
        ),
        Param::number("max_length", 256.0, 1.0, INF, "the constant of reduction=constant, in tokens")
            .idle_under("reduction", &["token_mean", "response_mean", "response_sum"]),
        Param::flag("mask_truncated", false, "give responses that were cut off weight 0"),
    ]
}

/// Reads [`reduction`].
pub(super) fn reduction_of(settings: &Settings) -> Reduction {
    match settings.word("reduction") {
        "token_mean" => Reduction::TokenMean,
        "response_mean" => Reduction::PerResponse,
        "response_sum" => Reduction::Constant(1.0),
        _ => Reduction::Constant(settings.number("max_length")),
    }
}

/// All settings of a method without a trace, in the order of tables.
pub(super) fn baseline_params(scale: &str, clip_form: &str, reduce: &str) -> Vec<Param> {
    [advantage(scale, None), clip(clip_form), kl(), reduction(reduce)].concat()
}

/// A method without a trace.
pub(super) fn baseline_method(settings: &Settings, baseline: Baseline) -> Box<dyn super::Method> {
    Box::new(crate::objective::Objective {
        outcome: outcome(settings, baseline),
        delta: crate::advantage::Delta::Constant,
        update: crate::objective::no_trace(),
        unit_mean: false,
        surrogate: surrogate(settings),
        kl: kl_term(settings),
        reduction: reduction_of(settings),
        mask_truncated: settings.flag("mask_truncated"),
    })
}
