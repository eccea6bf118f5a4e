//! [`Choice`]: the words that a setting takes, declared with the values they stand for.

/// The values of a setting that takes one of some words. The macro `choice!` implements it, so that a value without a word does not compile.
pub trait Choice: Copy + 'static {
    /// Every word, in the order of tables.
    const WORDS: &'static [&'static str];

    /// The word of this value.
    fn word(self) -> &'static str;

    /// The value of this word; `None` for another word.
    fn parse(word: &str) -> Option<Self>;
}

/// `choice!(Style { "recent" => Recent, "both" => Both })` implements [`Choice`] for an enum. With `enum` in front of the name it declares
/// the enum, too.
macro_rules! choice {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($word:literal => $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($variant),+ }
        $crate::settings::choice!($name { $($word => $variant),+ });
    };
    ($name:ident { $($word:literal => $variant:ident),+ $(,)? }) => {
        impl $crate::settings::Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            fn parse(word: &str) -> Option<Self> {
                [$(Self::$variant),+].into_iter().find(|value| value.word() == word)
            }
        }
    };
}
pub(crate) use choice;
