//! The direction of expected updates off-policy.

use crate::atlas::entrants::BASELINE;
use crate::atlas::off_policy::cases::UPDATES;
use crate::atlas::off_policy::measure::Numbers;
use crate::atlas::off_policy::row::{Mode, Row};
use crate::atlas::off_policy::row::{mean_cosine, methods, select};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, holds_or};
use crate::experiments::common::text::short;
use crate::experiments::common::vectors::extremes;

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
    finding(
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
    finding(
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
