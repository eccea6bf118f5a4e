//! A field of a configuration and the kinds of values that fields accept.

use std::fmt;

use grpo_lambda::settings::{Kind, did_you_mean};

/// A bound that is never reached in practice; its double still fits TOML's integers.
pub(super) const ANY: u64 = 1_000_000_000_000_000;

/// The values that a field accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    /// A value as methods take it: a number in a range, a choice, a flag.
    Setting(Kind),
    /// A whole number in `min..=max`.
    Integer { min: u64, max: u64 },
    /// `none` or a value of this kind.
    Optional(&'static ValueKind),
    /// Whole numbers in `min..=max`, at least one.
    Integers { min: u64, max: u64 },
    /// Some of these words, each once, at least one; written in this order.
    Words(&'static [&'static str]),
    /// A finite number greater than 0.
    Positive,
    /// Two finite numbers, the lower first.
    Range,
    /// A path.
    Path,
    /// A text of at least one character; this is the default.
    Text(&'static str),
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ValueKind::Setting(kind) => write!(f, "{kind}"),
            ValueKind::Integer { min, max: ANY } => write!(f, "a whole number of at least {min}"),
            ValueKind::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            ValueKind::Optional(kind) => write!(f, "none or {kind}"),
            ValueKind::Integers { min, max } => {
                write!(f, "a list of whole numbers from {min} to {max}, as in 1,2")
            }
            ValueKind::Words(words) => write!(f, "a list of {}", words.join(", ")),
            ValueKind::Positive => write!(f, "a number greater than 0"),
            ValueKind::Range => write!(f, "two numbers, the lower first, as in 0.1,0.9"),
            ValueKind::Path => write!(f, "a directory"),
            ValueKind::Text(unsaid) => write!(f, "{unsaid}, or a text of at least one character"),
        }
    }
}

/// The words of `a,b`, also in brackets and quotes.
fn split_words(text: &str) -> Vec<&str> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    inner.split(',').map(|w| w.trim().trim_matches('"')).collect()
}

/// The numbers of `low,high`, also in brackets.
pub(super) fn range(text: &str) -> Option<[f64; 2]> {
    let numbers: Vec<f64> = split_words(text).iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [low, high] = numbers[..] else { return None };
    (low.is_finite() && high.is_finite() && low <= high).then_some([low, high])
}

impl ValueKind {
    /// The canonical spelling of a value, or `None` when it is invalid.
    pub fn canonical(self, text: &str) -> Option<String> {
        let text = text.trim();
        let whole = |t: &str| t.trim().replace('_', "").parse::<u64>().ok();
        let positive = |t: &str| {
            let number = t.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
            number.map(|x| x.to_string())
        };
        match self {
            ValueKind::Setting(kind) => kind.canonical(text),
            ValueKind::Integer { min, max } => {
                whole(text).filter(|n| (min..=max).contains(n)).map(|n| n.to_string())
            }
            ValueKind::Optional(_) if text == "none" => Some(text.to_owned()),
            ValueKind::Optional(kind) => kind.canonical(text),
            ValueKind::Integers { min, max } => {
                let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
                let numbers: Option<Vec<u64>> = inner.split(',').map(whole).collect();
                let numbers = numbers.filter(|l| l.iter().all(|n| (min..=max).contains(n)))?;
                Some(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
            }
            ValueKind::Words(words) => {
                let given = split_words(text);
                let distinct = given.iter().enumerate().all(|(i, w)| !given[..i].contains(w));
                let known = given.iter().all(|w| words.contains(w));
                let ordered: Vec<&str> = words.iter().copied().filter(|w| given.contains(w)).collect();
                (distinct && known).then(|| ordered.join(","))
            }
            ValueKind::Positive => positive(text),
            ValueKind::Range => range(text).map(|[low, high]| format!("{low},{high}")),
            ValueKind::Path | ValueKind::Text(_) => (!text.is_empty()).then(|| text.to_owned()),
        }
    }

    /// A hint for an unknown word of a list, ` (did you mean ..?)`, or for a number that is too large; or empty.
    pub(super) fn hint(self, text: &str) -> String {
        if matches!(self, ValueKind::Integer { max: ANY, .. })
            && text.parse().is_ok_and(|n: f64| n > ANY as f64)
        {
            return format!(" (and at most {ANY})");
        }
        let ValueKind::Words(words) = self else { return String::new() };
        let other = split_words(text).into_iter().find(|w| !words.contains(w));
        other.map_or(String::new(), |w| did_you_mean(w, words.iter().copied()))
    }

    /// A canonical value as TOML.
    pub(super) fn toml(self, value: &str) -> String {
        match self {
            ValueKind::Optional(kind) if value != "none" => kind.toml(value),
            ValueKind::Integer { .. } | ValueKind::Setting(Kind::Flag) => value.to_owned(),
            ValueKind::Setting(Kind::Choice(_)) if value.parse::<u64>().is_ok() => value.to_owned(),
            ValueKind::Integers { .. } => format!("[{}]", value.replace(',', ", ")),
            ValueKind::Words(_) => {
                let quoted: Vec<String> = value.split(',').map(|w| format!("\"{w}\"")).collect();
                format!("[{}]", quoted.join(", "))
            }
            _ => toml_scalar(value),
        }
    }
}

/// A word, number or flag as TOML.
pub(super) fn toml_scalar(text: &str) -> String {
    match text.parse::<f64>() {
        _ if matches!(text, "true" | "false") => text.to_owned(),
        Ok(x) if x.is_finite() => {
            format!("{x:?}") // always with a point or an exponent, so that TOML reads a float
        }
        _ => toml::Value::String(text.to_owned()).to_string(),
    }
}

/// A field: its dotted key, the values it accepts, its default and its description.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// The dotted key.
    pub key: &'static str,
    pub kind: ValueKind,
    pub default: &'static str,
    /// Its meaning on one line.
    pub about: &'static str,
    /// True if the value affects the result; a run is resumed with the same value.
    pub affects_result: bool,
}
