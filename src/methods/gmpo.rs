//! GMPO: the geometric mean of clipped token ratios.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::ratio::ClippedMean;
use crate::settings::Param;
use crate::surrogate::Surrogate;

/// GMPO, geometric-mean policy optimisation. See [`ClippedMean`] for the ratio.
///
/// ```text
/// L = (1/B) sum_i -A_i exp( (1/T_i) sum_t y_t ),      y_t = x_t clipped to [-0.4, 0.4] on the side of the advantage
/// ```
/// Every token is clipped by itself, before the mean: a response keeps the gradient of the tokens inside. On-policy it is GRPO's gradient.
pub static SPEC: MethodSpec = MethodSpec {
    name: "gmpo",
    title: "GMPO",
    about: "z-scored group rewards, geometric mean of token ratios that are clipped one by one, mean over responses",
    source: "arXiv 2507.20673; verl loss_mode=geo_mean",
    provenance: Provenance::Published,
    samples: &["log_low=0.1 log_high=0.2"],
    params: || {
        let bound = |key, about| Param::number(key, 0.4, 0.0, 20.0, about);
        let clip = vec![
            bound("log_low", "largest fall of a log-probability, in nats"),
            bound("log_high", "largest rise of a log-probability, in nats"),
        ];
        [clip, shared::z_score(), shared::kl(), shared::reduction(Aggregate::ResponseMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let ratio = ClippedMean { low: settings.number("log_low"), high: settings.number("log_high") };
        let spread = shared::spread(settings, Baseline::GroupMean);
        Box::new(shared::objective(settings, spread, Box::new(ratio), Surrogate::Unclipped))
    },
};
