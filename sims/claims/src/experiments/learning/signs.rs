//! Whether GRPO-lambda beats GRPO under a regime.

use super::measure::Comparison;
use super::reading::PAPER;
use super::scores::{Overall, Regime};

/// What a comparison says, by the gain with the tasks as the sample, and over runs on these tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Better,
    /// Clear over runs on these tasks, but not for tasks like these: the interval over tasks holds 0, or one task carries the mean.
    TheseTasks,
    Tie,
    Worse,
}

impl Sign {
    pub(super) fn of(o: &Overall) -> Sign {
        match o.gain {
            _ if o.over_tasks.positive() => Sign::Better,
            _ if o.over_tasks.negative() => Sign::Worse,
            g if g.low > 0.0 || g.high < 0.0 => Sign::TheseTasks,
            _ => Sign::Tie,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Sign::Better => "beats",
            Sign::TheseTasks => "cannot, with tasks as the sample, be told from",
            Sign::Tie => "ties with",
            Sign::Worse => "loses to",
        }
    }
}

/// How a regime is named in a sentence.
pub(super) fn at(regime: Regime) -> &'static str {
    match regime {
        Regime::Equal => "at GRPO's best rate",
        Regime::Cautious => "at a sixteenth of GRPO's best rate",
        Regime::OwnBest => "each at its own best rate",
        Regime::UnitMean => "with weights of mean 1",
    }
}

/// The less favourable sign of the paper's two readings under a regime.
pub(super) fn of_paper(c: &Comparison, regime: Regime) -> Sign {
    let signs = PAPER.map(|name| Sign::of(c.against(regime, name)));
    let order = [Sign::Worse, Sign::TheseTasks, Sign::Tie, Sign::Better];
    order.into_iter().find(|s| signs.contains(s)).unwrap_or(Sign::Tie)
}
