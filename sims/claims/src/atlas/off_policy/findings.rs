//! Findings: trust regions, the clip's bounds and the reuse of a batch; the direction of expected updates off-policy.

use super::measure::{FIRST_STEP, Numbers, UPDATES};
use super::pairs::{BOTH, Q, RECENT};
use super::row::{Mode, Regions, corrections, mean_cosine, mean_share, methods, select};
use crate::atlas::entries::BASELINE;
use crate::experiment::Finding;
use crate::experiments::common::{distinct, extremes, holds_or, holds_when, largest};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![token_ratios(n), weighted_means(n), stale(n), bound(n), mismatch(n), reuse(n)]
}

fn token_ratios(n: &Numbers) -> Finding {
    let own = n.synthetic.iter().filter(|s| s.lambda == Q && [RECENT, BOTH].contains(&s.trace));
    Finding::new(
        "token_ratios",
        "If every token's ratio lies in [1-ε, 1+ε], so does the ratio that GRPO-λ clips",
        holds_or(largest(own.map(|s| s.outside)) == 0.0, "log-ratios add up along the rows of its trace"),
    )
    .rows("trust_region", &["lambda", "trace", "share_outside"])
    .only("lambda", &[Q])
    .only("trace", &[RECENT, BOTH])
    .note("64 tokens with log-ratios uniform in [log 0.8, log 1.2]. The rows of the trace sum to up to 1/(1-λ); the mean of a log-ratio, ½ log 0.96, adds up as well.")
}

fn weighted_means(n: &Numbers) -> Finding {
    let in_pairs = |convex: bool| {
        largest(n.pairs.iter().filter(|p| p.convex == convex).map(|p| p.outside_though_inside))
    };
    let synthetic = largest(n.synthetic.iter().filter(|s| s.convex).map(|s| s.outside));
    Finding::new(
        "weighted_means",
        "A trace whose rows are weighted means (P-trace as reconstructed, GSPO) keeps the trust region: its ratio stays in the interval if all token ratios do",
        holds_or(synthetic == 0.0 && in_pairs(true) == 0.0, "some leave it"),
    )
    .value("largest share outside, synthetic responses", synthetic)
    .value("largest share outside, real pairs", in_pairs(true))
    .value("that of the traces of GRPO-λ", in_pairs(false))
    .value("pairs", distinct(n.pairs.iter().map(|p| &p.pair)).len())
    .note("A convex combination of numbers in an interval lies in it.")
}

/// The methods whose bounds a finding shows.
const BOUNDED: [&str; 7] =
    [BASELINE, "GRPO, printed clip", "GRPO-λ recent", "GRPO-λ both", "P-trace (recon.)", "GSPO", "CISPO"];

pub(super) fn bound(n: &Numbers) -> Finding {
    let share =
        |name: &str, f: fn(&Regions) -> f64| mean_share(&n.rows, Mode::Inner, name, UPDATES as f64, f);
    let other_side = |name: &str| share(name, |r| r.raised_low + r.lowered_high);
    let finding = Finding::new(
        "bound",
        "After updates on the same batch the clip binds where it should: raised tokens above 1+ε, lowered tokens below 1-ε",
        holds_when(
            methods(&n.rows).iter().all(|name| other_side(name) == 0.0),
            other_side(BASELINE) == 0.0 && share("GRPO, printed clip", |r| r.lowered_low) == 0.0,
            "the clip is PPO's: as printed in GRPO-λ's algorithms it never binds below",
            "GRPO binds on the other side, or the printed clip below",
        ),
    );
    let shown = BOUNDED.iter().fold(finding, |finding, name| {
        finding
            .value(format!("{name}: raised and above"), share(name, |r| r.raised_high))
            .value(format!("{name}: lowered and below"), share(name, |r| r.lowered_low))
            .value(format!("{name}: without gradient"), share(name, |r| r.silent))
    });
    shown.note(format!("Share of tokens after {UPDATES} updates whose first moves by {FIRST_STEP} nats, mean over tasks. GSPO's published bounds are narrow for responses this short."))
}

pub(super) fn reuse(n: &Numbers) -> Finding {
    let names = distinct(n.reused.iter().map(|r| r.method.as_str()));
    let gains = |name: &&&str| n.reused.iter().filter(|r| r.method == **name).all(|r| r.more[0] > 0.0);
    let everywhere = names.iter().filter(gains).count();
    let lost = n.reused.iter().filter(|r| r.more[2] < 0.0).map(|r| format!("{} on {}", r.method, r.mdp));
    Finding::new(
        "reuse",
        format!("{UPDATES} updates on a batch of one group raise J above what the first one did"),
        holds_or(everywhere == names.len(), "not for every method on every task"),
    )
    .value("methods", names.len())
    .value("with a gain on every task", everywhere)
    .value("with a loss", lost.collect::<Vec<_>>())
    .value("batches", n.batches)
    .note(format!("Exact J, 8 responses a batch, 95 % intervals, each method at the rate at which its expected first update moves {FIRST_STEP} nats per response."))
}

pub(super) fn stale(n: &Numbers) -> Finding {
    let (names, last) = (methods(&n.rows), UPDATES as f64);
    let along = |name: &&str, age: f64| {
        select(&n.rows, Mode::Stale, name, age).all(|r| r.fit.is_some_and(|f| f.cosine > 1.0 - 1e-9))
    };
    let unbiased: Vec<&str> = names.iter().copied().filter(|name| along(name, 0.0)).collect();
    let still = unbiased.iter().filter(|name| along(name, last)).count();
    let (least, most) = extremes(select(&n.rows, Mode::Stale, BASELINE, last).map(|r| r.kl));
    let mut at: Vec<(f64, &str)> =
        names.iter().map(|name| (mean_cosine(&n.rows, Mode::Stale, name, last), *name)).collect();
    at.sort_by(|a, b| b.0.total_cmp(&a.0));
    let finding = Finding::new(
        "stale",
        format!("A method that goes in the direction of ∇J on-policy still does when the sampler is {UPDATES} updates old"),
        holds_or(still == unbiased.len(), "not all of them do"),
    )
    .value("unbiased on-policy on every task", &unbiased)
    .value("of them still so", still)
    .value("KL of the sampler, nats per response", [least, most]);
    let ends = at
        .iter()
        .take(4)
        .chain(at.iter().rev().take(4).rev())
        .fold(finding, |finding, (cosine, name)| finding.value(format!("{name}: mean cosine"), cosine));
    ends.note("Mean over tasks, the four best and the four worst; a silent update counts 0.")
}

pub(super) fn mismatch(n: &Numbers) -> Finding {
    let all = corrections(&n.rows);
    let never_clipped = |name: &&str| {
        n.rows.iter().filter(|r| r.method == *name).all(|r| r.regions.is_none_or(|r| r.bound() == 0.0))
    };
    let free: Vec<&str> = methods(&n.rows).into_iter().filter(never_clipped).collect();
    let count = |sign: i8| all.iter().filter(|c| c.sign() == sign).count();
    let unclipped = |sign: i8| all.iter().filter(|c| c.sign() == sign && free.contains(&c.method)).count();
    // The first of the largest gains and losses.
    let most = |side: f64| {
        let own = all.iter().filter(|c| side * c.gain() > 0.0);
        let found = own.reduce(|most, c| if side * c.gain() > side * most.gain() { c } else { most });
        found.map(|c| (c.method, c.mdp, c.mode, c.x, c.corrected, c.ignored))
    };
    Finding::new(
        "mismatch",
        "When the sampler's probabilities differ (temperature, noise on logits), ratios that correct for it give a better direction than ratios of 1",
        holds_or(count(-1) == 0, "in some cases it is worse"),
    )
    .value("cases", all.len())
    .value("better", count(1))
    .value("worse", count(-1))
    .value("methods without a clip", &free)
    .value("of theirs better", unclipped(1))
    .value("of theirs worse", unclipped(-1))
    .value("most gained", most(1.0))
    .value("most lost", most(-1.0))
    .note("Exact cosine with ∇J, corrected before ignored.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::off_policy::measure::Reused;
    use crate::atlas::off_policy::pairs::{Fit, Synthetic};
    use crate::atlas::off_policy::row::Row;
    use crate::experiments::common::words_after;

    fn row(mode: Mode, method: &str, x: f64, ignored: bool, cosine: f64) -> Row {
        Row {
            mode,
            mdp: "fork".into(),
            method: method.into(),
            x,
            ignored,
            kl: 0.1,
            fit: Some(Fit { cosine, scale: 1.0, bias: 0.0 }),
            regions: (mode == Mode::Inner).then(Regions::default),
        }
    }

    /// Methods that keep their direction, and traces that keep the trust region.
    fn faithful() -> Numbers {
        let last = UPDATES as f64;
        let rows_of = |name| {
            [
                row(Mode::Inner, name, last, false, 1.0),
                row(Mode::Stale, name, 0.0, false, 1.0),
                row(Mode::Stale, name, last, false, 1.0),
                row(Mode::Temperature, name, 0.7, false, 1.0),
                row(Mode::Temperature, name, 0.7, true, 0.9),
            ]
        };
        let synthetic =
            |trace, convex| Synthetic { lambda: Q, trace, convex, outside: 0.0, outside_late: 0.0 };
        Numbers {
            size: 4,
            batches: 1,
            rows: [BASELINE, "GRPO, printed clip"].into_iter().flat_map(rows_of).collect(),
            reused: vec![Reused {
                mdp: "fork".into(),
                method: BASELINE.into(),
                gain: Vec::new(),
                kl: Vec::new(),
                more: [0.1, 0.2, 0.3],
            }],
            synthetic: vec![
                synthetic(RECENT, false),
                synthetic(BOTH, false),
                synthetic("token (GRPO)", true),
            ],
            pairs: Vec::new(),
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |change| words_after(faithful(), findings, change);
        let [h, w, f] = ["Holds", "Holds when", "Fails"];
        assert_eq!(verdicts(|_| {}), [h; 6]);
        assert_eq!(
            verdicts(|n| n.synthetic[0].outside = 0.4)[..2],
            [f, h],
            "a summed trace leaves the region"
        );
        assert_eq!(verdicts(|n| n.synthetic[2].outside = 0.4)[..2], [h, f], "so does a weighted mean");
        assert_eq!(verdicts(|n| n.rows[2].fit.as_mut().unwrap().cosine = 0.5)[2], f);
        let printed_pulls_back = |n: &mut Numbers| n.rows[5].regions.as_mut().unwrap().lowered_high = 0.2;
        assert_eq!(verdicts(printed_pulls_back)[3], w);
        assert_eq!(
            verdicts(|n| n.rows[0].regions.as_mut().unwrap().raised_low = 0.2)[3],
            f,
            "PPO's clip binds there"
        );
        assert_eq!(
            verdicts(|n| n.rows[3].fit.as_mut().unwrap().cosine = 0.5)[4],
            f,
            "correcting makes it worse"
        );
        assert_eq!(verdicts(|n| n.reused[0].more[0] = -0.1)[5], f);
    }
}
