//! Trust regions and products of ratios.

use grpo_lambda_mdp::expected::RatioCredit;

use crate::atlas::off_policy::measure::Numbers;
use crate::atlas::off_policy::products::OfProduct;
use crate::atlas::off_policy::trust_region::{BOTH, Pair, Q, RECENT, traces};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, holds_or};
use crate::experiments::common::text::{percent, short};
use crate::experiments::common::vectors::{extremes, largest};

pub(super) fn token_ratios(n: &Numbers) -> Finding {
    let [recent, both] = [RECENT, BOTH].map(|name| {
        n.synthetic.iter().find(|s| s.lambda == Q && s.trace == name).map_or(f64::NAN, |s| s.outside)
    });
    finding(
        "If every token's ratio lies in [1-ε, 1+ε], so does the ratio that GRPO-λ clips",
        holds_or(
            recent == 0.0 && both == 0.0,
            format!(
                "64 tokens, log-ratios uniform in [log 0.8, log 1.2], λ = 0.99: {} of the trace ratios of style recent lie outside, {} of style both",
                percent(recent),
                percent(both)
            ),
        ),
        format!(
            "the rows of the trace sum to up to 1/(1-λ): log-ratios add up, with a mean of ½ log 0.96 = {:.4} per token as well, because the interval is not symmetric in log",
            0.5 * 0.96f64.ln()
        ),
    )
}

/// The largest share of trace ratios outside in responses whose tokens stay inside, with the trace and the pair.
fn worst(n: &Numbers, convex: bool) -> Option<(f64, &'static str, &Pair)> {
    let traces = traces(Q);
    let all = n.pairs.iter().flat_map(|p| {
        let of = traces.iter().zip(&p.outside_though_inside).filter(|(t, _)| t.convex == convex);
        of.map(move |(t, share)| (*share, t.name, p))
    });
    all.max_by(|a, b| a.0.total_cmp(&b.0))
}

pub(super) fn weighted_means(n: &Numbers) -> Finding {
    let in_pairs = worst(n, true).map_or(0.0, |(share, ..)| share);
    let synthetic = largest(n.synthetic.iter().filter(|s| s.convex).map(|s| s.outside));
    let summed = worst(n, false).map_or(String::new(), |(share, name, pair)| {
        format!(
            "; among pairs of policies on a chain of 48 steps, {name} does worst at \"{}\" (KL {} nats per response): {} of the trace ratios leave it in responses none of whose tokens does",
            pair.name,
            short(pair.kl),
            percent(share)
        )
    });
    finding(
        "A trace whose rows are weighted means (P-trace as reconstructed, GSPO) keeps the trust region: its ratio stays in the interval if all token ratios do",
        holds_or(
            synthetic == 0.0 && in_pairs == 0.0,
            format!("{} outside", percent(in_pairs.max(synthetic))),
        ),
        format!(
            "a convex combination of numbers in an interval lies in it: {} outside in 7 decays of synthetic responses and {} in {} real pairs{summed}",
            percent(synthetic),
            percent(in_pairs),
            n.pairs.len()
        ),
    )
}

pub(super) fn exact_products(n: &Numbers) -> Finding {
    let exact = |credit: RatioCredit| -> Vec<&str> {
        n.products.rows.iter().filter(|p| p.credit == credit && p.exact()).map(|p| p.name).collect()
    };
    let (outcome, advantage) = (exact(RatioCredit::Outcome), exact(RatioCredit::Advantage));
    let inexact = n.products.rows.iter().filter(|p| !OfProduct::exact(p));
    let (least, _) = extremes(inexact.map(|p| p.largest));
    finding(
        "Off-policy without a clip only the product of ratios over the whole response makes an outcome reward the policy gradient; with the true advantage the product over the prefix does, too",
        holds_or(
            outcome == ["product over the response"]
                && advantage == ["product over the response", "product over the prefix"],
            format!("exact with R/T: {outcome:?}; with A: {advantage:?}"),
        ),
        format!(
            "{} pairs of random policies on random MDPs, seven ratios; each of the others is off by at least {} of |∇J| somewhere",
            n.products.mdps,
            percent(least)
        ),
    )
}
