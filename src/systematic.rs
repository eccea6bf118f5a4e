//! Systematic sampling of a group: responses decoded from evenly spaced codes, and the sets that share a shift.
//!
//! ```text
//! code       Y(u): the response at u in [0,1) by inverse distribution functions, token by token (arithmetic decoding)
//! set        h responses at the codes (U + k/h) mod 1, k = 0..h, of one uniform shift U
//! group      M such sets with independent shifts, one after the other: G = M h responses
//! ```
//! Every response alone has the policy's distribution. Responses of a set repel each other, so that their mean varies less; a baseline may
//! look at *other* sets only, or the update is biased: with the group's own mean over one set by `-Cov(mean reward, mean score)`.
//!
//! | item | what it is |
//! | --- | --- |
//! | [`Sets`] | which responses of a group belong together |
//! | [`code`] | where a response of a set starts |
//! | [`Code`] | what is left of a code after some tokens |
//! | [`Guard`] | when the success rate of a prompt's earlier visit serves as the baseline of one set |
//!
//! Source: ours; codes are those of Arithmetic Sampling (Vilnis et al. 2023, arXiv 2210.15458), and QuasiMoTTo (arXiv 2607.01179) brings
//! such codes to GRPO; systematic sampling is Madow and Madow's (1944).

use std::ops::Range;

/// A partition of a group into sets, consecutive blocks of responses as equal in size as can be.
///
/// Responses are counted in sampling order, those without a reward included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sets(usize);

impl Sets {
    /// Sets of one response each: independent sampling.
    pub const SINGLE: Sets = Sets(usize::MAX);

    /// A partition into `sets` sets; into single responses where a group is smaller.
    ///
    /// # Panics
    /// If `sets` is 0.
    pub fn new(sets: usize) -> Sets {
        assert!(sets > 0, "a group has at least one set");
        Sets(sets)
    }

    /// The number of sets of a group of `size` responses.
    pub fn count(self, size: usize) -> usize {
        self.0.min(size)
    }

    /// The set of the response at `place` in a group of `size`: `floor(place M / size)`.
    ///
    /// ```
    /// use grpo_lambda::systematic::Sets;
    /// let of = |sets: Sets| (0..5).map(|place| sets.set_of(place, 5)).collect::<Vec<_>>();
    /// assert_eq!(of(Sets::new(2)), [0, 0, 0, 1, 1]);
    /// assert_eq!(of(Sets::SINGLE), [0, 1, 2, 3, 4]);
    /// ```
    pub fn set_of(self, place: usize, size: usize) -> usize {
        place * self.count(size) / size
    }

    /// The places of a set in a group of `size`.
    pub fn members(self, set: usize, size: usize) -> Range<usize> {
        let start = |set: usize| (set * size).div_ceil(self.count(size));
        start(set)..start(set + 1)
    }

    /// The code of the response at `place` in a group of `size`, with the shift of its set.
    pub fn code(self, place: usize, size: usize, shift: f64) -> Code {
        let members = self.members(self.set_of(place, size), size);
        Code::new(code(place - members.start, members.len(), shift))
    }

    /// The words for the responses that a baseline of response `i` may look at.
    pub(crate) fn others(self) -> String {
        match self {
            Sets::SINGLE => "responses j != i of the group".to_owned(),
            Sets(sets) => {
                format!("responses j of its group outside i's set ({sets} sets, consecutive blocks)")
            }
        }
    }
}

/// The code of response `k` of the `h` in a set with this shift: `(shift + k/h) mod 1`, uniform where the shift is.
///
/// ```
/// use grpo_lambda::systematic::code;
/// assert_eq!([0, 1, 2, 3].map(|k| code(k, 4, 0.625)), [0.625, 0.875, 0.125, 0.375]);
/// ```
///
/// # Panics
/// If the shift is outside `[0,1)` or `k` is not below `h`.
pub fn code(k: usize, h: usize, shift: f64) -> f64 {
    assert!((0.0..1.0).contains(&shift) && k < h, "response {k} of {h} at the shift {shift}");
    let sum = shift + k as f64 / h as f64;
    if sum < 1.0 { sum } else { sum - 1.0 }
}

/// The code of a response that is being decoded: a uniform number from which each token takes its share.
///
/// At a token whose distribution function rises from `c` to `c + p`, where the number `u` lies between, the next token's number is
/// `(u - c) / p`: uniform again, given the tokens so far. A number has 53 bits, and a token uses `-log2 p` of them. Once a prefix's
/// probability is below [`Code::LEAST`] every token takes a fresh number, as in independent sampling; at that point at least 29 bits
/// are left, so that no probability is off by more than `2^-29` of itself.
///
/// Its state depends on nothing but the first number and the tokens: give fresh numbers by position, and a response is the same in any
/// batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Code {
    number: f64,
    /// The probability of the tokens so far.
    mass: f64,
}

impl Code {
    /// The probability of a prefix below which its code counts as used up: `2^-24`.
    pub const LEAST: f64 = 1.0 / (1u32 << 24) as f64;
    /// The largest number below 1.
    const TOP: f64 = 1.0 - f64::EPSILON / 2.0;

    /// A code at the prompt.
    ///
    /// # Panics
    /// If `number` is outside `[0,1)`.
    pub fn new(number: f64) -> Code {
        assert!((0.0..1.0).contains(&number), "the code {number} is not in [0, 1)");
        Code { number, mass: 1.0 }
    }

    /// The uniform number at which the next token is drawn; `fresh` gives the position's own number once the code is used up.
    pub fn number(&self, fresh: impl FnOnce() -> f64) -> f64 {
        if self.mass < Code::LEAST { fresh() } else { self.number }
    }

    /// Takes the token whose distribution function rises from `below` by `p` at the number asked for.
    ///
    /// # Panics
    /// If `p` is not positive.
    pub fn take(&mut self, below: f64, p: f64) {
        assert!(p > 0.0, "a token of probability {p} cannot be drawn");
        // Rounding may carry the number out of the token's interval by a unit in the last place.
        self.number = ((self.number - below) / p).clamp(0.0, Code::TOP);
        self.mass *= p;
    }

    /// The next token of a distribution given by weights: the first at which their running sum exceeds the number times their total.
    ///
    /// ```
    /// use grpo_lambda::systematic::Code;
    /// let mut code = Code::new(0.625);                    // binary 0.101
    /// let tokens = [(); 4].map(|()| code.token(&[1.0, 1.0], || unreachable!()));
    /// assert_eq!(tokens, [1, 0, 1, 0]);
    /// ```
    ///
    /// # Panics
    /// If no weight is positive.
    pub fn token(&mut self, weights: &[f64], fresh: impl FnOnce() -> f64) -> usize {
        let total: f64 = weights.iter().sum();
        let target = self.number(fresh) * total;
        let mut below = 0.0;
        let mut chosen = None;
        for (token, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            chosen = Some((token, below, weight));
            below += weight;
            if target < below {
                break;
            }
        }
        let (token, below, weight) = chosen.expect("a distribution has a positive weight");
        self.take(below / total, weight / total);
        token
    }
}

/// A rule for the use of a prompt's earlier success rate as the baseline of one systematic set.
///
/// Such a baseline is independent of the group, so that a whole group can be one set. Where the rate is near 0 or 1 it would be far worse
/// than a comparison within the group, whose update is exactly 0 when all rewards agree: there the group has [`Guard::closed`] sets and the
/// baseline comes from the other sets. The decision depends on the earlier visit alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard {
    /// The rate must be above this.
    pub low: f64,
    /// The rate must be below this.
    pub high: f64,
    /// The sets of a group whose prompt's rate is outside.
    pub closed: Sets,
}

impl Guard {
    /// The guard between success rates of 0.1 and 0.9, with two sets outside.
    pub const USUAL: Guard = Guard { low: 0.1, high: 0.9, closed: Sets(2) };

    /// True if the mean reward of the earlier visit is a baseline.
    pub fn open(&self, earlier: f64) -> bool {
        self.low < earlier && earlier < self.high
    }

    /// The sets in which a group must be sampled after an earlier visit with this mean reward; none: the prompt's first visit.
    ///
    /// ```
    /// use grpo_lambda::systematic::{Guard, Sets};
    /// let sets = [None, Some(0.05), Some(0.5)].map(|earlier| Guard::USUAL.sets(earlier));
    /// assert_eq!(sets, [Sets::new(2), Sets::new(2), Sets::new(1)]);
    /// ```
    pub fn sets(&self, earlier: Option<f64>) -> Sets {
        if earlier.is_some_and(|rate| self.open(rate)) { Sets(1) } else { self.closed }
    }
}
