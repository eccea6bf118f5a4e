//! Integers of any size, compared as text: the answers of training, and the shortest way for the commonest answer.

use std::fmt;

/// An optional sign and decimal digits, in canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Integer {
    negative: bool,
    digits: String,
}

impl Integer {
    /// Reads `12`, `-7`, `+3`, `007`, `$12$`, with blanks around; thousands commas only at their places (`1,234`, not
    /// `0,125`).
    pub(super) fn parse(text: &str) -> Option<Integer> {
        let text = text.trim();
        let text = text.strip_prefix('$').and_then(|t| t.strip_suffix('$')).unwrap_or(text).trim();
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let digits_only = |g: &str| !g.is_empty() && g.bytes().all(|b| b.is_ascii_digit());
        let mut groups = rest.split(',');
        let first = groups.next().filter(|g| digits_only(g))?;
        let mut digits = first.to_owned();
        for group in groups {
            if first.len() > 3 || first.starts_with('0') || group.len() != 3 || !digits_only(group) {
                return None;
            }
            digits += group;
        }
        let digits = match digits.trim_start_matches('0') {
            "" => "0".to_owned(),
            significant => significant.to_owned(),
        };
        Some(Integer { negative: negative && digits != "0", digits })
    }
}

impl From<i64> for Integer {
    fn from(n: i64) -> Self {
        Integer { negative: n < 0, digits: n.unsigned_abs().to_string() }
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.negative { "-" } else { "" }, self.digits)
    }
}
