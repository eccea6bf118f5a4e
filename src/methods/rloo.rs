//! RLOO: REINFORCE with a leave-one-out baseline.

use super::{Aggregate, Clip, Divisor, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::{Assignment, OutcomeCredit, OverResponses, PenalisedReward};
use crate::ratio::TraceRatio;
use crate::settings::{Param, Settings, choice};
use crate::trace::{Product, Token, Trace};

choice! {
    /// The ratio that the loss of a token sees.
    enum Ratio { "token" => Token, "product" => Product }
}

/// RLOO (Ahmadian et al. 2024; verl, OpenRLHF; TRL `RLOOTrainer`).
///
/// ```text
/// A_i = r_i - mean_{j != i} r_j
/// L   = (1/B) sum_i sum_t -rho A
/// ```
/// Expected update on-policy: the policy gradient exactly.
///
/// TRL's trainer clips the product of a response's ratios, once per response: `ratio=product clip=ppo reduction=response_mean`. Its `beta` is
/// `reward_beta`, its `normalize_advantages` is `normalise`. On-policy the product is 1, and the gradient is that of the sum over tokens.
pub static SPEC: MethodSpec = MethodSpec {
    name: "rloo",
    title: "RLOO",
    about: "rewards minus the mean of the other responses, no clip, sum over tokens, mean over responses",
    source: "Ahmadian et al. 2024; verl and OpenRLHF",
    provenance: Provenance::Published,
    samples: &[
        "",
        "ratio=product clip=ppo reduction=response_mean reward_beta=0.05 normalise=true reward_high=0.9",
        "correction=token_mask correction_high=2 correction_low=0.4",
    ],
    params,
    extra_inputs: shared::reward_kl_inputs,
    build: |settings| {
        let trace: Box<dyn Trace> = match settings.choice("ratio") {
            Ratio::Token => Box::new(Token),
            Ratio::Product => Box::new(Product),
        };
        shared::with_ratio(settings, credit(settings), Box::new(TraceRatio(trace)))
    },
};

/// Leave-one-out advantages of the clipped and penalised reward.
fn credit(settings: &Settings) -> Box<dyn Assignment> {
    let outcome = shared::outcome(settings, Baseline::LeaveOneOut);
    let low = settings.optional("reward_low").unwrap_or(f64::NEG_INFINITY);
    let high = settings.optional("reward_high").unwrap_or(f64::INFINITY);
    let beta = settings.number("reward_beta");
    let plain = beta == 0.0 && (low, high) == (f64::NEG_INFINITY, f64::INFINITY);
    let inner: Box<dyn Assignment> = match plain {
        true => Box::new(OutcomeCredit::constant(outcome)),
        false => Box::new(PenalisedReward { outcome, beta, bounds: (low, high.max(low)) }),
    };
    if settings.flag("normalise") { Box::new(OverResponses { inner, masked: true }) } else { inner }
}

/// The usual settings, with one more value of `scale`.
fn params() -> Vec<Param> {
    let mut params = shared::baseline_params(Divisor::None, Clip::None, Aggregate::ResponseSum);
    params[0] = Param::choice(
        "scale",
        Divisor::None,
        "what centred rewards are divided by: the standard deviation of the group, of the other responses of the group (NeMo-RL) or of the batch, or nothing",
    );
    let own = vec![
        Param::choice(
            "ratio",
            Ratio::Token,
            "ratio that the loss of a token sees: its own, or the product over its response (TRL's RLOOTrainer)",
        ),
        Param::number(
            "reward_beta",
            0.0,
            0.0,
            1e3,
            "coefficient of the KL of a response, summed over its tokens, in its reward (TRL: beta); not 0 needs ref_logps",
        ),
        Param::optional("reward_low", None, -1e6, 1e6, "smallest reward (TRL: reward_clip_range)"),
        Param::optional("reward_high", None, -1e6, 1e6, "largest reward"),
        Param::flag(
            "normalise",
            false,
            "centre and scale advantages over the responses of the batch (TRL: normalize_advantages)",
        ),
    ];
    [own, params].concat()
}
