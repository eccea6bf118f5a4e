//! Numbers: thousands marks, decimal signs, repeating digits, powers of ten.

use super::{Lexer, Token};
use crate::rules::Rule;

pub(crate) fn plain_number(digits: &str) -> Token {
    Token::Number { digits: digits.to_owned(), repeating: String::new(), exponent: 0, dots: false }
}

/// A run of groups of three digits, its end, and true if a mark in it can only part thousands.
type Groups<'a> = (Vec<&'a str>, usize, bool);

/// Marks of which none is also a list separator or a decimal sign, and the plain comma.
const MARKS: [&str; 7] = ["\\;", ",\\!", ", \\!", "{,}", "\\,", "\\ ", ","];
/// Marks that only the rule `thousands` reads.
const WIDE_MARKS: [&str; 7] = [" ", "\u{a0}", "\u{202f}", "\u{2009}", "~", "'", "’"];

fn leading_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// A signed number of one to six digits, and its length.
fn exponent(text: &str) -> Option<(i64, usize)> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let length =
        text.len() - unsigned.len() + Some(leading_digits(unsigned)).filter(|n| (1..=6).contains(n))?;
    Some((text[..length].trim_start_matches('+').parse().unwrap_or(0), length))
}

impl<'a> Lexer<'a> {
    fn digits(&mut self) -> &'a str {
        self.take_while(|c| c.is_ascii_digit())
    }

    pub(super) fn number(&mut self) {
        let mut digits = self.digits().to_owned();
        self.digits_of_a_base(&mut digits);
        if !digits.is_empty() && !self.thousands(&mut digits) && self.spelling.wide {
            self.wide_thousands(&mut digits);
        }
        let repeating = self.fraction(&mut digits);
        // The `e3` of `1.5e3`.
        let power = self.rest().strip_prefix(['e', 'E']).and_then(exponent);
        let (exponent, length) = power.map_or((0, 0), |(value, length)| (value, length + 1));
        self.at += length;
        let dots = ["...", "…", "\\ldots", "\\dots", "\\cdots"];
        let dots = digits.contains('.') && dots.iter().any(|dots| self.take(dots));
        self.push(Token::Number { digits, repeating, exponent, dots });
    }

    /// The letters among the digits of `2A_{16}`, which may be upright: `2\text{A}_{16}`.
    fn digits_of_a_base(&mut self, digits: &mut String) {
        let (mut rest, mut more) = (self.rest(), String::new());
        loop {
            let end = rest.find(|c: char| !matches!(c, '0'..='9' | 'A'..='F')).unwrap_or(rest.len());
            more += &rest[..end];
            rest = &rest[end..];
            let upright = ["\\text{", "\\mathrm{"].iter().find_map(|command| rest.strip_prefix(command));
            let Some((inside, after)) = upright.and_then(|inside| inside.split_once('}')) else { break };
            more += inside;
            rest = after;
        }
        let letters = more.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'A'..=b'F'));
        if !digits.is_empty() && letters && rest.starts_with('_') {
            *digits += &more;
            self.at = self.text.len() - rest.len();
        }
    }

    /// Adds the digits after the decimal sign and gives the repeating ones.
    fn fraction(&mut self, digits: &mut String) -> String {
        let digit_or_command = |c: char| c.is_ascii_digit() || c == '\\';
        let is_point = |sign: &&str| {
            self.rest().strip_prefix(*sign).is_some_and(|after| after.starts_with(digit_or_command))
        };
        if let Some(sign) = [".", "{.}"].into_iter().find(is_point) {
            self.at += sign.len();
        } else if let Some(length) = self.decimal_comma(digits) {
            self.uses(Rule::DecimalComma);
            self.at += length;
        } else {
            return String::new();
        }
        let (after, repeating) = (self.digits(), self.repeating());
        if !after.is_empty() || !repeating.is_empty() {
            digits.push('.');
        }
        *digits += after;
        repeating
    }

    /// The length of a comma that is the decimal sign here: `3{,}5`, `3,5` and `0,5` by spelling.
    fn decimal_comma(&self, digits: &str) -> Option<usize> {
        if !self.spelling.wide || digits.is_empty() {
            return None;
        }
        let thousands = |length| length == 3 && digits.len() <= 3 && !digits.starts_with('0');
        let rest = self.rest();
        if let Some(after) = rest.strip_prefix("{,}") {
            let length = leading_digits(after);
            return (length > 0 && !thousands(length)).then_some(3);
        }
        let after = rest.strip_prefix(',')?;
        let length = leading_digits(after);
        // Another comma before or after it makes it a list, and three digits make it a thousands comma.
        let single = !after[length..].starts_with(',')
            && !self.after_a_comma(digits.len())
            && (self.depth == 0 || self.text.contains(';'));
        (length > 0 && single && !thousands(length) && self.spelling.comma).then_some(1)
    }

    /// Takes the `\overline{3}` after a decimal.
    fn repeating(&mut self) -> String {
        for (open, close) in
            [("\\overline{", "}"), ("\\bar{", "}"), ("\\dot{", "}"), ("\\overline ", ""), ("\\bar ", "")]
        {
            let Some(inside) = self.rest().strip_prefix(open) else { continue };
            let length = leading_digits(inside).min(if close.is_empty() { 1 } else { usize::MAX });
            if length > 0 && inside[length..].starts_with(close) {
                self.at += open.len() + length + close.len();
                return inside[..length].to_owned();
            }
        }
        String::new()
    }

    /// Adds the groups of three digits that follow after thousands commas or thin spaces.
    fn thousands(&mut self, digits: &mut String) -> bool {
        let groups = self.groups().filter(|_| digits.len() <= 3);
        let Some((parts, end, sure)) = groups else { return false };
        // No member of a list is written `000`.
        let zeros = parts.iter().any(|group| group.starts_with('0'));
        let listed = self.depth > 0 || digits.starts_with('0') || self.after_a_comma(digits.len());
        if self.spelling.comma && !zeros || !sure && listed {
            return false;
        }
        let two_ways = !sure && !zeros;
        self.two_ways |= two_ways;
        if two_ways && !self.spelling.thousands {
            return false;
        }
        digits.extend(parts);
        self.at = end;
        true
    }

    /// True if these digits follow a number and a comma: they go on with a run of which a part did not fit.
    fn after_a_comma(&self, length: usize) -> bool {
        let before = self.text[..self.at - length].strip_suffix(',');
        before.is_some_and(|before| before.ends_with(|c: char| c.is_ascii_digit()))
    }

    /// The groups here. `None` if one does not fit: `27,54,108` is a list.
    fn groups(&self) -> Option<Groups<'a>> {
        let (mut end, mut parts, mut sure) = (self.at, Vec::new(), false);
        loop {
            let rest = &self.text[end..];
            let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) else { break };
            let certain = mark != ",";
            let after = rest[mark.len()..].trim_start_matches(if certain { ' ' } else { '\0' });
            let length = leading_digits(after);
            if length == 0 {
                break;
            }
            if length != 3 {
                return None;
            }
            sure |= certain;
            parts.push(&after[..3]);
            end = self.text.len() - after.len() + 3;
        }
        (!parts.is_empty()).then_some((parts, end, sure))
    }

    /// Groups after blanks, apostrophes or points.
    fn wide_thousands(&mut self, digits: &mut String) {
        if digits.len() > 3 || digits.starts_with('0') {
            return;
        }
        for mark in WIDE_MARKS.into_iter().chain(["."]) {
            let (mut end, mut parts) = (self.at, Vec::new());
            while let Some(after) = self.text[end..].strip_prefix(mark)
                && leading_digits(after) == 3
            {
                parts.push(&after[..3]);
                end += mark.len() + 3;
            }
            let after = &self.text[end..];
            // One point alone is the decimal sign, unless a decimal comma follows.
            let point = mark == "." && parts.len() < 2 && !decimal_after(after);
            let goes_on =
                after.starts_with(mark) && after[mark.len()..].starts_with(|c: char| c.is_ascii_digit());
            if parts.is_empty() || point || goes_on || after.starts_with("/") {
                continue;
            }
            digits.extend(parts);
            self.at = end;
            self.uses(Rule::Thousands);
            self.spelling.comma |= mark == "." && decimal_after(after);
            return;
        }
    }
}

/// True if a decimal comma with digits stands here.
fn decimal_after(text: &str) -> bool {
    let Some(after) = text.strip_prefix(',') else { return false };
    let length = leading_digits(after);
    length > 0 && !after[length..].starts_with(',')
}
