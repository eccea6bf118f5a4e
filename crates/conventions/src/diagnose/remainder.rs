//! The difference that the nearest explanation leaves.

use std::fmt;

use super::{Rows, fit};

/// The term of the loss in which the nearest explanation and the given numbers differ, as far as the difference shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Remainder {
    /// Only tokens differ whose ratio lies outside `[0.8, 1.2]`, or whose gradient one of the two clips.
    Clip {
        /// Number of tokens that differ.
        tokens: usize,
        /// The largest of their ratios below 1, and the smallest above 1; 0 and infinity where there is none.
        outside: (f64, f64),
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
        let places: Vec<Token> = (left.iter().flatten().zip(ratios.iter().flatten()))
            .zip(ours.iter().flatten().zip(theirs.iter().flatten()))
            .map(|((left, ratio), (ours, theirs))| Token {
                ratio: *ratio,
                ours: if differs(ours) { *ours } else { 0.0 },
                theirs: if differs(theirs) { *theirs } else { 0.0 },
                is_other: differs(left),
            })
            .collect();
        if let Some(outside) = clip(&places).filter(|_| tokens < all) {
            return Remainder::Clip { tokens, outside };
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

/// A token with what the clip of a gradient shows.
struct Token {
    ratio: f64,
    /// The two numbers, 0 where too small to differ from 0.
    ours: f64,
    theirs: f64,
    /// True if they differ.
    is_other: bool,
}

/// The ratios next to 1, below and above, of the tokens that differ, if the difference is a clip's: each of them lies outside 0.8 to 1.2, or their
/// number is 0 there as it is beyond a bound. A gradient below 0 is clipped at large ratios, one above 0 at small ones.
fn clip(tokens: &[Token]) -> Option<(f64, f64)> {
    let others = || tokens.iter().filter(|token| token.is_other);
    let below = others().map(|token| token.ratio).filter(|ratio| *ratio < 1.0).fold(0.0, f64::max);
    let above = others().map(|token| token.ratio).filter(|ratio| *ratio > 1.0).fold(f64::INFINITY, f64::min);
    let kept = |sign: f64| tokens.iter().filter(move |token| token.theirs * sign > 0.0).map(|t| t.ratio);
    let (least, most) = (kept(1.0).fold(1.0, f64::min), kept(-1.0).fold(1.0, f64::max));
    let clipped = |token: &Token| match (token.ours, token.theirs) {
        _ if !(0.8..=1.2).contains(&token.ratio) => true,
        (ours, 0.0) if ours < 0.0 => token.ratio > most,
        (_, 0.0) => token.ratio < least,
        _ => false,
    };
    others().all(clipped).then_some((below, above))
}

impl Remainder {
    /// Rank by simplicity, the simplest first.
    pub(super) fn rank(&self) -> usize {
        match self {
            Remainder::Kl => 0,
            Remainder::Clip { tokens, .. } => 1 + tokens,
            Remainder::PerResponse => usize::MAX / 2,
            Remainder::Scattered { .. } => usize::MAX,
        }
    }
}

impl fmt::Display for Remainder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remainder::Clip { tokens, outside: (below, above) } => {
                let below = (*below > 0.0).then(|| format!("of at most {below:.4}"));
                let above = above.is_finite().then(|| format!("of at least {above:.4}"));
                let place = below.into_iter().chain(above).collect::<Vec<_>>().join(" or ");
                write!(f, "the clip: only tokens with a ratio {place} differ ({tokens} of them)")
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
        let clip = |tokens, below, above| Remainder::Clip { tokens, outside: (below, above) };
        let one = |ratio: f64| remainder(ours, clipped, &[&[1.0, ratio], &[1.0, 1.0]], None);
        assert_eq!((one(1.5), one(0.5)), (clip(1, 0.0, 1.5), clip(1, 0.5, f64::INFINITY)));
        assert_eq!(remainder(ours, clipped, near, None), Remainder::Scattered { tokens: 1 });
        // Bounds of 0.05 against 0.2: a gradient above 0 is theirs to clip below 0.95, one below 0 above 1.05.
        let tighter = |ratios: &[f64]| {
            remainder(&[&[1.0, 2.0, -3.0, -4.0]], &[&[1.0, 0.0, 0.0, -4.0]], &[ratios], None)
        };
        assert_eq!(tighter(&[0.96, 0.94, 1.06, 1.04]), clip(2, 0.94, 1.06));
        assert_eq!(tighter(&[0.96, 0.97, 1.06, 1.04]), Remainder::Scattered { tokens: 2 });
        assert_eq!(tighter(&[0.96, 0.94, 1.03, 1.04]), Remainder::Scattered { tokens: 2 });
        // Wider bounds: what we clip, they do not. A mask is no clip, however the ratios are.
        let wider = |ratio: f64| remainder(&[&[1.0, 0.0]], &[&[1.0, 2.0]], &[&[1.0, ratio]], None);
        assert_eq!(
            (wider(0.7), wider(0.9)),
            (clip(1, 0.7, f64::INFINITY), Remainder::Scattered { tokens: 1 })
        );
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
            Remainder::Clip { tokens: 1, outside: (0.5, 1.25) },
            Remainder::Clip { tokens: 1000, outside: (0.0, 1.25) },
            Remainder::PerResponse,
            Remainder::Scattered { tokens: 1 },
        ];
        assert!(all.windows(2).all(|w| w[0].rank() < w[1].rank()));
        let words = [
            "the KL term",
            "of at most 0.5000 or of at least 1.2500 differ (1 of them)",
            "a ratio of at least 1.2500 differ (1000 of them)",
            "a factor of its own",
            "no single term: 1 tokens",
        ];
        assert!(all.iter().zip(words).all(|(r, words)| r.to_string().contains(words)), "{all:?}");
    }
}
