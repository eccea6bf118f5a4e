//! The titles of the figures, which say what the figures show.

use super::measure::{Comparison, UNIT};
use super::reading::{BASELINE, PAPER};
use super::scores::Regime;
use super::signs::of_paper;

/// The title of learning curves.
pub(super) fn curves(c: &Comparison, regime: Regime) -> String {
    let gain = |name| c.against(regime, name).gain.mid;
    let rates = match regime {
        Regime::Cautious => "At a small equal learning rate",
        _ => "Each at its own best rate,",
    };
    format!(
        "{rates} GRPO-λ {} GRPO: {:+.3} (recent), {:+.3} (both) in area under J/J*",
        of_paper(c, regime).word(),
        gain(PAPER[0]),
        gain(PAPER[1])
    )
}

pub(super) fn forest(c: &Comparison) -> String {
    let [cautious, own, unit] =
        [Regime::Cautious, Regime::OwnBest, Regime::UnitMean].map(|regime| of_paper(c, regime));
    let with_unit_mean = if unit == own {
        " and with weights of mean 1".to_owned()
    } else {
        format!(" and {} it with weights of mean 1", unit.word())
    };
    format!(
        "GRPO-λ {} GRPO at a small equal rate, {} it at own best rates{with_unit_mean}",
        cautious.word(),
        own.word()
    )
}

pub(super) fn map(c: &Comparison) -> String {
    let count = |regime: Regime| {
        let o = c.against(regime, PAPER[0]);
        format!("wins {} and loses {}", o.better.len(), o.worse.len())
    };
    format!(
        "GRPO-λ (recent trace .99) {} of {} MDPs at GRPO's best rate; each at its own best rate it {}",
        count(Regime::Equal),
        c.tasks.len(),
        count(Regime::OwnBest)
    )
}

pub(super) fn sweep(c: &Comparison) -> String {
    let curves = &c.sweeps;
    let curve = |name: &str| curves.iter().find(|(n, _)| n == name).map_or(&[][..], |(_, points)| points);
    let top = |name: &str| curve(name).iter().map(|p| p.1).fold(f64::NAN, f64::max);
    let small = |name: &str| curve(name).first().map_or(f64::NAN, |p| p.1);
    let unit = format!("{}{UNIT}", PAPER[0]);
    // Better than GRPO at small rates, not at the best one, and with mean weight 1 nowhere on the way there.
    let larger_step =
        small(PAPER[0]) > small(BASELINE) && small(&unit) < small(BASELINE) && top(PAPER[0]) < top(BASELINE);
    if larger_step {
        "Under plain SGD GRPO-λ beats GRPO at small learning rates only: its trace is a larger step, not better credit".into()
    } else {
        format!("Tuned, GRPO-λ reaches {:.3} of the best area, GRPO {:.3}", top(PAPER[0]), top(BASELINE))
    }
}
