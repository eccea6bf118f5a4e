//! Enums whose variants have names in files.

/// Declares an enum whose variants have a name and, in their documentation, a sentence.
macro_rules! named {
    ($(#[$on_enum:meta])* $type:ident { $($(#[doc = $doc:literal])+ $variant:ident $name:literal $(($on_variant:meta))?,)+ }) => {
        $(#[$on_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $type {
            $($(#[doc = $doc])+ $(#[$on_variant])? $variant,)+
        }

        impl $type {
            /// Every one, in the order of the declaration.
            pub const ALL: &'static [$type] = &[$($type::$variant,)+];

            /// The name in files.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }

            /// The one with this name.
            pub fn find(name: &str) -> Option<$type> {
                $type::ALL.iter().copied().find(|one| one.name() == name)
            }

            /// The sentence that describes it.
            pub fn about(self) -> &'static str {
                match self {
                    $($type::$variant => concat!($($doc,)+).trim_ascii(),)+
                }
            }
        }
    };
}
pub(crate) use named;

/// Declares an enum and a function that finds a variant without a value by its name in the code.
macro_rules! coded {
    ($(#[$on:meta])* $type:ident by $find:ident: $($name:ident)+ $(; $($more:tt)+)?) => {
        $(#[$on])*
        pub(crate) enum $type {
            $($name,)+
            $($($more)+)?
        }

        pub(crate) fn $find(name: &str) -> Option<$type> {
            match name {
                $(stringify!($name) => Some($type::$name),)+
                _ => None,
            }
        }
    };
}
pub(crate) use coded;
