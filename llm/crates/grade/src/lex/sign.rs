//! Single characters that are neither letters nor digits of plain ASCII.

use super::{Lexer, Token, plain_number, unreadable};
use crate::node::Relation;
use crate::rules::Rule;
use crate::verdict::Reason;
use crate::words;

/// The meaning of one character by itself.
fn meaning(c: char) -> Option<Token> {
    Some(match c {
        '(' | '[' => Token::Open(c),
        ')' | ']' => Token::Close(c),
        '{' => Token::BraceOpen,
        '}' => Token::BraceClose,
        '⟨' | '〈' => Token::Open('<'),
        '⟩' | '〉' => Token::Close('>'),
        '⌊' => Token::Open('f'),
        '⌋' => Token::Close('f'),
        '⌈' => Token::Open('c'),
        '⌉' => Token::Close('c'),
        '|' | '∣' | '‖' => Token::Bar,
        ',' | ';' | '，' | '；' | '、' | '،' | '؛' => Token::Separator,
        ':' | '：' | '∶' => Token::Colon,
        '…' | '⋯' => Token::Dots,
        '+' => Token::Plus,
        '-' | '−' | '–' | '—' | '‐' | '‑' | '﹣' => Token::Minus,
        '±' => Token::PlusMinus,
        '∓' => Token::MinusPlus,
        '*' | '×' | '·' | '⋅' | '∙' | '✕' | '∗' => Token::Times,
        '/' | '÷' | '∕' | '⁄' => Token::Divide,
        '^' => Token::Caret,
        '_' => Token::Underscore,
        '!' => Token::Bang,
        '°' | 'º' | '˚' => Token::Degree,
        '%' | '٪' => Token::Percent,
        '\'' | '′' | '’' => Token::Prime,
        '∪' => Token::Union,
        '∩' => Token::Intersection,
        '∖' => Token::Without,
        '∞' => Token::Infinity,
        '⟹' | '⇒' | '∴' => Token::Implies,
        'π' | '𝜋' => Token::Pi,
        '√' => Token::Root,
        'ℝ' => Token::Reals,
        '&' => Token::Cell,
        '∧' => Token::And,
        '∨' => Token::Or,
        'α'..='ω' | 'Α'..='Ω' | 'ϕ' | 'ϑ' => Token::Symbol(greek(c)),
        '∠' | '△' | '▵' => Token::Symbol(c.to_string()),
        _ => {
            let currency = || crate::units::currency_sign(c).map(Token::Currency);
            return relation(c).map(Token::Relation).or_else(currency);
        }
    })
}

/// The name of a Greek letter in LaTeX.
fn greek(c: char) -> String {
    const LETTERS: &str = "αβγδεζηθικλμνξρστυφϕχψωϑΓΔΘΛΠΣΦΩ";
    const NAMES: &str = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau \
                         upsilon phi phi chi psi omega theta Gamma Delta Theta Lambda Pi Sigma Phi Omega";
    let name = LETTERS.chars().position(|letter| letter == c).and_then(|at| NAMES.split(' ').nth(at));
    name.map_or_else(|| c.to_string(), str::to_owned)
}

fn relation(c: char) -> Option<Relation> {
    Some(match c {
        '=' | '≡' | '→' | '＝' => Relation::Equal,
        '≈' | '≃' | '≅' | '≐' => Relation::About,
        '<' | '＜' => Relation::Less,
        '>' | '＞' => Relation::Greater,
        '≤' | '⩽' | '≦' => Relation::LessOrEqual,
        '≥' | '⩾' | '≧' => Relation::GreaterOrEqual,
        '≠' => Relation::Unequal,
        '∈' => Relation::In,
        _ => return None,
    })
}

/// Numerator and denominator of `½` and its like.
fn vulgar_fraction(c: char) -> Option<(&'static str, &'static str)> {
    const SIGNS: &str = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒";
    const VALUES: &str = "1/2 1/3 2/3 1/4 3/4 1/5 2/5 3/5 4/5 1/6 5/6 1/7 1/8 3/8 5/8 7/8 1/9 1/10";
    let at = SIGNS.chars().position(|sign| sign == c)?;
    VALUES.split(' ').nth(at)?.split_once('/')
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
            [Token::Frac, plain_number(top), plain_number(bottom)]
                .into_iter()
                .for_each(|part| self.push(part));
            return Ok(());
        }
        if c == 'Ω' && self.spelling.wide && self.behind_value() {
            self.push(Token::Text("ohm".into()));
            return Ok(());
        }
        if c == '∅' {
            self.empty_set();
            return Ok(());
        }
        match meaning(c) {
            Some(token) => self.push(token),
            // The end of a sentence.
            None if matches!(c, '.' | '。' | '।')
                && self.rest().trim_end_matches(['$', ' ', '\n']).is_empty() => {}
            None if self.spelling.wide && matches!(c, '"' | '“' | '”' | '?' | '。' | '？') => {}
            None if matches!(c, '"' | '″') => {
                self.push(Token::Prime);
                self.push(Token::Prime);
            }
            None => return unreadable(format!("`{c}` has no meaning here")),
        }
        Ok(())
    }

    /// Signs of several characters.
    fn compound(&mut self) -> bool {
        // `4!=24`
        if self.rest().starts_with("!=")
            && self.text[..self.at].ends_with(|c: char| c.is_ascii_digit() || c == ')' || c == '}')
        {
            self.at += 1;
            self.push(Token::Bang);
            return true;
        }
        let signs = [
            ("**", Token::Caret),
            ("==", Token::Relation(Relation::Equal)),
            ("<=", Token::Relation(Relation::LessOrEqual)),
            (">=", Token::Relation(Relation::GreaterOrEqual)),
            ("=>", Token::Implies),
            ("!=", Token::Relation(Relation::Unequal)),
            ("+/-", Token::PlusMinus),
            ("->", Token::Relation(Relation::Equal)),
            ("...", Token::Dots),
        ];
        let Some((_, token)) = signs.into_iter().find(|(sign, _)| self.take(sign)) else { return false };
        self.push(token);
        true
    }

    pub(super) fn empty_set(&mut self) {
        self.push(Token::Open('{'));
        self.push(Token::Close('}'));
    }

    /// A run of raised or lowered characters, as one power or index.
    fn scripts(&mut self, row: &str, mark: Token) -> Result<(), Reason> {
        let run = self.take_while(|c| script(c, row).is_some());
        self.push(mark);
        self.push(Token::BraceOpen);
        let plain: String = run.chars().filter_map(|c| script(c, row)).collect();
        self.mathematics(&plain)?;
        self.push(Token::BraceClose);
        Ok(())
    }

    /// A word of another script: a connective, a unit or a noun behind a number.
    pub(super) fn foreign_word(&mut self) -> Result<(), Reason> {
        let word = self.take_while(|c| c.is_alphabetic() || is_mark(c));
        if let Some(joins) = words::connective(word) {
            self.push(super::word::joined_by(joins));
            return Ok(());
        }
        if !self.behind_value() {
            return unreadable(format!("the word `{}`", super::shown(word)));
        }
        self.uses(Rule::UnitDropped);
        self.push(if crate::units::is_percent(word) { Token::Percent } else { Token::Text(word.to_owned()) });
        Ok(())
    }
}

/// A combining sign, as vowels of Hindi and Arabic are.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{036f}' | '\u{0900}'..='\u{0903}' | '\u{093a}'..='\u{094f}' | '\u{0610}'..='\u{061a}' | '\u{064b}'..='\u{065f}')
}
