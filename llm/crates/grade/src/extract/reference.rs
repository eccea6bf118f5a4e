//! References as data sets write them: a number with its noun in brackets, a list in quotation marks, a whole solution.

use std::borrow::Cow;

/// `7 (apples)` as a number with a noun, `['$2$', '$3$']` as a list; any other text itself.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim();
    if let Some((number, noun)) = trimmed.strip_suffix(')').and_then(|inside| inside.split_once(" (")) {
        let digits = number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '/'));
        let words = noun.chars().all(|c| c.is_alphabetic() || matches!(c, ' ' | '-' | '/')) && noun.len() > 1;
        if digits && words && number.contains(|c: char| c.is_ascii_digit()) && !noun.starts_with("mod ") {
            return Cow::Owned(format!("{number}\\text{{ {noun}}}"));
        }
    }
    for quote in ['\'', '"'] {
        let list = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(inside) = list.and_then(|list| list.strip_prefix(quote)?.strip_suffix(quote)) {
            let comma = format!("{quote}, {quote}");
            let parts = inside.split(&comma).map(|part| part.trim().trim_matches('$'));
            return Cow::Owned(parts.collect::<Vec<_>>().join(", "));
        }
    }
    Cow::Borrowed(text)
}

/// The answer that a whole solution marks by `####` or a box; a text without a mark itself.
pub(super) fn marked(text: &str) -> Cow<'_, str> {
    let hashes = || super::after_hashes(text).map(|line| Cow::Borrowed(line.trim()));
    super::last_box(text)
        .filter(|inside| !inside.trim().is_empty())
        .or_else(hashes)
        .unwrap_or(Cow::Borrowed(text))
}
