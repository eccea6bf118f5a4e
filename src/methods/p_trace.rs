//! P-trace, reconstructed.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::ratio::{ClippedTrace, HistoryWeight, PolicyRatio, TraceRatio};
use crate::settings::{Param, choice};
use crate::trace::{Recent, RowNormalised};

choice! {
    /// The variants of the abstract.
    enum Form {
        "normalised" => Normalised,
        "history" => History,
        "history_gradient" => HistoryGradient,
        "accumulated" => Accumulated,
        "clipped" => Clipped,
    }
}

/// P-trace (arXiv 2605.05965), **reconstructed**: of the paper only the abstract is known to us, no formula, no setting.
///
/// ```text
/// form=normalised        tau_t = exp( sum_{k<=t} q^(t-k) x_k / sum_{k<=t} q^(t-k) )      default (B)
/// form=history           w_t = sg exp( sum_{k<t} q^(t-k) x_k ),  l_t = -w_t min(rho A, clip(rho) A)          A
/// form=history_gradient  the same with the gradient through w_t                                              A'
/// form=accumulated       tau_t = exp( sum_{k<=t} q^(t-k) x_k ), GRPO-lambda's ratio                          C
/// form=clipped           tau_t = exp( sum_{k<=t} q^(t-k) log clip(rho_k) )                                   D
/// L = 1/(sum T) sum_i sum_t -min(tau A, clip(tau) A),      q = lambda
/// ```
/// Why B: at `lambda = 1` its last row is GSPO's ratio, and the abstract calls GSPO the special case of uniform credit; if every
/// token ratio lies in the clip interval so does every trace ratio ("partial trust region preservation"); its weights sum to
/// `T`, so it hides no learning rate. `lambda` has no source either.
pub static SPEC: MethodSpec = MethodSpec {
    name: "p_trace_reconstructed",
    title: "P-trace (reconstructed)",
    about: "z-scored group rewards, ratio of a decayed mean of log-ratios up to each token, PPO clip, token mean; reconstructed from an abstract",
    source: "abstract of Mou et al. 2026, arXiv 2605.05965; every formula is ours",
    provenance: Provenance::Reconstructed,
    samples: &[
        "",
        "form=history lambda=0.8",
        "form=history_gradient lambda=0.8 clip=none",
        "form=clipped reduction=response_mean",
    ],
    params: || {
        let own = vec![
            lambda(),
            Param::choice(
                "form",
                Form::Normalised,
                "variant: decayed mean of log-ratios, held or live decayed ratio of the history in front of the loss, decayed sum, decayed sum of clipped log-ratios",
            ),
        ];
        // form=clipped reads the bounds whatever the clip.
        let unless = |p: Param| p.idle_unless("form", "clipped");
        let loss = shared::loss(Clip::Ppo, Aggregate::TokenMean).into_iter();
        let loss = loss.map(|p| if p.key.starts_with("epsilon_") { unless(p) } else { p }).collect();
        [own, shared::z_score(), loss].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let q = settings.number("lambda");
        let recent = Recent { q };
        let ratio: Box<dyn PolicyRatio> = match settings.choice("form") {
            Form::Normalised => Box::new(TraceRatio(Box::new(RowNormalised(recent)))),
            Form::History => Box::new(HistoryWeight { q, gradient: false }),
            Form::HistoryGradient => Box::new(HistoryWeight { q, gradient: true }),
            Form::Accumulated => Box::new(TraceRatio(Box::new(recent))),
            Form::Clipped => {
                let (low, high) = (settings.number("epsilon_low"), settings.number("epsilon_high"));
                Box::new(ClippedTrace { trace: Box::new(recent), low, high })
            }
        };
        shared::with_ratio(settings, shared::spread(settings, Baseline::GroupMean), ratio)
    },
};

/// `lambda`.
pub(super) fn lambda() -> Param {
    Param::number("lambda", 0.99, 0.0, 1.0, "trace decay; no source gives it a value")
}
