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

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: f64 = 1e-6;

    fn remainder(ours: &[&[f64]], theirs: &[&[f64]], ratios: &[&[f64]], kl: Option<&[&[f64]]>) -> Remainder {
        let rows = |rows: &[&[f64]]| -> Rows { rows.iter().map(|row| row.to_vec()).collect() };
        Remainder::between(&rows(ours), &rows(theirs), &rows(ratios), kl.map(rows).as_slice(), TOLERANCE)
    }

    #[test]
    fn each_remainder_by_hand() {
        let ours: &[&[f64]] = &[&[1.0, 2.0], &[3.0, 4.0]];
        let near: &[&[f64]] = &[&[1.0, 1.0], &[1.0, 1.0]];
        // Only the token whose ratio moved differs.
        let clipped: &[&[f64]] = &[&[1.0, 0.0], &[3.0, 4.0]];
        assert_eq!(
            remainder(ours, clipped, &[&[1.0, 1.5], &[1.0, 1.0]], None),
            Remainder::Clip { tokens: 1 }
        );
        assert_eq!(
            remainder(ours, clipped, &[&[1.0, 0.5], &[1.0, 1.0]], None),
            Remainder::Clip { tokens: 1 }
        );
        assert_eq!(remainder(ours, clipped, near, None), Remainder::Scattered { tokens: 1 });
        // All tokens moved and differ: that is no sign of a clip.
        let moved: &[&[f64]] = &[&[2.0, 2.0], &[2.0, 2.0]];
        let all: &[&[f64]] = &[&[2.0, 2.5], &[3.5, 9.0]];
        assert_eq!(remainder(ours, all, moved, None), Remainder::Scattered { tokens: 4 });
        let scaled: &[&[f64]] = &[&[2.0, 4.0], &[1.5, 2.0]];
        assert_eq!(remainder(ours, scaled, near, None), Remainder::PerResponse);
        let kl: &[&[f64]] = &[&[0.5, -1.0], &[0.25, 2.0]];
        let with_kl: &[&[f64]] = &[&[0.95, 2.1], &[2.975, 3.8]];
        assert_eq!(remainder(ours, with_kl, near, Some(kl)), Remainder::Kl);
        assert_eq!(remainder(ours, with_kl, near, None), Remainder::Scattered { tokens: 4 });
    }

    /// A number as far off as the tolerance, in units of the largest of theirs, does not differ.
    #[test]
    fn a_difference_counts_beyond_the_tolerance() {
        let near: &[&[f64]] = &[&[1.0, 1.0, 1.0]];
        let theirs: &[&[f64]] = &[&[1e6, 5.0, 3.0]];
        assert_eq!(remainder(&[&[1e6, 6.0, 9.0]], theirs, near, None), Remainder::Scattered { tokens: 1 });
        assert_eq!(remainder(&[&[1e6, 8.0, 9.0]], theirs, near, None), Remainder::Scattered { tokens: 2 });
    }

    #[test]
    fn the_simplest_remainder_comes_first_and_says_what_it_is() {
        let all = [
            Remainder::Kl,
            Remainder::Clip { tokens: 1 },
            Remainder::Clip { tokens: 1000 },
            Remainder::PerResponse,
            Remainder::Scattered { tokens: 1 },
        ];
        assert!(all.windows(2).all(|w| w[0].rank() < w[1].rank()));
        let words = [
            "the KL term",
            "(1 of them)",
            "(1000 of them)",
            "a factor of its own",
            "no single term: 1 tokens",
        ];
        assert!(all.iter().zip(words).all(|(r, words)| r.to_string().contains(words)), "{all:?}");
    }
}
