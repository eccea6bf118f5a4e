//! The statements and their verdicts.

pub(super) mod noise;
mod printed;
mod prose;

use super::Audit;
use super::gains::{Estimate, Gain};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{finding, finding_on};

/// All findings, the paper's headline first.
pub(super) fn all(audit: &Audit) -> Vec<Finding> {
    vec![
        noise::headline(audit),
        noise::benchmark_gain(audit),
        noise::multiplicity(audit),
        noise::selection(audit),
        noise::run_spread(audit),
        noise::detectable(audit),
        printed::printed_averages(audit),
        printed::whole_numbers(audit),
        printed::table1_rows(audit),
        printed::table1_caption(audit),
        prose::three_points(audit),
        prose::seven_b(audit),
        prose::math_rl(audit),
        prose::aime_ten(audit),
        prose::improvement_range(),
        prose::orz(audit),
        prose::math_rl_is_good(audit),
        prose::grows_with_size(audit),
        prose::llama_is_weaker(audit),
    ]
}

fn holds_or(holds: bool, why_not: impl FnOnce() -> String) -> Verdict {
    if holds { Verdict::Holds } else { Verdict::Fails(why_not()) }
}

/// `a 1, b 2`
fn list<T>(items: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> String {
    items.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Three decimals, or a power of ten when they would be zeros.
fn p_value(p: f64) -> String {
    if p < 0.001 { format!("{p:.0e}") } else { format!("{p:.3}") }
}

fn estimates(gains: &[Gain]) -> Vec<Estimate> {
    gains.iter().map(Gain::estimate).collect()
}
