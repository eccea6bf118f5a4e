//! Trust regions: trace ratios against token ratios, weighted means, the clip's bounds and the reuse of a batch.

use crate::atlas::entrants::BASELINE;
use crate::atlas::off_policy::cases::{FIRST_STEP, UPDATES};
use crate::atlas::off_policy::measure::{Numbers, Reused};
use crate::atlas::off_policy::regions::Regions;
use crate::atlas::off_policy::row::{Mode, mean_share, methods};
use crate::atlas::off_policy::trust_region::{BOTH, Pair, Q, RECENT, traces};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::{list, percent, short};
use crate::experiments::common::vectors::largest;

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
        let outside = traces.iter().zip(&p.outside_though_inside).filter(|(t, _)| t.convex == convex);
        outside.map(move |(t, share)| (*share, t.name, p))
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

pub(super) fn bound(n: &Numbers) -> Finding {
    let last = UPDATES as f64;
    let share = |name: &str, f: fn(&Regions) -> f64| mean_share(&n.rows, Mode::Inner, name, last, f);
    let other_side = |name: &str| share(name, |r| r.raised_low + r.lowered_high);
    let printed = share("GRPO, printed clip", |r| r.lowered_low);
    let say = |name: &str| {
        format!(
            "{name}: {} raised and above, {} lowered and below, {} without gradient",
            percent(share(name, |r| r.raised_high)),
            percent(share(name, |r| r.lowered_low)),
            percent(share(name, |r| r.silent))
        )
    };
    finding(
        "After updates on the same batch the clip binds where it should: raised tokens above 1+ε, lowered tokens below 1-ε",
        holds_when(
            methods(&n.rows).iter().all(|name| other_side(name) == 0.0),
            other_side(BASELINE) == 0.0 && printed == 0.0,
            format!(
                "the clip is PPO's. As printed in GRPO-λ's algorithms it never binds below; and a trace binds for more tokens than their own ratios would: {} of the tokens of GRPO-λ recent against {} of GRPO after {UPDATES} updates",
                percent(share("GRPO-λ recent", Regions::bound)),
                percent(share(BASELINE, Regions::bound))
            ),
            format!("GRPO binds on the other side, or the printed clip below: {}", percent(printed)),
        ),
        format!(
            "share of tokens after {UPDATES} updates whose first moves by {FIRST_STEP} nats, mean over tasks; GSPO with its published bounds, narrow for responses this short. {}",
            [
                BASELINE,
                "GRPO, printed clip",
                "GRPO-λ recent",
                "GRPO-λ both",
                "P-trace (recon.)",
                "GSPO",
                "CISPO"
            ]
            .map(say)
            .join("; ")
        ),
    )
}

pub(super) fn reuse(n: &Numbers) -> Finding {
    let mut names: Vec<&str> = Vec::new();
    for r in &n.reused {
        if !names.contains(&r.method.as_str()) {
            names.push(&r.method);
        }
    }
    let reused_by = |name: &str| n.reused.iter().filter(|r| r.method == name).collect::<Vec<&Reused>>();
    let everywhere = names.iter().filter(|name| reused_by(name).iter().all(|r| r.more[0] > 0.0)).count();
    let lost = |name: &&str| {
        let lost: Vec<&str> =
            reused_by(name).iter().filter(|r| r.more[2] < 0.0).map(|r| r.mdp.as_str()).collect();
        (!lost.is_empty()).then(|| format!("{name} ({})", lost.join(", ")))
    };
    let somewhere: Vec<String> = names.iter().filter_map(lost).collect();
    finding(
        format!("{UPDATES} updates on a batch of one group raise J above what the first one did"),
        holds_or(
            everywhere == names.len(),
            format!(
                "for {everywhere} of {} methods on every task (95 % interval above 0); J falls below that of the first update for {}",
                names.len(),
                list(&somewhere)
            ),
        ),
        format!(
            "exact J, {} batches of 8 responses per method and task, each method at the rate at which its expected first update moves {FIRST_STEP} nats per response",
            n.batches
        ),
    )
}
