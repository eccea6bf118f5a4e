//! The lexer: LaTeX, plain text and the usual Unicode signs, in one pass.

mod command;
mod number;
mod sign;
mod signs;
#[cfg(test)]
mod tests;
mod word;

use super::named::coded;
use super::node::{Function, Relation};
use super::rules::{Rule, Rules};
use super::verdict::{Reason, unreadable};
use super::words::{self, Logic};

pub(super) use number::plain_number;
pub(super) use signs::{function, spelled_symbol};

coded! {
    #[derive(Clone, Debug, PartialEq)]
    /// A word or sign for the parser. `Choose` and `Over` stand between their arguments; `Separator` is also `\|`;
    /// `Cross` is `\times`, which of two vectors is another product than `\cdot`; `Circ` is degrees as a power and
    /// composition elsewhere; the answer stands after `Implies`; `Modulus` is the class of a number, and `Remainder`
    /// what a division leaves, or the class; `RowsOpen` begins `cases`, `aligned` and the like.
    Token by plain: And Bang Bar Binom BraceClose BraceOpen Caret Cell Choose Circ Colon Cross Degree Divide Dots Euler Frac
    Imaginary Implies Infinity Intersection MatrixClose Minus MinusPlus Modulus Or Over Percent Pi Plus PlusMinus Prime
    Reals Remainder Root RowEnd RowsClose RowsOpen Separator Times Underscore Union Without;
    /// Digits with at most one point, the repeating digits after it, a power of ten (`1.5e3`), and true if dots follow.
    Number { digits: String, repeating: String, exponent: i64, dots: bool },
    Symbol(String),
    Function(Function),
    /// `\hat` and the like, which change the meaning of a symbol.
    Accent(&'static str),
    /// `\angle` and the like, before the letters that they name.
    Naming(&'static str),
    Logic(Logic),
    /// `\text{...}` and plain units.
    Text(String),
    Currency(&'static str),
    /// `(`, `[`, `{` (a set), `<` (an angle bracket), `f` (floor), `c` (ceiling).
    Open(char),
    /// The closing counterparts: `)`, `]`, `}`, `>`, `f`, `c`.
    Close(char),
    Relation(Relation),
    /// A matrix; `true` for a determinant.
    MatrixOpen(bool),
    /// `\sum`, `\prod`, `\det`.
    Operator(&'static str),
}

impl Token {
    /// True if it stands between the items of a list.
    pub(super) fn separates(&self) -> bool {
        matches!(self, Token::Separator | Token::And | Token::Or)
    }

    /// True if a factor begins with it.
    pub(super) fn begins_factor(&self) -> bool {
        use Token::{Function, Logic, *};
        matches!(self, Number { .. } | Symbol(_) | Function(_) | Pi | Euler | Imaginary | Infinity | Text(_))
            || matches!(self, Frac | Root | Binom | Accent(_) | Naming(_) | Operator(_) | BraceOpen | Open(_))
            || matches!(self, Logic(words::Logic::Not) | Reals | Dots | MatrixOpen(_))
    }

    /// True if it ends what a bracket, a brace or a cell holds.
    pub(super) fn closes(&self) -> bool {
        use Token::*;
        matches!(self, Close(_) | BraceClose | Cell | RowEnd | MatrixClose | RowsClose)
    }
}

/// The choice among several ways to read a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spelling {
    /// `1,234` outside brackets is one number.
    pub(super) thousands: bool,
    /// `3,5` is a decimal, and `1.234` a whole number.
    pub(super) comma: bool,
    /// The lenient readings: words of any script after numbers, blanks between thousands.
    pub(super) wide: bool,
}

impl Spelling {
    pub(super) const STRICT: Spelling = Spelling { thousands: true, comma: false, wide: false };
    pub(super) const WIDE: Spelling = Spelling { wide: true, ..Spelling::STRICT };
}

pub(super) fn lex(text: &str, spelling: Spelling) -> Result<Lexer<'_>, Reason> {
    let mut lexer = Lexer { text, spelling, ..Lexer::default() };
    while let Some(c) = lexer.peek() {
        lexer.token(c)?;
    }
    Ok(lexer)
}

#[derive(Debug, Default)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    pub(super) tokens: Vec<Token>,
    /// Open brackets, in which a comma always separates.
    depth: usize,
    spelling: Spelling,
    /// True if a comma can be read both as a thousands comma and as a separator.
    pub(super) two_ways: bool,
    /// The rules on which this reading rests.
    pub(super) used: Rules,
    /// The open environments; true for one whose rows are equations.
    environments: Vec<bool>,
    /// True if a single brace stands before the next environment.
    braced_rows: bool,
}

/// A part of the input, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(20).collect()
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    /// Takes the longest prefix of such characters.
    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn push(&mut self, token: Token) {
        match token {
            Token::Open(_) | Token::BraceOpen | Token::MatrixOpen(_) | Token::RowsOpen => self.depth += 1,
            Token::Close(_) | Token::BraceClose | Token::MatrixClose | Token::RowsClose => {
                self.depth = self.depth.saturating_sub(1);
            }
            _ => {}
        }
        self.tokens.push(token);
    }

    fn extend(&mut self, tokens: impl IntoIterator<Item = Token>) {
        tokens.into_iter().for_each(|token| self.push(token));
    }

    fn uses(&mut self, rule: Rule) {
        self.used = self.used.with(rule);
    }

    fn token(&mut self, c: char) -> Result<(), Reason> {
        let digit = |c: char| c.is_ascii_digit();
        match c {
            _ if c.is_whitespace() || "$~\u{200b}\u{feff}`".contains(c) => self.at += c.len_utf8(),
            _ if digit(c) || c == '.' && self.rest()[1..].starts_with(digit) => self.number(),
            '\\' => return self.command(),
            _ if c.is_ascii_alphabetic() => {
                let mut letters = self.rest().chars().take_while(|c| c.is_alphabetic());
                if self.spelling.wide && letters.any(|c| matches!(c, 'À'..='ɏ')) {
                    return self.foreign_word();
                }
                self.word();
            }
            _ => return self.sign(c),
        }
        Ok(())
    }

    /// True if the last token ends a value, so that a word after it can be its unit.
    fn after_value(&self) -> bool {
        use Token::{BraceClose, Close, Degree, Number, Percent, Text};
        let last = self.tokens.last();
        matches!(last, Some(Number { .. } | BraceClose | Close(_) | Degree | Text(_) | Percent))
    }
}
