//! Findings: trust regions, the clip's bounds and the reuse of a batch; the direction of expected updates off-policy.

use super::measure::{FIRST_STEP, Numbers, Reused, UPDATES};
use super::pairs::{BOTH, Pair, Q, RECENT, traces};
use super::row::{Mode, Regions, Row, mean_cosine, mean_share, methods, select};
use crate::atlas::entrants::BASELINE;
use crate::experiment::Finding;
use crate::experiments::common::{
    distinct, extremes, holds_or, holds_when, keyed, largest, list, percent, short,
};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![token_ratios(n), weighted_means(n), stale(n), bound(n), mismatch(n), reuse(n)]
}

fn token_ratios(n: &Numbers) -> Finding {
    let [recent, both] = [RECENT, BOTH].map(|name| {
        n.synthetic.iter().find(|s| s.lambda == Q && s.trace == name).map_or(f64::NAN, |s| s.outside)
    });
    keyed(
        "token_ratios",
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

fn weighted_means(n: &Numbers) -> Finding {
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
    keyed(
        "weighted_means",
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
    keyed(
        "bound",
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
    let names = distinct(n.reused.iter().map(|r| r.method.as_str()));
    let reused_by = |name: &str| n.reused.iter().filter(|r| r.method == name).collect::<Vec<&Reused>>();
    let everywhere = names.iter().filter(|name| reused_by(name).iter().all(|r| r.more[0] > 0.0)).count();
    let lost = |name: &&str| {
        let lost: Vec<&str> =
            reused_by(name).iter().filter(|r| r.more[2] < 0.0).map(|r| r.mdp.as_str()).collect();
        (!lost.is_empty()).then(|| format!("{name} ({})", lost.join(", ")))
    };
    let somewhere: Vec<String> = names.iter().filter_map(lost).collect();
    keyed(
        "reuse",
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
    let say = |(cosine, name): &(f64, &str)| format!("{name} {}", short(*cosine));
    let best: Vec<String> = at.iter().take(4).map(say).collect();
    let worst: Vec<String> = at.iter().rev().take(4).map(say).collect();
    keyed(
        "stale",
        format!(
            "A method that goes in the direction of ∇J on-policy still does when the sampler is {UPDATES} updates old"
        ),
        holds_or(
            still == unbiased.len(),
            format!(
                "{} of {} methods have cosine 1 on-policy on all tasks; at KL {} to {} nats per response {still} of them do",
                unbiased.len(),
                names.len(),
                short(least),
                short(most)
            ),
        ),
        format!(
            "mean cosine over tasks at {UPDATES} updates of age (a silent update counts 0), best: {}; worst: {}; on-policy unbiased: {}",
            best.join(", "),
            worst.join(", "),
            unbiased.join(", ")
        ),
    )
}

/// A row of a mismatched sampler, with ratios that correct for it and with ratios of 1.
struct Correction<'a> {
    row: &'a Row,
    ignored: f64,
}

impl<'a> Correction<'a> {
    /// `None` where no row has the same sampler with ratios of 1.
    fn new(row: &'a Row, rows: &[Row]) -> Option<Correction<'a>> {
        let same = |r: &&Row| {
            r.ignored && (r.mode, &r.mdp, &r.method, r.x) == (row.mode, &row.mdp, &row.method, row.x)
        };
        Some(Correction { row, ignored: rows.iter().find(same)?.cosine() })
    }

    /// Gain of the cosine by correcting.
    fn gain(&self) -> f64 {
        self.row.cosine() - self.ignored
    }

    /// By more than rounding: 1 better, -1 worse, 0 the same.
    fn sign(&self) -> i8 {
        i8::from(self.gain() > 1e-9) - i8::from(self.gain() < -1e-9)
    }

    fn describe(&self) -> String {
        format!(
            "{} on {}, {} {}: {} corrected, {} ignored",
            self.row.method,
            self.row.mdp,
            self.row.mode.name(),
            self.row.x,
            short(self.row.cosine()),
            short(self.ignored)
        )
    }
}

fn corrections(rows: &[Row]) -> Vec<Correction<'_>> {
    let mismatched = |r: &&Row| !r.ignored && matches!(r.mode, Mode::Temperature | Mode::Noise);
    rows.iter().filter(mismatched).filter_map(|row| Correction::new(row, rows)).collect()
}

pub(super) fn mismatch(n: &Numbers) -> Finding {
    let all = corrections(&n.rows);
    let count = |sign: i8| all.iter().filter(|c| c.sign() == sign).count();
    let never_clipped = |name: &&str| {
        n.rows.iter().filter(|r| r.method == *name).all(|r| r.regions.is_none_or(|r| r.bound() == 0.0))
    };
    let free: Vec<&str> = methods(&n.rows).into_iter().filter(never_clipped).collect();
    let unclipped =
        |sign: i8| all.iter().filter(|c| c.sign() == sign && free.contains(&c.row.method.as_str())).count();
    // The first of the largest gains and losses.
    let most = |side: f64| {
        let own = all.iter().filter(|c| side * c.gain() > 0.0);
        let found = own.reduce(|most, c| if side * c.gain() > side * most.gain() { c } else { most });
        found.map_or(String::new(), Correction::describe)
    };
    keyed(
        "mismatch",
        "When the sampler's probabilities differ (temperature, noise on logits), ratios that correct for it give a better direction than ratios of 1",
        holds_or(
            count(-1) == 0,
            format!(
                "worse in {} of {} cases, better in {}, the same in {}",
                count(-1),
                all.len(),
                count(1),
                count(0)
            ),
        ),
        format!(
            "cosine with ∇J, exact. Of methods without a clip ({}): better {}, worse {}. Most gained: {}; most lost: {}",
            free.join(", "),
            unclipped(1),
            unclipped(-1),
            most(1.0),
            most(-1.0)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::off_policy::pairs::{Fit, Synthetic};
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
