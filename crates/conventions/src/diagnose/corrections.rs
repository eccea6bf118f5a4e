//! The correction of the sampler's mismatch in given numbers: its weights, bounds, masks and divisor.
//!
//! Tokens whose weight no bound has touched show the common factor and the KL coefficient. The others then show whether they were cut, and at which
//! number, or dropped, and by which distance.

use super::{Rows, fit};
use crate::{Convention, Scope, all};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods;
use grpo_lambda::objective::{Distance, Estimate};

/// The weights in front of the losses of tokens, and the tokens that are in the loss at all.
pub(super) struct Weighting {
    /// The weight of every token; 0 where it is dropped.
    pub(super) weights: Rows,
    /// True for every token that counts in divisors and KL.
    pub(super) kept: Vec<Vec<bool>>,
}

impl Weighting {
    /// True if the other weighs every token equally whose loss has a slope, and keeps the same ones. A bound that was read off numbers in 32 bits has
    /// their precision.
    fn same(&self, other: &Weighting, slopes: &Rows) -> bool {
        let seen = |weights: &Rows| -> Rows {
            let row = |(row, slopes): (&Vec<f64>, &Vec<f64>)| {
                row.iter().zip(slopes).map(|(w, s)| if *s == 0.0 { 0.0 } else { *w }).collect()
            };
            weights.iter().zip(slopes).map(row).collect()
        };
        self.kept == other.kept && fit::difference(&seen(&self.weights), &seen(&other.weights)).0 < 1e-5
    }
}

/// The weighting that settings give on a batch, whose advantages have these signs; none where the batch lacks what they read.
pub(super) fn weighting(batch: &[Group], logps: &[Vec<f64>], signs: &Rows, words: &str) -> Option<Weighting> {
    // A loss of slope -A at every token shows its weight.
    let configured = methods::parse("gpg", &format!("reduction=response_sum {words}")).ok()?;
    let responses = || batch.iter().flat_map(|g| &g.responses);
    if configured.extra_inputs().iter().any(|kind| responses().any(|r| !kind.is_in(r))) {
        return None;
    }
    let n = responses().count() as f64;
    let credits = configured.method.credit_given(batch, signs.clone());
    let rows = responses().zip(&credits).zip(logps).zip(signs).map(|(((r, credit), logps), signs)| {
        let slopes = configured.method.loss(r, credit, logps).dlogps;
        let weights: Vec<f64> = slopes.iter().zip(signs).map(|(slope, sign)| -n * slope * sign).collect();
        (weights, credit.weights.iter().map(|w| *w != 0.0).collect())
    });
    let (weights, kept) = rows.unzip();
    Some(Weighting { weights, kept })
}

/// The signs of advantages, 1 for 0.
pub(super) fn signs(advantages: &Rows) -> Rows {
    advantages.iter().map(|row| row.iter().map(|a| if *a < 0.0 { -1.0 } else { 1.0 }).collect()).collect()
}

/// The settings of every method that are about the engine that sampled.
pub const SETTINGS: [&str; 8] = [
    "correction",
    "correction_low",
    "correction_high",
    "rejected",
    "reject",
    "reject_low",
    "reject_high",
    "off_policy_mask",
];

/// The settings of a convention that are about the sampler.
fn words_of(convention: &Convention) -> String {
    let about = |word: &&str| word.split_once('=').is_some_and(|(key, _)| SETTINGS.contains(&key));
    convention.settings.split_whitespace().filter(about).collect::<Vec<_>>().join(" ")
}

/// Every correction that a convention names, once each.
pub(super) fn named() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for words in all().filter(|c| c.scope == Scope::Correction && !c.method.is_empty()).map(words_of) {
        if !found.contains(&words) {
            found.push(words);
        }
    }
    found
}

/// The settings of a convention with the same mode that weigh this batch in the same way, which bounds that nothing reaches do not decide.
pub(super) fn usual(
    batch: &[Group],
    logps: &[Vec<f64>],
    (signs, slopes): (&Rows, &Rows),
    words: &str,
    found: &Weighting,
) -> Option<String> {
    let modes = |words: &str| -> Vec<String> {
        let mode =
            |word: &&str| ["correction=", "reject=", "rejected="].iter().any(|key| word.starts_with(key));
        words.split_whitespace().filter(mode).map(str::to_owned).collect()
    };
    let keys = |words: &str| {
        words
            .split_whitespace()
            .filter_map(|w| w.split_once('='))
            .map(|(k, _)| k.to_owned())
            .collect::<Vec<_>>()
    };
    let equal = |own: &String| {
        modes(own) == modes(words)
            && keys(own).iter().any(|k| k == "off_policy_mask")
                == keys(words).iter().any(|k| k == "off_policy_mask")
            && weighting(batch, logps, signs, own).is_some_and(|own| own.same(found, slopes))
    };
    named().into_iter().find(equal)
}

/// The conventions that weigh this batch in the same way.
pub(super) fn labels(
    batch: &[Group],
    logps: &[Vec<f64>],
    signs: &Rows,
    slopes: &Rows,
    found: &Weighting,
) -> Vec<String> {
    let same = |c: &&Convention| {
        let own = weighting(batch, logps, signs, &words_of(c));
        own.is_some_and(|own| own.same(found, slopes))
    };
    let rows = all().filter(|c| c.scope == Scope::Correction && !c.method.is_empty());
    rows.filter(same).map(Convention::label).collect()
}

/// The span of an importance weight.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    None,
    Token,
    Sequence,
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Unit::None => "none",
            Unit::Token => "token",
            Unit::Sequence => "sequence",
        }
    }
}

const DISTANCES: [(&str, Distance); 11] = [
    ("token_k1", Distance::Token(Estimate::K1)),
    ("token_k2", Distance::Token(Estimate::K2)),
    ("token_k3", Distance::Token(Estimate::K3)),
    ("seq_sum_k1", Distance::Sum(Estimate::K1)),
    ("seq_sum_k2", Distance::Sum(Estimate::K2)),
    ("seq_sum_k3", Distance::Sum(Estimate::K3)),
    ("seq_mean_k1", Distance::Mean(Estimate::K1)),
    ("seq_mean_k2", Distance::Mean(Estimate::K2)),
    ("seq_mean_k3", Distance::Mean(Estimate::K3)),
    ("seq_max_k2", Distance::Max(Estimate::K2)),
    ("seq_max_k3", Distance::Max(Estimate::K3)),
];

/// The numbers of a batch that a correction can look at.
pub(super) struct Sampler {
    /// The importance weight of every token, uncut, for each unit.
    raw: Vec<(Unit, Rows)>,
    /// The distance of every token from the sampler, by its word. The bounds of `k1` are ratios.
    distances: Vec<(&'static str, Rows)>,
    /// The geometric mean of the weights of a response.
    means: Option<Rows>,
    /// The mean log-ratio of the sampler to the policy, at the tokens of a response.
    after: Rows,
}

impl Sampler {
    /// Without `sampler_logps` what only compares the policy with `old_logps` is left.
    pub(super) fn new(batch: &[Group], logps: &[Vec<f64>]) -> Sampler {
        let responses: Vec<&Response> = batch.iter().flat_map(|g| &g.responses).collect();
        let rows = |of: &dyn Fn(&Response) -> Vec<f64>| -> Rows { responses.iter().map(|r| of(r)).collect() };
        let mean = |r: &Response, logps: &[f64]| {
            let sampler = r.extra_inputs.sampler_logps.as_ref().unwrap_or(&r.old_logps);
            sampler.iter().zip(logps).map(|(s, l)| s - l).sum::<f64>() / r.len().max(1) as f64
        };
        let after = responses.iter().zip(logps).map(|(r, logps)| vec![mean(r, logps); r.len()]).collect();
        let ones = rows(&|r| vec![1.0; r.len()]);
        let mut found = Sampler { raw: vec![(Unit::None, ones)], distances: Vec::new(), means: None, after };
        if responses.iter().any(|r| r.extra_inputs.sampler_logps.is_none()) {
            return found;
        }
        let distances = |distance: Distance| rows(&|r| distance.of_tokens(r));
        let exp = |rows: Rows, sign: f64| -> Rows {
            rows.into_iter().map(|row| row.into_iter().map(|x| (sign * x).exp()).collect()).collect()
        };
        found.raw.push((Unit::Token, exp(distances(Distance::Token(Estimate::K1)), -1.0)));
        found.raw.push((Unit::Sequence, exp(distances(Distance::Sum(Estimate::K1)), -1.0)));
        found.means = Some(exp(distances(Distance::Mean(Estimate::K1)), -1.0));
        found.distances = DISTANCES
            .iter()
            .map(|(word, d)| {
                (*word, if word.ends_with("k1") { exp(distances(*d), 1.0) } else { distances(*d) })
            })
            .collect();
        found
    }

    /// The settings of every correction under which `policy`, with some coefficient of `kl` and a common factor, may give `theirs`.
    pub(super) fn suggestions(
        &self,
        policy: &Rows,
        kl: Option<&Rows>,
        theirs: &Rows,
        signs: &Rows,
        tolerance: f64,
    ) -> Vec<String> {
        let mut words = Vec::new();
        for (unit, raw) in &self.raw {
            let tokens = Tokens::new(raw, policy, kl, theirs, tolerance);
            if let Some(seen) = tokens.seen() {
                words.extend(self.explained(*unit, &tokens, &seen, signs));
            }
        }
        words
    }

    /// The settings of every rejection of single tokens that dropped those without a gradient, as far as the loss gives them one.
    pub(super) fn rejections_of_zeros(&self, slopes: &Rows, theirs: &Rows) -> Vec<String> {
        let seen = |(slope, theirs): (&f64, &f64)| match (*slope == 0.0, *theirs == 0.0) {
            (true, _) => Seen::Unknown,
            (false, true) => Seen::Dropped,
            (false, false) => Seen::Whole,
        };
        let seen: Vec<Seen> = slopes.iter().flatten().zip(theirs.iter().flatten()).map(seen).collect();
        let split = |rows: &Rows| Split::of_tokens(rows.iter().flatten().copied().zip(&seen));
        let of_token = self.distances.iter().filter(|(word, _)| word.starts_with("token"));
        of_token
            .flat_map(|(word, rows)| {
                split(rows).rejection(word).into_iter().map(move |b| format!("reject={word}{b}"))
            })
            .collect()
    }

    /// The settings that explain what became of the tokens.
    fn explained(&self, unit: Unit, tokens: &Tokens, seen: &[Seen], signs: &Rows) -> Vec<String> {
        let cut: Vec<(f64, f64)> = tokens
            .all
            .iter()
            .zip(seen)
            .filter_map(|(t, seen)| if let Seen::Cut(to) = seen { Some((t.raw, *to)) } else { None })
            .collect();
        let dropped = seen.contains(&Seen::Dropped);
        if unit == Unit::None && (!cut.is_empty() || !dropped) {
            return Vec::new();
        }
        let of_raw = Split::of_tokens(tokens.all.iter().map(|t| t.raw).zip(seen));
        let mut found = Vec::new();
        let base = match unit {
            Unit::None => String::new(),
            _ => match truncated(unit, &cut, &of_raw) {
                Some(words) => words,
                None => return Vec::new(),
            },
        };
        if !dropped {
            return vec![base];
        }
        if unit != Unit::None && cut.is_empty() {
            found.extend(
                of_raw.bounds("correction").map(|bounds| format!("correction={}_mask{bounds}", unit.word())),
            );
            if let (Unit::Token, Some(means)) = (unit, &self.means) {
                let split = Split::of_tokens(tokens.pick(means).zip(seen));
                found.extend(
                    split.bounds("correction").map(|b| format!("correction=token_in_sequence_mask{b}")),
                );
            }
            found = found
                .into_iter()
                .flat_map(|words| [words.clone(), format!("{words} rejected=leave")])
                .collect();
        }
        for (word, distances) in &self.distances {
            let split = Split::of_tokens(tokens.pick(distances).zip(seen));
            found.extend(
                split.rejection(word).into_iter().map(|bounds| format!("{base} reject={word}{bounds}")),
            );
        }
        let of_negative = tokens.pick(&self.after).zip(tokens.pick(signs)).zip(seen);
        let of_negative: Vec<(f64, f64, Seen)> =
            of_negative.map(|((d, sign), seen)| (d, sign, *seen)).collect();
        if of_negative.iter().all(|(_, sign, seen)| *sign < 0.0 || *seen != Seen::Dropped) {
            let negative = of_negative.iter().filter(|(_, sign, _)| *sign < 0.0);
            let split = Split::of_tokens(negative.map(|(d, _, seen)| (*d, seen)));
            let bound = split.above.filter(|_| split.below.is_none() && split.consistent());
            found.extend(
                bound.map(|above| format!("{base} off_policy_mask={}", short(split.largest.max(0.0), above))),
            );
        }
        found.into_iter().map(|words| words.trim().to_owned()).collect()
    }
}

/// The settings of a truncated weight, whose cut tokens moved from one number to another; none where they were not cut at one bound each.
fn truncated(unit: Unit, cut: &[(f64, f64)], raw: &Split) -> Option<String> {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * b.abs();
    let bound = |side: &dyn Fn(&&(f64, f64)) -> bool| -> Option<Option<f64>> {
        let mut on_side = cut.iter().filter(side).map(|(_, to)| *to);
        let Some(first) = on_side.next() else { return Some(None) };
        let all: Vec<f64> = on_side.chain([first]).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        all.iter().all(|to| near(*to, mean)).then_some(Some(rounded(mean)))
    };
    let high = bound(&|(from, to): &&(f64, f64)| from > to)?;
    let low = bound(&|(from, to): &&(f64, f64)| from < to)?;
    // A bound that no weight reaches is the usual one, where that is as far.
    let high =
        high.unwrap_or_else(|| if raw.largest <= 3.0 { 3.0 } else { short(raw.largest, f64::INFINITY) });
    let low = low.map_or(String::new(), |low| format!(" correction_low={low}"));
    Some(format!("correction={}_truncate{low} correction_high={high}", unit.word()))
}

/// The number with the fewest digits within a hundred-thousandth.
fn rounded(x: f64) -> f64 {
    let digits = |d: i32| (x * 10f64.powi(d)).round() / 10f64.powi(d);
    (0..8).map(digits).find(|y| (x - y).abs() <= 1e-5 * x.abs()).unwrap_or(x)
}

/// The number with the fewest digits that is at least `from` and below `to`.
fn short(from: f64, to: f64) -> f64 {
    let digits = |d: i32| (from * 10f64.powi(d)).ceil() / 10f64.powi(d);
    (0..15).map(digits).find(|x| *x >= from && *x < to).unwrap_or(from)
}

/// The fate of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// Its weight is the ratio.
    Whole,
    /// Its weight was cut to this number.
    Cut(f64),
    /// It has no policy loss.
    Dropped,
    /// Its loss is too small to say.
    Unknown,
}

/// One token: its weight uncut, its policy term under that weight, its KL term, and the given number.
struct Token {
    place: (usize, usize),
    raw: f64,
    policy: f64,
    kl: f64,
    theirs: f64,
}

/// The tokens of a batch under one unit of the weight.
struct Tokens {
    all: Vec<Token>,
    with_kl: bool,
    /// The largest difference that counts as equal.
    least: f64,
}

/// Shares of the tokens, those with a weight nearest to 1, that are taken to be whole.
const CORES: [f64; 5] = [1.0, 0.5, 0.25, 0.125, 0.05];

impl Tokens {
    fn new(raw: &Rows, policy: &Rows, kl: Option<&Rows>, theirs: &Rows, tolerance: f64) -> Tokens {
        let mut all = Vec::new();
        for (i, row) in theirs.iter().enumerate() {
            for (t, &theirs) in row.iter().enumerate() {
                let kl = kl.map_or(0.0, |kl| kl[i][t]);
                let (raw, policy) = (raw[i][t], raw[i][t] * policy[i][t]);
                all.push(Token { place: (i, t), raw, policy, kl, theirs });
            }
        }
        Tokens { all, with_kl: kl.is_some(), least: tolerance * fit::largest(theirs) }
    }

    /// The numbers of other rows at the same places.
    fn pick<'a>(&'a self, rows: &'a Rows) -> impl Iterator<Item = f64> + 'a {
        self.all.iter().map(|t| rows[t.place.0][t.place.1])
    }

    /// The fate of every token; none where no core of them shows one factor and one coefficient.
    fn seen(&self) -> Option<Vec<Seen>> {
        let (factor, beta) = self.fitted()?;
        let of_token = |t: &Token| {
            let (whole, left) = (factor * t.policy, t.theirs - beta * t.kl);
            match () {
                () if whole.abs() <= 10.0 * self.least => Seen::Unknown,
                () if (left - whole).abs() <= self.least => Seen::Whole,
                // Dropped from the policy term alone, or from the KL term with it.
                () if left.abs() <= self.least || t.theirs.abs() <= self.least => Seen::Dropped,
                () => Seen::Cut(t.raw * left / whole),
            }
        };
        let seen: Vec<Seen> = self.all.iter().map(of_token).collect();
        let wrong = |seen: &Seen| matches!(seen, Seen::Cut(to) if *to <= 0.0);
        (!seen.iter().any(wrong)).then_some(seen)
    }

    /// The common factor of the policy term and the coefficient of the KL term, as whole tokens show them.
    fn fitted(&self) -> Option<(f64, f64)> {
        let mut tokens: Vec<&Token> = self.all.iter().filter(|t| t.policy != 0.0).collect();
        tokens.sort_by(|a, b| a.raw.ln().abs().total_cmp(&b.raw.ln().abs()));
        let left: Vec<&Token> = tokens.iter().copied().filter(|t| t.theirs.abs() > self.least).collect();
        let cores = CORES.iter().map(|share| &tokens[..(share * tokens.len() as f64).ceil() as usize]);
        let at_least = if self.with_kl { 4 } else { 2 };
        let cores = cores.chain([&left[..]]).filter(|core| core.len() >= at_least);
        cores.filter_map(|core| self.fitted_on(core)).next()
    }

    fn fitted_on(&self, core: &[&Token]) -> Option<(f64, f64)> {
        let column = |of: fn(&Token) -> f64| -> Rows { vec![core.iter().map(|t| of(t)).collect()] };
        let (policy, theirs) = (column(|t| t.policy), column(|t| t.theirs));
        let (factor, beta) = match self.with_kl {
            true => fit::two(&policy, &column(|t| t.kl), &theirs)?,
            false => (fit::one(&policy, &theirs)?, 0.0),
        };
        let fits = |t: &&Token| (factor * t.policy + beta * t.kl - t.theirs).abs() <= self.least;
        (factor > 0.0 && beta >= 0.0 && core.iter().all(fits)).then_some((factor, beta))
    }
}

/// Tokens that stayed and tokens that were dropped, along one number.
struct Split {
    smallest: f64,
    largest: f64,
    /// The largest number below all that stayed at which one was dropped.
    below: Option<f64>,
    /// The smallest number above them.
    above: Option<f64>,
    /// A token was dropped among those that stayed.
    mixed: bool,
}

impl Split {
    fn of_tokens<'a>(tokens: impl Iterator<Item = (f64, &'a Seen)>) -> Split {
        let (mut stayed, mut dropped) = (Vec::new(), Vec::new());
        for (x, seen) in tokens {
            match seen {
                Seen::Whole | Seen::Cut(_) => stayed.push(x),
                Seen::Dropped => dropped.push(x),
                Seen::Unknown => {}
            }
        }
        let smallest = stayed.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = stayed.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let below = dropped.iter().copied().filter(|x| *x < smallest).reduce(f64::max);
        let above = dropped.iter().copied().filter(|x| *x > largest).reduce(f64::min);
        let mixed = dropped.iter().any(|x| (smallest..=largest).contains(x));
        Split { smallest, largest, below, above, mixed }
    }

    fn consistent(&self) -> bool {
        !self.mixed && self.smallest.is_finite() && (self.below.is_some() || self.above.is_some())
    }

    /// The largest number with few digits that keeps all that stayed, and more than `below`.
    fn low(&self, below: f64) -> f64 {
        -short(-self.smallest, -below)
    }

    /// `KEY_low` and `KEY_high` of a mask of weights.
    fn bounds(&self, key: &str) -> Option<String> {
        if !self.consistent()
            || self.largest < 1.0 && self.above.is_some_and(|x| x < 1.0)
            || self.smallest > 1.0 && self.below.is_some_and(|x| x > 1.0)
        {
            return None;
        }
        let low = self.below.map_or(String::new(), |below| format!(" {key}_low={}", self.low(below)));
        let usual = |above: Option<f64>| {
            let fits = |x: &&f64| **x >= self.largest && above.is_none_or(|above| **x < above);
            [3.0, 2.0, 5.0].iter().find(fits).copied()
        };
        let high = usual(self.above)
            .unwrap_or_else(|| short(self.largest.max(1.0), self.above.unwrap_or(f64::INFINITY)));
        Some(format!("{low} {key}_high={high}"))
    }

    /// The bounds of a distance: one above, and one below for the ratios of `k1`, which is the inverse of the upper one unless it is given.
    fn rejection(&self, word: &str) -> Vec<String> {
        if !self.consistent() {
            return Vec::new();
        }
        if !word.ends_with("k1") {
            let above = self.above.filter(|_| self.below.is_none());
            return above
                .map(|above| format!(" reject_high={}", short(self.largest, above)))
                .into_iter()
                .collect();
        }
        let high = short(self.largest, self.above.unwrap_or(f64::INFINITY));
        let low = self.low(self.below.unwrap_or(0.0));
        let inverse = 1.0 / high <= self.smallest && self.below.is_none_or(|below| below < 1.0 / high);
        let alone = inverse.then(|| format!(" reject_high={high}"));
        [Some(format!(" reject_low={low} reject_high={high}")), alone].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_few_digits() {
        assert_eq!(
            [short(1.2, 3.0), short(1.21, 1.29), short(0.0, 0.1), short(2.0, 2.1)],
            [2.0, 1.21, 0.0, 2.0]
        );
        assert_eq!([rounded(2.999_999_9), rounded(0.5), rounded(1.234_56)], [3.0, 0.5, 1.23456]);
        let seen = [Seen::Dropped, Seen::Whole, Seen::Whole, Seen::Dropped];
        let split = Split::of_tokens([0.1, 0.6, 2.5, 4.0].into_iter().zip(&seen));
        assert!(split.consistent());
        assert_eq!(split.bounds("correction").as_deref(), Some(" correction_low=0.6 correction_high=3"));
        let mixed = Split::of_tokens([0.1, 0.6, 0.5, 4.0].into_iter().zip(&[
            Seen::Whole,
            Seen::Whole,
            Seen::Dropped,
            Seen::Whole,
        ]));
        assert_eq!(mixed.bounds("correction"), None);
    }
}
