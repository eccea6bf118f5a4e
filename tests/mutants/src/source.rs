//! A source file with its syntax tree, and the way from one to the other.

use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::Span;

use crate::mutant::Place;

/// A parsed file.
pub(crate) struct Source<'f> {
    pub file: &'f Path,
    pub text: String,
    pub tree: syn::File,
    /// The offset of each line.
    lines: Vec<usize>,
}

impl<'f> Source<'f> {
    pub(crate) fn parse(file: &'f Path, text: String) -> Result<Source<'f>> {
        let tree = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Ok(Source { file, text, tree, lines })
    }

    /// The name of the module the file holds.
    pub(crate) fn module(&self) -> &str {
        self.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
    }

    /// The offset of a place.
    pub(crate) fn offset(&self, at: Place) -> usize {
        let line = self.lines[at.line - 1];
        let rest = &self.text[line..];
        line + rest.char_indices().nth(at.column - 1).map_or(rest.len(), |(i, _)| i)
    }

    /// The start and the end of a piece of syntax.
    pub(crate) fn range(&self, span: Span) -> (usize, usize) {
        let [start, end] =
            [span.start(), span.end()].map(|at| self.offset(Place { line: at.line, column: at.column + 1 }));
        (start, end)
    }

    /// Its text.
    pub(crate) fn text_of(&self, span: Span) -> &str {
        let (start, end) = self.range(span);
        &self.text[start..end]
    }
}
