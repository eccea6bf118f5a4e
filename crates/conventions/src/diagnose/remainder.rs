//! The difference that the nearest explanation leaves.

use std::fmt;

use super::{Rows, fit};

/// The term of the loss in which the nearest explanation and the given numbers differ, as far as the difference shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Remainder {
    /// Only tokens whose ratio lies outside `[0.8, 1.2]` differ.
    Clip {
        /// Number of tokens that differ.
        tokens: usize,
    },
    /// Every response differs by a factor of its own, the same at all its tokens.
    PerResponse,
    /// The difference is proportional to the log-ratio to the reference.
    Kl,
    /// Neither: some tokens differ, spread over the batch.
    Scattered {
        /// Number of tokens that differ.
        tokens: usize,
    },
}

impl Remainder {
    /// The difference that `ours` leaves of `theirs`.
    pub(super) fn between(
        ours: &Rows,
        theirs: &Rows,
        ratios: &Rows,
        kl: &[Rows],
        tolerance: f64,
    ) -> Remainder {
        let least = tolerance * fit::largest(theirs);
        let left = fit::sum(theirs, -1.0, ours);
        let differs = |x: &f64| x.abs() > least;
        let tokens = left.iter().flatten().filter(|x| differs(x)).count();
        let all = left.iter().map(Vec::len).sum::<usize>();
        let moved = |ratio: f64| !(0.8..=1.2).contains(&ratio);
        let mut places = left.iter().flatten().zip(ratios.iter().flatten()).filter(|(x, _)| differs(x));
        if tokens < all && places.all(|(_, ratio)| moved(*ratio)) {
            return Remainder::Clip { tokens };
        }
        let explained = |rows: &Rows| {
            fit::one(rows, &left).is_some_and(|c| fit::largest(&fit::sum(&left, -c, rows)) <= least)
        };
        if kl.iter().any(explained) {
            return Remainder::Kl;
        }
        let by_a_factor = |(ours, theirs): (&Vec<f64>, &Vec<f64>)| {
            let (ours, theirs) = (vec![ours.clone()], vec![theirs.clone()]);
            let factor = fit::one(&ours, &theirs).unwrap_or(0.0);
            fit::largest(&fit::sum(&theirs, -factor, &ours)) <= least
        };
        if ours.iter().zip(theirs).all(by_a_factor) {
            return Remainder::PerResponse;
        }
        Remainder::Scattered { tokens }
    }
}

impl Remainder {
    /// Rank by simplicity, the simplest first.
    pub(super) fn rank(&self) -> usize {
        match self {
            Remainder::Kl => 0,
            Remainder::Clip { tokens } => 1 + tokens,
            Remainder::PerResponse => usize::MAX / 2,
            Remainder::Scattered { .. } => usize::MAX,
        }
    }
}

impl fmt::Display for Remainder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remainder::Clip { tokens } => {
                write!(f, "the clip: only tokens with a ratio outside 0.8 to 1.2 differ ({tokens} of them)")
            }
            Remainder::PerResponse => {
                write!(f, "advantage or reduction: every response differs by a factor of its own")
            }
            Remainder::Kl => write!(f, "the KL term: the difference is proportional to it"),
            Remainder::Scattered { tokens } => {
                write!(
                    f,
                    "no single term: {tokens} tokens differ, in no pattern of clip, KL, advantage or reduction"
                )
            }
        }
    }
}
