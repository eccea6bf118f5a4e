//! Words of plain text and the content of text commands.

use super::signs::{function, sign, spelled_symbol};
use super::{Lexer, Token, plain_number, shown, unreadable};
use crate::node::Relation;
use crate::rules::Rule;
use crate::verdict::Reason;
use crate::words::Logic;
use crate::{units, words};

/// Spaces between words.
const BLANK: [char; 3] = [' ', '~', '\u{a0}'];

/// True if a text is numbers and signs, joined by connectives.
fn is_list_of_numbers(text: &str) -> bool {
    let plain = |word: &str| !word.contains(|c: char| c.is_alphabetic() || c == '\\');
    let mut words = text.split_whitespace();
    text.contains(|c: char| !c.is_whitespace())
        && words.all(|word| plain(word) || words::connective(word).is_some())
}

/// The number and the unit of `5 cm`, a text as a whole.
fn quantity(text: &str) -> Option<(&str, &str)> {
    let (number, unit) = text.split_once(BLANK)?;
    let digits = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ','));
    (digits && units::canonical(unit.trim()).is_some()).then_some((number, unit.trim()))
}

pub(super) fn joined_by(connective: Logic) -> Token {
    if connective == Logic::And { Token::And } else { Token::Or }
}

impl<'a> Lexer<'a> {
    /// Letters of plain text: a name with a meaning, a unit after a number, or one symbol for each letter.
    pub(super) fn word(&mut self) {
        let after_value = self.after_value() || self.spelling.wide && self.tokens.last() == Some(&Token::Pi);
        for (half, name) in [("p.m", "pm"), ("a.m", "am")] {
            if after_value && self.spelling.wide && self.take(half) {
                self.take(".");
                return self.push(Token::Text(name.into()));
            }
        }
        let word = self.take_while(|c| c.is_ascii_alphabetic());
        if let Some(joins) = words::connective(word) {
            return self.push(joined_by(joins));
        }
        if let Some(name) = self.leading_currency(word) {
            return self.push(Token::Currency(name));
        }
        if let Some(token @ (Token::Pi | Token::Infinity | Token::Root | Token::Modulus)) = sign(word) {
            return self.push(token);
        }
        if self.spelling.wide
            && after_value
            && let Some(power) = words::power_of_thousand(word)
        {
            return self.scale(power);
        }
        let after_number = matches!(self.tokens.last(), Some(Token::Number { .. }));
        let token = match word {
            "negative" | "minus" | "Negative" | "Minus" if self.spelling.wide => Token::Minus,
            "x" | "X" if self.spelling.wide && self.between_numbers() => Token::Times,
            "U" if self.between_intervals() => Token::Union,
            "in" if after_value && self.ends_value() => Token::Text(word.to_owned()),
            "in" if !after_value => Token::Relation(Relation::In),
            _ if after_value && units::is_percent(word) => Token::Percent,
            _ if after_value && units::is_plain_unit(word) => Token::Text(word.to_owned()),
            // The ending of an ordinal number right after its digits.
            _ if after_number && self.spelling.wide && words::is_ordinal_ending(word) => {
                return self.uses(Rule::UnitDropped);
            }
            _ => match function(word) {
                Some(function) => Token::Function(function),
                None if spelled_symbol(word) => Token::Symbol(word.to_owned()),
                None => return self.letters(word, after_value),
            },
        };
        self.push(token);
    }

    /// A word without a meaning: a counted noun after a number if that may be dropped, or a product of letters.
    fn letters(&mut self, word: &str, after_value: bool) {
        if self.spelling.wide && after_value && units::may_be_counted(word) {
            self.uses(Rule::UnitDropped);
            return self.push(Token::Text(word.to_owned()));
        }
        for letter in word.chars() {
            self.push(match letter {
                'e' => Token::Euler,
                'i' => Token::Imaginary,
                other => Token::Symbol(other.to_string()),
            });
        }
    }

    /// True if nothing follows here but a power: `in` is a unit.
    fn ends_value(&self) -> bool {
        self.rest().trim_start_matches(['$', ' ', '.', '}']).chars().next().is_none_or(|c| c == '^')
    }

    /// Multiplies by a power of a thousand.
    fn scale(&mut self, power: usize) {
        let power = plain_number(&(3 * power).to_string());
        self.extend([Token::Times, plain_number("10"), Token::Caret, power]);
    }

    /// `USD 5`, `Rs. 5`.
    fn leading_currency(&mut self, word: &str) -> Option<&'static str> {
        let rest = self.rest().trim_start_matches(['.', ' ']);
        if !self.tokens.is_empty() || !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let Token::Currency(name) = sign(word)? else { return None };
        self.at = self.text.len() - rest.len();
        Some(name)
    }

    /// `9 x 7`: the letter between numbers is a sign of multiplication.
    fn between_numbers(&self) -> bool {
        let before =
            matches!(self.tokens.last(), Some(Token::Number { .. } | Token::Percent | Token::Text(_)));
        before && self.rest().trim_start_matches([' ', '$', '\\']).starts_with(|c: char| c.is_ascii_digit())
    }

    /// `(1,2) U (3,4)`.
    fn between_intervals(&self) -> bool {
        matches!(self.tokens.last(), Some(Token::Close(_)))
            && self.rest().trim_start().starts_with(['(', '[', '{', '\\'])
    }

    /// Takes the braces that follow and gives their content.
    pub(super) fn braced(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        let inside = trimmed.strip_prefix('{')?;
        let mut depth = 1usize;
        let end = inside.find(|c| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        self.at += rest.len() - trimmed.len() + end + 2;
        Some(&inside[..end])
    }

    /// The content of a text command: a separator, a function, one letter, or words.
    pub(super) fn text_in(&mut self, inside: &str) -> Result<(), Reason> {
        let inside = inside.trim().trim_matches(BLANK);
        // `and`, `cats and`
        let last = inside.rsplit_once(BLANK).unwrap_or(("", inside));
        let ends = [("", inside), last].into_iter().find_map(|(head, word)| {
            words::connective(word.trim_matches([',', ' '])).map(|joins| (head, joins))
        });
        if let Some((head, joins)) = ends {
            self.text_in(head)?;
            self.push(joined_by(joins));
            return Ok(());
        }
        if self.after_value() {
            let (first, rest) = inside.split_once(BLANK).unwrap_or((inside, ""));
            if let Some(power) = words::power_of_thousand(first) {
                self.scale(power);
                return self.text_in(rest);
            }
            if words::change_a_number(inside) {
                return unreadable(format!("`{}` after a number", shown(inside)));
            }
        } else if let Some((number, unit)) = quantity(inside) {
            self.mathematics(number)?;
            self.push(Token::Text(unit.to_owned()));
            return Ok(());
        }
        let token = match inside {
            "" => return Ok(()),
            "in" if self.after_value() && self.ends_value() => Token::Text("in".into()),
            "in" => Token::Relation(Relation::In),
            "e" => Token::Euler,
            "i" => Token::Imaginary,
            "mod" => Token::Modulus,
            "Re" => Token::Operator("Re"),
            "Im" => Token::Operator("Im"),
            "%" | "\\%" => Token::Percent,
            _ if words::is_hedge(inside) => return Ok(()),
            // A condition of a function in pieces.
            "if" | "for" | "when" if self.tokens.last() == Some(&Token::Cell) => return Ok(()),
            _ if self.after_value() && units::is_percent(inside) => Token::Percent,
            // `\text{-5}` is mathematics in the wrong font.
            _ if is_list_of_numbers(inside) => return self.mathematics(inside),
            _ if self.spelling.wide && self.after_value() && words::is_ordinal_ending(inside) => {
                self.uses(Rule::UnitDropped);
                return Ok(());
            }
            _ => match function(inside) {
                Some(function) if !matches!(inside, "min" | "sec") => Token::Function(function),
                _ => Token::Text(inside.trim_end_matches([' ', ':']).to_owned()),
            },
        };
        self.push(token);
        if inside.ends_with(':') && self.tokens.len() == 1 {
            self.push(Token::Colon);
        }
        Ok(())
    }

    /// Reads another text as mathematics at this place.
    pub(super) fn mathematics(&mut self, part: &str) -> Result<(), Reason> {
        let lexed = super::lex(part, self.spelling)?;
        self.used = self.used.and(lexed.used);
        self.extend(lexed.tokens);
        Ok(())
    }

    /// Takes the braces after a command that needs them and gives their content.
    pub(super) fn needed(&mut self, name: &str) -> Result<&'a str, Reason> {
        self.braced().map_or_else(|| unreadable(format!("\\{} without braces", shown(name))), Ok)
    }
}
