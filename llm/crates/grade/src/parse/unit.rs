//! Units and nouns after a value.

use num_traits::One;

use super::{Parser, unreadable};
use crate::lex::Token;
use crate::node::{Node, Sign};
use crate::units::{self, Unit};
use crate::verdict::Reason;
use crate::words;

/// The words after a value as far as they are read.
#[derive(Default)]
struct Name {
    text: String,
    /// True if one of them is no unit.
    unknown: bool,
    /// True if the next part stands under a fraction bar.
    divided: bool,
    /// True for the lenient rules, which read `per` as a fraction bar.
    wide: bool,
    /// `square` or `cubic` before the unit that it belongs to.
    power: Option<u8>,
}

impl Name {
    fn add(&mut self, unit: &str) {
        self.text.push(if self.divided { '/' } else { ' ' });
        self.text += unit;
        if let Some(power) = self.power.take() {
            self.text += &format!("^{power}");
        }
        self.divided = false;
    }

    fn words(&mut self, text: &str) {
        let halves = [("p.m", "pm"), ("a.m", "am"), ("P.M", "pm"), ("A.M", "am")];
        let text = halves.iter().fold(text.replace("^{", "^"), |text, (half, name)| text.replace(half, name));
        for word in words::parts(&text, |c| c.is_alphanumeric() || matches!(c, '/' | '\'' | '-' | '^')) {
            for (i, part) in word.split('/').enumerate() {
                self.divided |= i > 0;
                let (name, power) = part.split_once('^').unwrap_or((part, ""));
                if !name.is_empty() {
                    self.word(name);
                }
                if !power.is_empty() {
                    self.text += &format!("^{power}");
                }
            }
        }
    }

    fn word(&mut self, word: &str) {
        let lower = word.to_lowercase();
        let after_unit = !self.text.is_empty() && !self.unknown;
        match (lower.as_str(), units::canonical(word)) {
            ("and", _) if self.wide && !self.unknown => {}
            ("per", _) if !self.unknown => self.divided = true,
            ("square" | "sq", _) => self.power = Some(2),
            ("cubic" | "cu", _) => self.power = Some(3),
            ("squared", _) if after_unit => self.text += "^2",
            ("cubed", _) if after_unit => self.text += "^3",
            (_, Some(unit)) => self.add(unit),
            // A symbol that is no unit keeps its case.
            (_, None) => {
                self.unknown = true;
                let capital = word.chars().position(char::is_uppercase);
                let symbol = word.len() < 4 && capital.is_some_and(|at| at > 0 || word.len() < 3);
                self.add(if symbol { word } else { &lower });
            }
        }
    }

    fn unit(self) -> Unit {
        let text = self.text.trim().to_owned();
        if self.unknown || text.is_empty() { Unit::Noun(text) } else { Unit::Measure(text) }
    }
}

impl Parser<'_> {
    /// `3 hours 20 minutes`: a smaller unit of the same dimension after a value adds to it.
    pub(super) fn compound(&mut self, value: Node, unit: Unit) -> Result<Node, Reason> {
        let and = usize::from(self.peek() == Some(&Token::And));
        let number = matches!(self.peek_after(and), Some(Token::Number { .. }));
        let text = matches!(self.peek_after(and + 1), Some(Token::Text(_)));
        let start = self.at;
        if let (true, Unit::Measure(name)) = (self.wide && number && text, &unit) {
            self.at += and;
            if let Ok(Node::Unit(more, Unit::Measure(small))) = self.nested(Self::product)
                && let (Some(large), Some(small)) = (units::measure(name), units::measure(&small))
                && large.dimension == small.dimension
                && small.factor < large.factor
            {
                let ratio = Node::exact(small.factor / large.factor);
                let part = more.times(ratio);
                let sum = Node::Sum(vec![(Sign::Plus, value), (Sign::Plus, part)]);
                return Ok(Node::Unit(Box::new(sum), unit));
            }
            self.at = start;
        }
        Ok(Node::Unit(Box::new(value), unit))
    }

    /// True if words stand here that belong to the value before them: `\text{km}`, `\frac{\text{km}}{\text{h}}`.
    pub(super) fn at_unit(&self) -> bool {
        match self.peek() {
            Some(Token::Text(_) | Token::Currency(_)) => true,
            Some(Token::Frac) => {
                let inside = |at: usize| matches!(self.peek_after(at), Some(Token::Text(_)));
                self.peek_after(1) == Some(&Token::BraceOpen) && inside(2)
            }
            _ => false,
        }
    }

    /// Reads the words after a value.
    pub(super) fn unit(&mut self) -> Result<Unit, Reason> {
        let mut name = Name { wide: self.wide, ..Name::default() };
        if self.take(&Token::Frac) {
            for below in [false, true] {
                self.close(&Token::BraceOpen, "a unit that breaks off")?;
                self.factors_of(&mut name, below)?;
                self.close(&Token::BraceClose, "a brace that is not closed")?;
            }
        } else {
            self.factors_of(&mut name, false)?;
        }
        Ok(name.unit())
    }

    /// Reads factors of a unit; with `below` each divides.
    fn factors_of(&mut self, name: &mut Name, below: bool) -> Result<(), Reason> {
        loop {
            name.divided |= below;
            match self.peek() {
                Some(Token::Text(text)) => name.words(&text.clone()),
                Some(Token::Currency(unit)) => name.add(unit),
                Some(Token::Symbol(letter)) if letter.len() == 1 => {
                    let letter = letter.clone();
                    name.word(&letter);
                }
                // `J/(kg \cdot K)`
                Some(Token::Open('(')) if name.divided => {
                    self.at += 1;
                    self.nested(|parser| parser.factors_of(name, true))?;
                    return self.close(&Token::Close(')'), "a bracket that is not closed");
                }
                _ => return unreadable("a unit that breaks off"),
            }
            self.at += 1;
            if let Some(Token::Symbol(scale)) = self.peek()
                && matches!(scale.as_str(), "C" | "F")
                && name.text.trim() == "degree"
            {
                name.text = format!("degree-{scale}");
                self.at += 1;
            }
            if self.take(&Token::Caret) {
                match self.script()?.as_integer() {
                    Some(n) if n.is_one() => {}
                    Some(n) => name.text += &format!("^{n}"),
                    None => name.unknown = true,
                }
            }
            let more = self.take(&Token::Divide);
            name.divided |= more;
            // `kg \cdot m`
            let times =
                self.peek() == Some(&Token::Times) && matches!(self.peek_after(1), Some(Token::Text(_)));
            self.at += usize::from(times);
            if !more && !matches!(self.peek(), Some(Token::Text(_))) {
                return Ok(());
            }
        }
    }
}
