//! S-trace, reconstructed.

use super::{Aggregate, Clip, MethodSpec, Provenance, p_trace, shared};
use crate::advantage::Baseline;
use crate::assignment::{Assignment, HighEntropy};
use crate::group::InputKind;
use crate::ratio::SelectiveTrace;
use crate::settings::{Param, choice};
use crate::trace::Clock;

choice!(Clock { "token" => Token, "selected" => Selected });

/// S-trace (arXiv 2605.05965), **reconstructed**: P-trace whose trace leaves out low-entropy tokens, after the abstract.
///
/// ```text
/// tau_t = exp( sum_{k<=t} M[t,k] x_k ),      M[t,k] ~ q^(n_t - n_k) h_k for k < t, and 1 for k = t,   rows summing to 1
/// h_k   = 1{H_k >= the 0.8 quantile of H over the batch}
/// clock=token      n_t = t                  clock=selected   n_t = the number of selected tokens up to t
/// ```
/// `mask_loss` also silences the loss of the tokens left out, as the 80/20 rule does. The share of 0.2 is that rule's, not this
/// paper's. (One summary on the web says that high-entropy tokens are masked; the abstract, followed here, says low.)
pub static SPEC: MethodSpec = MethodSpec {
    name: "s_trace_reconstructed",
    title: "S-trace (reconstructed)",
    about: "P-trace over high-entropy tokens only: decayed mean of their log-ratios and the current token's, PPO clip, token mean; reconstructed from an abstract",
    source: "abstract of Mou et al. 2026, arXiv 2605.05965; every formula is ours, the share that of arXiv 2506.01939",
    provenance: Provenance::Reconstructed,
    samples: &[
        "",
        "entropy_threshold=0.4 clock=selected mask_loss=true",
        "entropy_scope=response top_fraction=0.5 normalise_rows=false clip=none",
        "entropy_threshold=0.6 clip=none",
    ],
    params: || {
        let own = vec![
            p_trace::lambda(),
            Param::choice("clock", Clock::Token, "what decays the trace: every token, or every selected one"),
            Param::flag("normalise_rows", true, "divide each row of the trace by its sum"),
            Param::flag("mask_loss", false, "no policy term at the tokens that are not selected"),
        ];
        [own, shared::selection(), shared::z_score(), shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Entropies),
    build: |settings| {
        let selection = shared::selection_of(settings);
        let ratio = SelectiveTrace {
            q: settings.number("lambda"),
            clock: settings.choice("clock"),
            normalised: settings.flag("normalise_rows"),
            selection,
        };
        let spread = shared::spread(settings, Baseline::GroupMean);
        let assignment: Box<dyn Assignment> = match settings.flag("mask_loss") {
            true => Box::new(HighEntropy { inner: spread, selection }),
            false => spread,
        };
        shared::with_ratio(settings, assignment, Box::new(ratio))
    },
};
