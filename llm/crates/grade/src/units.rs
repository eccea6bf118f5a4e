//! Units: their names in text, their dimensions and exact factors; currencies, percent, and nouns that are counted.

use std::sync::LazyLock;

use num_rational::BigRational;
use num_traits::{One, Pow};

use super::words::{is_among, number_word};

/// Exponents of the base units: metre, kilogram, second, dollar cent, ampere, kelvin, mole, degree of arc, bit, and of
/// currencies and counts without exact rates, which are units of their own.
type Dimension = [i8; 9];

/// The base units in the order of their exponents.
const BASES: &str = "m kg s cent A K mol degree bit";

/// A unit of `units.txt`.
struct Entry {
    /// The names, the canonical one first.
    names: Vec<&'static str>,
    /// `None` for a unit that has no factor to any other.
    measure: Option<Measure>,
}

static UNITS: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let base = |part: &str| {
        let (name, power) = part.split_once('^').unwrap_or((part, "1"));
        Some((BASES.split(' ').position(|base| base == name)?, power.parse::<i8>().ok()?))
    };
    let entry = |line: &'static str| {
        let mut fields = line.split('\t');
        let factor = fields.next()?.parse().ok()?;
        let bases: Option<Vec<_>> = fields.next()?.split(' ').map(base).collect();
        let names = fields.next()?.split(' ').collect();
        let measure = bases.map(|bases| {
            let mut dimension = [0; 9];
            bases.into_iter().for_each(|(at, power)| dimension[at] = power);
            Measure { dimension, factor }
        });
        Some(Entry { names, measure })
    };
    include_str!("units.txt").lines().filter_map(entry).collect()
});

fn entry(word: &str) -> Option<&'static Entry> {
    UNITS.iter().find(|entry| entry.names.contains(&word))
}

/// The canonical, singular name of a unit without its power. A symbol keeps its case (`mW`, `MW`), a word does not.
pub(super) fn canonical(word: &str) -> Option<&'static str> {
    let symbol = word.len() < 2 || word.len() < 4 && word.starts_with('M');
    let folded = || entry(&word.to_lowercase()).filter(|_| !symbol);
    entry(word).or_else(folded).map(|entry| entry.names[0])
}

/// The words after a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A unit in canonical spelling: `cm^2`, `km/hour`.
    Measure(String),
    /// Other words, in lower case and the singular; empty for the ending of an ordinal number.
    Noun(String),
}

/// Words after a number that change it or judge it.
const CHANGES: &str = "squared|cubed|factorial|root|roots|inverse|reciprocal|doubled|doubles|halved|tripled|\
    fails|failed|twice|half|halves|tens|gross|dozen|dozens|score|choose|power|powers|mod|modulo|not|no|\
    never|none|wrong|incorrect|false|invalid|least|most|minimum|maximum|min|max|maybe|perhaps|possibly|\
    unknown|ignored|unless|except|excluding|cannot|can't|isn't|impossible|if|than|too|guess|negative|minus|\
    plus|times|is|are|was|be|should|would|more|less|fewer|under|over|above|below|between|early|late|\
    conjugate|squares|cubes|backwards|forwards|upwards|downwards|always|sometimes";

impl Unit {
    /// True if the words say nothing of the value and may be missing on one side; with `any`, whatever noun they are.
    pub(super) fn is_silent(&self, any: bool) -> bool {
        let Unit::Noun(words) = self else { return true };
        let all = || words.split(' ').filter(|word| !word.is_empty());
        let stem = |word: &'_ str| word.split('^').next().unwrap_or_default().to_owned();
        let unit = |word: &str| canonical(&stem(word)).is_some() || is_among(&stem(word), COUNTED);
        let plural = |word: &str| word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
        // In other scripts the words are not known.
        let known = |word: &str| any || unit(word) || plural(word) || !word.is_ascii();
        // `9 nines`
        let counts = |word: &str| number_word(singular(word)).is_some_and(|n| n > 1);
        !all().any(|word| is_among(word, CHANGES) || counts(word)) && (words.is_empty() || all().any(known))
    }

    /// True if both are words for the same thing, of which one may say more of it: `minutes` and `minutes of an hour`,
    /// `apples` and `red apples`; `nautical miles` are other miles.
    pub(super) fn is_same(&self, other: &Unit) -> bool {
        let (Unit::Measure(a) | Unit::Noun(a), Unit::Measure(b) | Unit::Noun(b)) = (self, other);
        let name = |word: &str| canonical(word).unwrap_or(singular(word)).to_owned();
        let [a, b] = [a, b].map(|text| text.replace('/', " per ").split(' ').map(name).collect::<Vec<_>>());
        if let (Unit::Measure(_), Unit::Measure(_)) = (self, other) {
            return a == b;
        }
        let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
        let more = if long.starts_with(&short) {
            &long[short.len()..]
        } else if long.ends_with(&short) && short.iter().all(|word| canonical(word).is_none()) {
            &long[..long.len() - short.len()]
        } else {
            return false;
        };
        short.iter().any(|word| !word.is_empty()) && !more.iter().any(|word| is_among(word, CHANGES))
    }
}

fn singular(word: &str) -> &str {
    word.strip_suffix('s').filter(|stem| stem.len() > 2 && !stem.ends_with('s')).unwrap_or(word)
}

/// The factor from a unit to base units, and their exponents.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measure {
    pub(super) dimension: Dimension,
    pub(super) factor: BigRational,
}

/// Reads canonical units with powers: `cm^2`, `km/hour`, `kg m/s^2`; `None` if one of them has no factor.
pub(super) fn measure(units: &str) -> Option<Measure> {
    let mut total = Measure { dimension: [0; 9], factor: BigRational::one() };
    let mut divides = false;
    for part in units.split_inclusive([' ', '/']) {
        let word = part.trim_end_matches([' ', '/']);
        if !word.is_empty() {
            let (name, power) = word.split_once('^').unwrap_or((word, "1"));
            let power: i8 = power.parse().ok().filter(|p: &i8| p.abs() <= 6)?;
            let unit = entry(name)?.measure.as_ref()?;
            let power = if divides { -power } else { power };
            for (sum, exponent) in total.dimension.iter_mut().zip(unit.dimension) {
                *sum = sum.checked_add(exponent.checked_mul(power)?)?;
            }
            total.factor *= Pow::pow(&unit.factor, i32::from(power));
        }
        divides = part.ends_with('/');
    }
    Some(total)
}

pub(super) fn is_percent(word: &str) -> bool {
    const WORDS: &str = "percent|per cent|pct|prozent|pour cent|por ciento|por cento|процент|процента|процентов|\
        パーセント|प्रतिशत";
    is_among(&word.to_lowercase(), WORDS)
}

/// Words that may follow a number and say nothing of its value, besides the units.
const COUNTED: &str = "unit|units|square|cubic|sq|ways|way|people|students|points|solutions|values|integers|\
    numbers|times|per|apples|books|coins|marbles|roots|pairs|triangles|digits|squares|cubed";

/// True if a plain word of several letters after a number is a unit and not a product of variables.
pub(super) fn is_plain_unit(word: &str) -> bool {
    let lower = word.to_lowercase();
    word.len() > 1
        && !matches!(lower.as_str(), "in" | "ma" | "ha")
        && (canonical(word).is_some() || is_among(&lower, COUNTED))
}

/// True if letters after a number are a noun and no variables: a longer word with vowels, not in alphabetical order.
pub(super) fn may_be_counted(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let vowels = lower.bytes().filter(|b| b"aeiouy".contains(b)).count();
    word.len() >= 4
        && vowels > 0
        && !lower.as_bytes().is_sorted()
        && !matches!(lower.as_str(), "sqrt" | "frac" | "infty")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        let lines = include_str!("units.txt").lines().filter(|line| !line.starts_with('#'));
        assert_eq!((UNITS.len(), lines.count()), (95, 95));
        assert_eq!(UNITS.iter().filter(|unit| unit.measure.is_none()).count(), 17);
    }
}
