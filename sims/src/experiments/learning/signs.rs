//! Whether GRPO-lambda beats GRPO under a regime.

use super::measure::Comparison;
use super::reading::PAPER;
use super::scores::{Overall, Regime};

/// What a comparison says, by the intervals of the gain over all MDPs and on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Better,
    /// Not better on average, but better on more MDPs than worse.
    Mixed,
    Tie,
    Worse,
}

impl Sign {
    pub(super) fn of(o: &Overall) -> Sign {
        match o.gain {
            g if g.low > 0.0 => Sign::Better,
            g if g.high >= 0.0 => Sign::Tie,
            _ if o.better.len() > o.worse.len() => Sign::Mixed,
            _ => Sign::Worse,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Sign::Better => "beats",
            Sign::Mixed => "wins more MDPs than it loses but on average trails",
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
    let order = [Sign::Worse, Sign::Tie, Sign::Mixed, Sign::Better];
    order.into_iter().find(|s| signs.contains(s)).unwrap_or(Sign::Tie)
}
