//! A mutant as cargo-mutants lists it.

use std::path::PathBuf;

use serde::Deserialize;

/// A place in a file: line and column from 1, in characters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Place {
    pub line: usize,
    pub column: usize,
}

/// From the first character to behind the last.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Extent {
    pub start: Place,
}

/// One replacement.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mutant {
    /// Relative to the root of the tree.
    pub file: PathBuf,
    /// `BinaryOperator`, `FnValue`, ..
    pub genre: String,
    pub name: String,
    pub replacement: String,
    pub span: Extent,
}

/// A mutant with its number in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered<'m> {
    pub number: usize,
    pub mutant: &'m Mutant,
}

/// The fate of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It is compiled in behind its switch.
    Switch,
    /// Its text does not compile, alone neither: cargo-mutants calls it unviable.
    DoesNotCompile,
    /// In a chain of `let` conditions, where `||` is not allowed.
    LetChain,
    /// In a constant that has to stay one.
    Constant,
    /// The place is not one that this program looks at.
    NotFound,
}

impl Status {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Status::Switch => "switch",
            Status::DoesNotCompile => "does not compile",
            Status::LetChain => "let chain",
            Status::Constant => "constant",
            Status::NotFound => "not found",
        }
    }
}
