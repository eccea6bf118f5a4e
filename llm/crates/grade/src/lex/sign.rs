//! Single characters that are neither letters nor digits of plain ASCII.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::signs::sign;
use super::{Lexer, Token, plain_number, unreadable};
use crate::rules::Rule;
use crate::verdict::Reason;
use crate::words;

/// Numerator and denominator of `½` and its like.
fn vulgar_fraction(c: char) -> Option<(String, String)> {
    let parts: String = std::iter::once(c).nfkd().collect();
    let (top, bottom) = parts.split_once('⁄')?;
    (!top.is_empty() && !bottom.is_empty()).then(|| (top.to_owned(), bottom.to_owned()))
}

/// The digit or sign that a raised or lowered character stands for.
fn script(c: char, row: &str) -> Option<char> {
    const PLAIN: &str = "0123456789+-n";
    row.chars().position(|s| s == c).and_then(|at| PLAIN.chars().nth(at))
}

const RAISED: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ";
const LOWERED: &str = "₀₁₂₃₄₅₆₇₈₉₊₋ₙ";

impl Lexer<'_> {
    pub(super) fn sign(&mut self, c: char) -> Result<(), Reason> {
        if self.compound() {
            return Ok(());
        }
        for (row, mark) in [(RAISED, Token::Caret), (LOWERED, Token::Underscore)] {
            if script(c, row).is_some() {
                return self.scripts(row, mark);
            }
        }
        if self.spelling.wide && c.is_alphabetic() && !('Α'..='ω').contains(&c) {
            return self.foreign_word();
        }
        self.at += c.len_utf8();
        if let Some((top, bottom)) = vulgar_fraction(c) {
            self.extend([Token::Frac, plain_number(&top), plain_number(&bottom)]);
            return Ok(());
        }
        let letter = || matches!(c, 'α'..='ω' | 'Α'..='Ω').then(|| Token::Symbol(c.to_string()));
        match sign(c.encode_utf8(&mut [0; 4])).or_else(letter) {
            _ if c == 'Ω' && self.spelling.wide && self.after_value() => {
                self.push(Token::Text("ohm".into()))
            }
            _ if c == '∅' => self.empty_set(),
            Some(token) => self.push(token),
            // The end of a sentence.
            None if matches!(c, '.' | '。' | '।')
                && self.rest().trim_end_matches(['$', ' ', '\n']).is_empty() => {}
            None if self.spelling.wide && matches!(c, '"' | '“' | '”' | '?' | '。' | '？') => {}
            None if matches!(c, '"' | '″') => self.extend([Token::Prime, Token::Prime]),
            None => return unreadable(format!("`{c}` has no meaning here")),
        }
        Ok(())
    }

    /// Signs of several characters.
    fn compound(&mut self) -> bool {
        let rest = self.rest();
        let signs = [3, 2].into_iter().filter_map(|length| rest.get(..length).filter(|s| s.is_ascii()));
        let found = if rest.starts_with("{:}") {
            // `3{:}45`
            Some((3, Token::Colon))
        } else if rest.starts_with("!=")
            && self.text[..self.at].ends_with(|c: char| c.is_ascii_digit() || c == ')' || c == '}')
        {
            // `4!=24`
            Some((1, Token::Bang))
        } else {
            signs.filter_map(|s| Some((s.len(), sign(s)?))).next()
        };
        let Some((length, token)) = found else { return false };
        self.at += length;
        self.push(token);
        true
    }

    pub(super) fn empty_set(&mut self) {
        self.extend([Token::Open('{'), Token::Close('}')]);
    }

    /// A run of raised or lowered characters, as one power or index.
    fn scripts(&mut self, row: &str, mark: Token) -> Result<(), Reason> {
        let run = self.take_while(|c| script(c, row).is_some());
        self.extend([mark, Token::BraceOpen]);
        let plain: String = run.chars().filter_map(|c| script(c, row)).collect();
        self.mathematics(&plain)?;
        self.push(Token::BraceClose);
        Ok(())
    }

    /// A word of another script: a connective, a unit or a noun after a number.
    pub(super) fn foreign_word(&mut self) -> Result<(), Reason> {
        let word = self.take_while(|c| c.is_alphabetic() || is_combining_mark(c));
        if let Some(joins) = words::connective(word) {
            self.push(super::word::joined_by(joins));
            return Ok(());
        }
        if !self.after_value() {
            return unreadable(format!("the word `{}`", super::shown(word)));
        }
        self.uses(Rule::UnitDropped);
        self.push(if crate::units::is_percent(word) { Token::Percent } else { Token::Text(word.to_owned()) });
        Ok(())
    }
}
