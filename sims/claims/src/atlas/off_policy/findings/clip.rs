//! The clip's bounds on a reused batch, and the worth of the batch.

use crate::atlas::entrants::BASELINE;
use crate::atlas::off_policy::cases::{FIRST_STEP, UPDATES};
use crate::atlas::off_policy::measure::{Numbers, Reused};
use crate::atlas::off_policy::over_tasks::{mean_share, methods};
use crate::atlas::off_policy::regions::Regions;
use crate::atlas::off_policy::row::Mode;
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::common::text::{list, percent};

pub(super) fn bound(n: &Numbers) -> Finding {
    let last = UPDATES as f64;
    let of = |name: &str, f: fn(&Regions) -> f64| mean_share(&n.rows, Mode::Inner, name, last, f);
    let other_side = |name: &str| of(name, |r| r.raised_low + r.lowered_high);
    let printed = of("GRPO, printed clip", |r| r.lowered_low);
    let say = |name: &str| {
        format!(
            "{name}: {} raised and above, {} lowered and below, {} without gradient",
            percent(of(name, |r| r.raised_high)),
            percent(of(name, |r| r.lowered_low)),
            percent(of(name, |r| r.silent))
        )
    };
    finding(
        "After updates on the same batch the clip binds where it should: raised tokens above 1+ε, lowered tokens below 1-ε",
        holds_when(
            methods(&n.rows).iter().all(|name| other_side(name) == 0.0),
            other_side(BASELINE) == 0.0 && printed == 0.0,
            format!(
                "the clip is PPO's. As printed in GRPO-λ's algorithms it never binds below; and a trace binds for more tokens than their own ratios would: {} of the tokens of GRPO-λ recent against {} of GRPO after {UPDATES} updates",
                percent(of("GRPO-λ recent", Regions::bound)),
                percent(of(BASELINE, Regions::bound))
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
    let of = |name: &str| n.reused.iter().filter(|r| r.method == name).collect::<Vec<&Reused>>();
    let everywhere = names.iter().filter(|name| of(name).iter().all(|r| r.more[0] > 0.0)).count();
    let lost = |name: &&str| {
        let lost: Vec<&str> = of(name).iter().filter(|r| r.more[2] < 0.0).map(|r| r.mdp.as_str()).collect();
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
