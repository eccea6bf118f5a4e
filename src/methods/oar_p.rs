//! OAR-P: advantages reshaped by counterfactual shifts.

use super::{Aggregate, Clip, Method, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::{Answer, BiLevel, Reshaped, Threshold, TokenScores};
use crate::group::InputKind;
use crate::settings::{Param, Settings, choice};

choice!(Answer { "answer_mean" => Mean, "answer_joint" => Joint, "last" => Last });
choice!(Threshold { "quantile" => Quantile, "raw" => Raw });

/// OAR-P (arXiv 2601.07408): GRPO with each reasoning token's advantage weighted by how far masking it moves the answer.
///
/// ```text
/// I_t = KL( P(answer) || P(answer | token t masked) ),      A_{i,t} = A_i w_t(I),      w: bi-level reshaping
/// ```
/// The shifts are extra inputs; `pfinal` and `mask_token` say how a policy takes them. One extra scored sequence per reasoning token.
/// With `answer_joint` a shift may be negative and counts as 0. See [`BiLevel`] for what code and README disagree about.
pub static SPEC: MethodSpec = MethodSpec {
    name: "oar_p",
    title: "OAR-P",
    about: "z-scored group rewards times bi-level weights of counterfactual shifts, PPO clip, mean over responses of their token mean",
    source: "arXiv 2601.07408; the authors' code (Valsure/Outcome-Grounded-Advantage-Reshaping) and README",
    provenance: Provenance::Published,
    samples: &[""],
    params: || {
        let mask = Param::optional(
            "mask_token",
            None,
            0.0,
            f64::from(u32::MAX),
            "id that takes a masked token's place; none: the padding token, or the end token where there is no padding token",
        );
        [vec![pfinal(), mask], reshaping()].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Shifts),
    build: |settings| {
        let mask = settings.optional("mask_token");
        build(settings, TokenScores::Shifts { answer: settings.choice("pfinal"), mask })
    },
};

/// `pfinal`.
pub(super) fn pfinal() -> Param {
    Param::choice(
        "pfinal",
        Answer::Mean,
        "what stands for the answer: the softmax of its mean logits, its log-likelihood, or a single distribution",
    )
}

/// The settings of OAR-P and OAR-G from the scores on.
pub(super) fn reshaping() -> Vec<Param> {
    let own = vec![
        Param::number(
            "threshold",
            0.25,
            0.0,
            1.0,
            "quantile (or value) of normalised scores below which a token is suppressed",
        ),
        Param::choice(
            "threshold_on",
            Threshold::Quantile,
            "the threshold is a quantile of the response's scores (authors' code) or the value itself (README)",
        ),
        Param::number(
            "boost",
            1.0,
            0.0,
            100.0,
            "how far above 1 the weight of the highest score rises (their beta)",
        ),
        Param::number("floor", 0.1, 0.0, 1.0, "smallest weight of a suppressed token"),
        Param::flag("log1p", true, "compress scores by log(1 + score) (authors' code; not in the README)"),
        Param::flag("preserve_mass", true, "scale the weights to sum to the number of reasoning tokens"),
    ];
    [own, shared::z_score(), shared::loss(Clip::Ppo, Aggregate::ResponseMean)].concat()
}

/// GRPO reshaped by some scores.
pub(super) fn build(settings: &Settings, scores: TokenScores) -> Box<dyn Method> {
    let bi_level = BiLevel {
        threshold: settings.number("threshold"),
        on: settings.choice("threshold_on"),
        boost: settings.number("boost"),
        floor: settings.number("floor"),
        log1p: settings.flag("log1p"),
        mass: settings.flag("preserve_mass"),
    };
    let inner = shared::spread(settings, Baseline::GroupMean);
    shared::plain(settings, Box::new(Reshaped { inner, scores, bi_level }))
}
