//! GRPO-lambda in every variant of the paper.

use super::{Aggregate, Clip, Divisor, Method, MethodSpec, Provenance, shared};
use crate::advantage::{Baseline, Delta};
use crate::assignment::OutcomeCredit;
use crate::objective::Objective;
use crate::ratio::{PolicyRatio, TraceRatio, TraceWeight};
use crate::settings::{Param, Settings, choice};
use crate::soft_clamp::{SoftClamp, Squash, Variant};
use crate::trace::{AsPrinted, Both, Recent, RowIndex, RowNormalised, Style, Trace};

/// GRPO-lambda (arXiv 2510.00194).
///
/// ```text
/// update=trace    z = E x, l_t = -min(e^z_t delta_t, clip(e^z_t) delta_t)                   Algorithm 1
/// update=weight   l_t = (M v)_t * -min(rho_t delta_t, clip(rho_t) delta_t), v = 1+sigma(log pi - 1)   Algorithm 2
/// L = (1/sum T) sum_i sum_t [ l + beta k3 ],   delta_t = max(A_i, clamp),   q = gamma lambda
/// ```
/// On-policy, `update=trace` is GRPO with token `k` weighted by the trace's column sum `c_k`: 64 times GRPO's gradient on
/// average at `T = 256, q = 0.99`, and falling with `k`. Since `c_k` depends on the response's final length, the update is not
/// a gradient of expected reward when lengths vary. The defaults are the main text's formulas with the paper's lambda and
/// clamp; what the paper leaves open (gamma, epsilon, aggregation) is a setting.
pub static SPEC: MethodSpec = MethodSpec {
    name: "grpo_lambda",
    title: "GRPO-lambda",
    about: "GRPO with an eligibility trace over log-ratios (or in front of the loss), clamped z-scores, mean over tokens",
    source: "Parthasarathi, Reymond et al. 2025, arXiv 2510.00194v1 (no public code)",
    provenance: Provenance::PaperOnly,
    samples: &[
        "",
        "style=both clamp=none reduction=response_mean",
        "update=weight lambda=0.9 clip=printed",
        "delta=terminal lambda=0.5 normalise=mean beta=0.1 kl=ratio_k3",
    ],
    params,
    extra_inputs: shared::kl_inputs,
    build,
};

choice! {
    /// The place where the trace enters.
    enum Update { "trace" => Trace, "weight" => Weight }
}

choice! {
    enum Matrix { "equation" => Equation, "row_index" => RowIndex, "as_printed" => AsPrinted }
}

choice! {
    enum Normalise { "none" => None, "rows" => Rows, "mean" => Mean }
}

choice!(Style { "recent" => Recent, "both" => Both });
choice!(Delta { "constant" => Constant, "terminal" => Terminal });
choice!(Variant { "matrix" => Matrix, "elementwise" => Elementwise, "inner" => Inner });
choice!(Squash { "sigmoid" => Sigmoid, "tanh" => Tanh });

/// The update that has no soft clamp.
const TRACE: &[&str] = &["trace"];

fn params() -> Vec<Param> {
    [
        trace_params(),
        soft_clamp_params(),
        shared::advantage(Divisor::Group, Some(-0.1)),
        shared::loss(Clip::Ppo, Aggregate::TokenMean),
    ]
    .concat()
}

/// The settings of the trace, and of what it multiplies.
fn trace_params() -> Vec<Param> {
    vec![
        Param::number("lambda", 0.99, 0.0, 1.0, "trace decay; the paper uses 0.98 and 0.99"),
        Param::number(
            "gamma",
            1.0,
            0.0,
            1.0,
            "discount; the paper never gives it a value, its text assumes 1",
        ),
        Param::choice("style", Style::Recent, "trace style: Eq. 1 or Eq. 2"),
        Param::choice(
            "update",
            Update::Trace,
            "where the trace enters: the ratio (Algorithm 1) or in front of the loss (Algorithm 2)",
        ),
        Param::choice(
            "matrix",
            Matrix::Equation,
            "trace matrix: Eq. 1/2, Eq. 17/18 with n read as the row, or Eq. 17/18 literally",
        ),
        Param::number(
            "floor",
            0.0,
            0.0,
            1.0,
            "the undefined epsilon of Eq. 17/18; only for matrix=row_index|as_printed",
        )
        .idle_under("matrix", &["equation"]),
        Param::optional(
            "matrix_length",
            None,
            1.0,
            1e9,
            "side of the matrix of Eq. 17/18, whose last column is n (the paper's max_length); none: each response's own length",
        )
        .idle_under("matrix", &["equation", "row_index"]),
        Param::choice(
            "normalise",
            Normalise::None,
            "divide each row of the trace by its sum, or all of a response's weights by their mean",
        ),
        Param::choice(
            "delta",
            Delta::Constant,
            "delta_t: the advantage at every token (paper) or at the last one (TD errors of a constant critic)",
        ),
    ]
}

/// The settings of the soft clamp, without effect where the trace stands in the ratio.
fn soft_clamp_params() -> Vec<Param> {
    vec![
        Param::choice(
            "soft_clamp",
            Variant::Matrix,
            "variant of w @ (1+sigma(log pi - 1)) for update=weight",
        )
        .idle_under("update", TRACE),
        Param::choice("soft_function", Squash::Sigmoid, "squashing function for update=weight")
            .idle_under("update", TRACE),
        Param::flag("soft_gradient", true, "let the gradient flow through the soft clamp for update=weight")
            .idle_under("update", TRACE),
    ]
}

fn trace(settings: &Settings) -> Box<dyn Trace> {
    let q = settings.number("gamma") * settings.number("lambda");
    let floor = settings.number("floor");
    let max_length = settings.optional("matrix_length").map(|n| n as usize);
    let trace: Box<dyn Trace> = match (settings.choice("matrix"), settings.choice("style")) {
        (Matrix::Equation, Style::Recent) => Box::new(Recent { q }),
        (Matrix::Equation, Style::Both) => Box::new(Both { q }),
        (Matrix::RowIndex, style) => Box::new(RowIndex { q, floor, style }),
        (Matrix::AsPrinted, style) => Box::new(AsPrinted { q, floor, style, max_length }),
    };
    if normalise(settings) == Normalise::Rows { Box::new(RowNormalised(trace)) } else { trace }
}

fn normalise(settings: &Settings) -> Normalise {
    settings.choice("normalise")
}

fn soft_clamp(settings: &Settings) -> SoftClamp {
    SoftClamp {
        variant: settings.choice("soft_clamp"),
        squash: settings.choice("soft_function"),
        gradient: settings.flag("soft_gradient"),
    }
}

fn build(settings: &Settings) -> Box<dyn Method> {
    let trace = trace(settings);
    let delta = settings.choice("delta");
    let outcome = shared::outcome(settings, Baseline::GroupMean);
    let ratio: Box<dyn PolicyRatio> = match settings.choice("update") {
        Update::Trace => Box::new(TraceRatio(trace)),
        Update::Weight => Box::new(TraceWeight(trace, soft_clamp(settings))),
    };
    let spread = Box::new(OutcomeCredit { outcome, delta, overlong: None });
    Box::new(Objective {
        unit_mean: normalise(settings) == Normalise::Mean,
        ..shared::objective(settings, spread, ratio, shared::surrogate(settings))
    })
}
