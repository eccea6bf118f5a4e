//! Enums whose values have words in configurations.

/// `words! { enum Name { Variant = "word", .. } }` declares the enum with its words.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $Name:ident { $($(#[$about:meta])* $Variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $Name {
            $($(#[$about])* $Variant,)+
        }

        impl $Name {
            /// The words, in the order of the values.
            $vis const NAMES: [&'static str; [$($word),+].len()] = [$($word),+];

            /// The word of this value.
            $vis fn name(self) -> &'static str {
                match self {
                    $($Name::$Variant => $word,)+
                }
            }

            /// The value of this word.
            $vis fn parse(word: &str) -> Option<Self> {
                [$($Name::$Variant),+].into_iter().find(|value| value.name() == word)
            }
        }
    };
}
pub(crate) use words;
