//! [`Param`]: how a setting is declared.

use std::fmt;

use super::Choice;

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A finite number in `min..=max`.
    Number {
        /// Smallest allowed value.
        min: f64,
        /// Largest allowed value.
        max: f64,
    },
    /// `none`, or a finite number in `min..=max`.
    OptionalNumber {
        /// Smallest allowed value.
        min: f64,
        /// Largest allowed value.
        max: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
}

impl Kind {
    /// The one spelling of a value that the setting takes, as in `0.9` for `.90`; none for a value that it does not take.
    pub fn canonical(self, text: &str) -> Option<String> {
        let within = |min: f64, max: f64| {
            let number = text.parse::<f64>().ok().filter(|x| x.is_finite() && (min..=max).contains(x));
            number.map(|x| x.to_string())
        };
        match self {
            Kind::OptionalNumber { .. } if text == "none" => Some(text.to_owned()),
            Kind::Number { min, max } | Kind::OptionalNumber { min, max } => within(min, max),
            Kind::Choice(words) => words.contains(&text).then(|| text.to_owned()),
            Kind::Flag => matches!(text, "true" | "false").then(|| text.to_owned()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |f: &mut fmt::Formatter<'_>, min: f64, max: f64| match (min.is_finite(), max.is_finite())
        {
            // 0.000..1 in full could not be read.
            (true, true) if 0.0 < min && min < 1e-4 => write!(f, "a number from {min:e} to {max}"),
            (true, true) => write!(f, "a number from {min} to {max}"),
            (true, false) => write!(f, "a number of at least {min}"),
            (false, true) => write!(f, "a number of at most {max}"),
            (false, false) => write!(f, "a finite number"),
        };
        match *self {
            Kind::Number { min, max } => range(f, min, max),
            Kind::OptionalNumber { min, max } => {
                write!(f, "none or ")?;
                range(f, min, max)
            }
            Kind::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Kind::Flag => write!(f, "true or false"),
        }
    }
}

/// A value that a setting may take. Every [`Choice`] is one; a word of an enum that is not public is given as text.
pub trait Value {
    /// The value as a user would write it.
    fn spelt(self) -> String;
}

impl<T: Choice> Value for T {
    fn spelt(self) -> String {
        self.word().to_owned()
    }
}

macro_rules! spelt_by_display {
    ($($type:ty)*) => {
        $(impl Value for $type {
            fn spelt(self) -> String {
                self.to_string()
            }
        })*
    };
}
spelt_by_display!(f64 usize bool &str);

impl Value for Option<f64> {
    fn spelt(self) -> String {
        self.map_or("none".to_owned(), Value::spelt)
    }
}

/// The values of another setting under which a setting has no effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Silence {
    /// The listed values.
    Of(&'static [&'static str]),
    /// Every value but this one.
    AllBut(&'static str),
}

impl Silence {
    /// True if the other setting's `value` is one of them; numbers are compared as numbers.
    pub fn covers(self, value: &str) -> bool {
        let number = |text: &str| text.parse::<f64>().ok();
        let equal = |own: &str| own == value || number(own).is_some_and(|x| number(value) == Some(x));
        match self {
            Silence::Of(values) => values.iter().any(|own| equal(own)),
            Silence::AllBut(own) => !equal(own),
        }
    }
}

/// A setting: its key, what it takes, its default and its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The name of the setting, the left side of `key=value`.
    pub key: &'static str,
    /// The values it takes.
    pub kind: Kind,
    /// The default, spelt as a user would.
    pub default: String,
    /// Its meaning, in one line.
    pub about: &'static str,
    /// Other settings with the values of them under which, all together, this one has no effect.
    pub idle_under: Vec<(&'static str, Silence)>,
}

impl Param {
    /// A number in a range.
    pub fn number(key: &'static str, default: f64, min: f64, max: f64, about: &'static str) -> Self {
        Param {
            key,
            kind: Kind::Number { min, max },
            default: default.to_string(),
            about,
            idle_under: Vec::new(),
        }
    }
    /// `none` or a number in a range.
    pub fn optional(
        key: &'static str,
        default: Option<f64>,
        min: f64,
        max: f64,
        about: &'static str,
    ) -> Self {
        let default = default.map_or("none".to_owned(), |x| x.to_string());
        Param { key, kind: Kind::OptionalNumber { min, max }, default, about, idle_under: Vec::new() }
    }
    /// One of the words of `T`.
    pub fn choice<T: Choice>(key: &'static str, default: T, about: &'static str) -> Self {
        let default = default.word().to_owned();
        Param { key, kind: Kind::Choice(T::WORDS), default, about, idle_under: Vec::new() }
    }
    /// `true` or `false`.
    pub fn flag(key: &'static str, default: bool, about: &'static str) -> Self {
        Param { key, kind: Kind::Flag, default: default.to_string(), about, idle_under: Vec::new() }
    }

    /// Has no effect where the setting `key` has one of these values, and what was named before holds.
    pub fn idle_under(mut self, key: &'static str, values: &'static [&'static str]) -> Self {
        self.idle_under.push((key, Silence::Of(values)));
        self
    }

    /// Has no effect where the setting `key` has another value than this, and what was named before holds.
    pub fn idle_unless(mut self, key: &'static str, value: &'static str) -> Self {
        self.idle_under.push((key, Silence::AllBut(value)));
        self
    }

    /// The setting that leaves this one without effect, if one does; of several the first.
    pub fn silenced_by(&self, settings: &super::Settings) -> Option<&'static str> {
        let (first, _) = self.idle_under.first()?;
        let covered = |(key, silence): &(&str, Silence)| silence.covers(settings.word(key));
        self.idle_under.iter().all(covered).then_some(*first)
    }
}
