//! Settings that several methods share, declared and read in one place.

use super::Method;
use super::sampler;
use crate::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
use crate::assignment::{Assignment, EntropySelection, OutcomeCredit, Scope};
use crate::group::InputKind;
use crate::kl::Kl;
use crate::objective::Objective;
use crate::ratio::{PolicyRatio, TraceRatio};
use crate::reduction::Reduction;
use crate::settings::{Kind, Param, SettingError, Settings, choice};
use crate::surrogate::Surrogate;
use crate::systematic::Sets;
use crate::trace::Token;

const INF: f64 = f64::INFINITY;

/// The value of `scale` under which there is no standard deviation.
const UNSCALED: &[&str] = &["none"];

choice! {
    /// The words of `scale`. `others` is RLOO's alone.
    pub(super) enum Divisor { "group" => Group, "others" => Others, "batch" => Batch, "none" => None }
}

choice! {
    /// The words of `std_preset`.
    pub(super) enum Preset {
        "trl" => Trl,
        "verl" => Verl,
        "understand_r1_zero" => UnderstandR1Zero,
        "openrlhf" => OpenRlhf,
        "deepseekmath" => DeepSeekMath,
    }
}

choice! {
    /// The words of `std_ddof`.
    enum Ddof { "none" => OfPreset, "0" => Zero, "1" => One }
}

choice! {
    /// The words of `clip`.
    pub(super) enum Clip { "ppo" => Ppo, "printed" => Printed, "two_sided" => TwoSided, "none" => None }
}

choice! {
    /// The words of `reduction`.
    pub(super) enum Aggregate {
        "token_mean" => TokenMean,
        "group_token_mean" => GroupTokenMean,
        "response_mean" => ResponseMean,
        "response_sum" => ResponseSum,
        "constant" => Constant,
    }
}

choice!(Scope { "batch" => Batch, "response" => Response });

choice!(Kl {
    "k1" => K1,
    "k2" => K2,
    "k3" => K3,
    "ratio_k3" => RatioK3,
    "response_ratio_k3" => ResponseRatioK3,
    "abs" => Abs,
    "k1_k2" => K1K2,
    "k3_k2" => K3K2,
});

/// [`advantage`] of a z-score in the group.
pub(super) fn z_score() -> Vec<Param> {
    advantage(Divisor::Group, None)
}

/// [`clip`], [`kl`] and [`reduction`]: all that follows the advantages.
pub(super) fn loss(form: Clip, reduce: Aggregate) -> Vec<Param> {
    [clip(form), kl(), reduction(reduce)].concat()
}

/// `scale`, `std_preset`, `std_ddof`, `std_epsilon`, `clamp`.
pub(super) fn advantage(scale: Divisor, clamp: Option<f64>) -> Vec<Param> {
    let clamp = Param::optional(
        "clamp",
        clamp,
        -INF,
        0.0,
        "lower bound of the advantage (the GRPO-lambda paper: -0.1)",
    );
    [self::scale(scale, Preset::Trl), vec![clamp]].concat()
}

/// `scale`, `std_preset`, `std_ddof`, `std_epsilon`.
pub(super) fn scale(scale: Divisor, preset: Preset) -> Vec<Param> {
    let about =
        "what centred rewards are divided by: the standard deviation of the group or the batch, or nothing";
    vec![
        Param { kind: Kind::Choice(&["group", "batch", "none"]), ..Param::choice("scale", scale, about) },
        Param::choice("std_preset", preset, "whose ddof and epsilon the standard deviation uses")
            .idle_under("scale", UNSCALED),
        Param::choice("std_ddof", Ddof::OfPreset, "ddof of the standard deviation; none: the preset's")
            .idle_under("scale", UNSCALED),
        Param::optional("std_epsilon", None, 0.0, INF, "added to the standard deviation; none: the preset's")
            .idle_under("scale", UNSCALED),
    ]
}

/// Reads [`advantage`], or [`scale`] alone.
pub(super) fn outcome(settings: &Settings, baseline: Baseline) -> OutcomeAdvantage {
    let mut std = match settings.choice("std_preset") {
        Preset::Trl => Std::TRL,
        Preset::Verl => Std::VERL,
        Preset::UnderstandR1Zero => Std::UNDERSTAND_R1_ZERO,
        Preset::OpenRlhf => Std::OPENRLHF,
        Preset::DeepSeekMath => Std::DEEPSEEKMATH,
    };
    match settings.choice("std_ddof") {
        Ddof::OfPreset => {}
        Ddof::Zero => std.ddof = 0,
        Ddof::One => std.ddof = 1,
    }
    if let Some(epsilon) = settings.optional("std_epsilon") {
        std.epsilon = epsilon;
    }
    let scale = match settings.choice("scale") {
        Divisor::Group => Scale::Group(std),
        Divisor::Others => Scale::Others(std),
        Divisor::Batch => Scale::Batch(std),
        Divisor::None => Scale::None,
    };
    let clamp = if settings.has("clamp") { settings.optional("clamp") } else { None };
    OutcomeAdvantage { baseline, scale, clamp }
}

/// `clip`, `epsilon_low`, `epsilon_high`, `clip_max`.
pub(super) fn clip(form: Clip) -> Vec<Param> {
    clip_between(form, 0.2, 0.2)
}

/// PPO's [`clip`] with other defaults of the bounds.
pub(super) fn clip_at(low: f64, high: f64) -> Vec<Param> {
    clip_between(Clip::Ppo, low, high)
}

fn clip_between(form: Clip, low: f64, high: f64) -> Vec<Param> {
    vec![
        Param::choice(
            "clip",
            form,
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
    match settings.choice("clip") {
        Clip::Ppo => Surrogate::Clip { low, high },
        Clip::Printed => Surrogate::Printed { high },
        Clip::TwoSided => Surrogate::TwoSided { low, high, delta: settings.number("clip_max") },
        Clip::None => Surrogate::Unclipped,
    }
}

/// Refuses what the range of a single setting cannot: a cap of the two-sided clip inside the clip itself, a penalty of overlong responses that
/// begins below no token, and a smallest reward above the largest.
pub(super) fn check_together(settings: &Settings) -> Result<(), SettingError> {
    let refused = |key: &str, expected: String| {
        let (key, value) = (key.to_owned(), settings.word(key).to_owned());
        Err(SettingError::Invalid { key, value, expected })
    };
    if settings.has("clip_max") && settings.choice::<Clip>("clip") == Clip::TwoSided {
        let bound = 1.0 + settings.number("epsilon_high");
        if settings.number("clip_max") < bound {
            return refused("clip_max", format!("at least 1 + epsilon_high = {bound}"));
        }
    }
    if settings.has("reward_beta") && settings.number("reward_beta") != 0.0 && settings.number("beta") != 0.0
    {
        return refused("reward_beta", "0 where beta is not 0, or the KL penalty counts twice".to_owned());
    }
    if settings.has("reward_low")
        && let (Some(low), Some(high)) = (settings.optional("reward_low"), settings.optional("reward_high"))
        && high < low
    {
        return refused("reward_high", format!("at least reward_low = {low}"));
    }
    if sampler::rejects_all(settings) {
        return refused("reject_high", "at least reject_low, and at least 1 where that is none".to_owned());
    }
    if settings.has("overlong_limit")
        && let Some(limit) = settings.optional("overlong_limit")
        && settings.number("overlong_cache") > limit
    {
        let expected = format!("at most overlong_limit = {limit}, or every response is penalised");
        return refused("overlong_cache", expected);
    }
    Ok(())
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
            Kl::K3,
            "estimator of the KL to the reference policy; k1_k2 and k3_k2 have the gradient of k2 (verl's k1+, k3+)",
        )
        .idle_under("beta", &["0"]),
    ]
}

/// Reads [`kl`].
pub(super) fn kl_term(settings: &Settings) -> Option<(Kl, f64)> {
    let beta = settings.number("beta");
    (beta != 0.0).then(|| (settings.choice("kl"), beta))
}

/// `sets`.
pub(super) fn sets() -> Param {
    let about = "systematic sets of a group, consecutive blocks of responses, rounded to a whole number; must be those of the sampler";
    Param::number("sets", 2.0, 2.0, INF, about)
}

/// Reads [`sets`].
pub(super) fn sets_of(settings: &Settings) -> Sets {
    Sets::new(settings.number("sets").round() as usize)
}

/// Reference log-probabilities when there is a KL term, those of the sampler when its mismatch is corrected.
pub(super) fn kl_inputs(settings: &Settings) -> Vec<InputKind> {
    let reference = kl_term(settings).map(|_| InputKind::RefLogps);
    let sampler = sampler::compares(settings).then_some(InputKind::SamplerLogps);
    reference.into_iter().chain(sampler).collect()
}

/// The extra inputs of [`kl_inputs`], and the reference where `reward_beta` asks for it.
pub(super) fn reward_kl_inputs(settings: &Settings) -> Vec<InputKind> {
    let mut kinds = kl_inputs(settings);
    if settings.number("reward_beta") != 0.0 && !kinds.contains(&InputKind::RefLogps) {
        kinds.insert(0, InputKind::RefLogps);
    }
    kinds
}

/// `reduction`, `max_length`, `mask_truncated`, and the settings of [`sampler::params`].
pub(super) fn reduction(default: Aggregate) -> Vec<Param> {
    let own = vec![
        Param::choice(
            "reduction",
            default,
            "how token losses become one number: mean over all tokens of the batch, mean over groups of their token mean, mean over responses of their token mean or token sum, or sum over tokens / (responses * max_length)",
        ),
        Param::number("max_length", 256.0, 1.0, INF, "the constant of reduction=constant, in tokens")
            .idle_under("reduction", &["token_mean", "group_token_mean", "response_mean", "response_sum"]),
        Param::flag("mask_truncated", false, "give responses that were cut off weight 0"),
    ];
    [own, sampler::params()].concat()
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
        )
        .idle_unless("entropy_threshold", "none"),
        Param::choice(
            "entropy_scope",
            Scope::Batch,
            "what the share is taken of: all tokens of the batch, or those of each response",
        )
        .idle_unless("entropy_threshold", "none"),
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
    let scope = settings.choice("entropy_scope");
    let top = EntropySelection::Top { top: settings.number("top_fraction"), scope };
    settings.optional("entropy_threshold").map_or(top, EntropySelection::AtLeast)
}

/// Reads [`reduction`].
pub(super) fn reduction_of(settings: &Settings) -> Reduction {
    match settings.choice("reduction") {
        Aggregate::TokenMean => Reduction::TokenMean,
        Aggregate::GroupTokenMean => Reduction::GroupTokenMean,
        Aggregate::ResponseMean => Reduction::PerResponse,
        Aggregate::ResponseSum => Reduction::Constant(1.0),
        Aggregate::Constant => Reduction::Constant(settings.number("max_length")),
    }
}

/// All settings of a method without a trace, in the order of tables.
pub(super) fn baseline_params(scale: Divisor, form: Clip, reduce: Aggregate) -> Vec<Param> {
    [advantage(scale, None), loss(form, reduce)].concat()
}

/// One advantage at every token, with the settings of [`advantage`] or [`scale`].
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
    let objective = Objective {
        assignment,
        ratio,
        unit_mean: false,
        surrogate,
        kl: kl_term(settings),
        reduction: reduction_of(settings),
        mask_truncated: settings.flag("mask_truncated"),
        correction: None,
        rejection: None,
        off_policy: None,
    };
    sampler::corrected(settings, objective)
}

/// Extra inputs of the KL term and of the method itself.
pub(super) fn with_kl(settings: &Settings, own: InputKind) -> Vec<InputKind> {
    [vec![own], kl_inputs(settings)].concat()
}

/// The ratio of the methods that have no trace: the token's own.
pub(super) fn token_ratio() -> Box<dyn PolicyRatio> {
    Box::new(TraceRatio(Box::new(Token)))
}
