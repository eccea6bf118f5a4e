//! Units behind a value.

use num_bigint::BigInt;
use num_traits::One;

use super::{Parser, unreadable};
use crate::lex::Token;
use crate::node::{Node, Sign};
use crate::units;
use crate::verdict::Reason;

/// A unit as far as it is read.
#[derive(Default)]
struct Name {
    text: String,
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
        let text = text.replace("p.m", "pm").replace("a.m", "am");
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '/').filter(|w| !w.is_empty()) {
            for (i, part) in word.split('/').enumerate() {
                self.divided |= i > 0;
                if !part.is_empty() {
                    self.word(&part.to_lowercase());
                }
            }
        }
    }

    fn word(&mut self, word: &str) {
        match (word, units::canonical(word)) {
            ("and", _) if self.wide => {}
            ("per", _) if self.wide => self.divided = true,
            ("square" | "sq", _) => self.power = Some(2),
            ("cubic" | "cu", _) => self.power = Some(3),
            ("squared", _) => self.text += "^2",
            ("cubed", _) => self.text += "^3",
            (_, Some(unit)) => self.add(unit),
            (_, None) => self.unknown = true,
        }
    }
}

impl Parser<'_> {
    /// `3 hours 20 minutes`: a smaller unit of the same dimension behind a value adds to it.
    pub(super) fn compound(&mut self, value: Node, name: String) -> Result<Node, Reason> {
        let and = usize::from(self.peek() == Some(&Token::And));
        let number = matches!(self.peek_after(and), Some(Token::Number { .. }));
        let text = matches!(self.peek_after(and + 1), Some(Token::Text(_)));
        let start = self.at;
        if self.wide && number && text {
            self.at += and;
            if let Ok(Node::Unit(more, Some(small))) = self.nested(Self::product)
                && let (Some(large), Some(small)) = (units::measure(&name), units::measure(&small))
                && large.dimension == small.dimension
                && small.factor < large.factor
            {
                let ratio = Node::exact(small.factor / large.factor);
                let part = Node::Product(vec![(false, *more), (false, ratio)]);
                let sum = Node::Sum(vec![(Sign::Plus, value), (Sign::Plus, part)]);
                return Ok(Node::Unit(Box::new(sum), Some(name)));
            }
            self.at = start;
        }
        Ok(Node::Unit(Box::new(value), Some(name)))
    }

    /// Reads a unit into its canonical spelling. `None` for words that are no unit.
    pub(super) fn unit(&mut self) -> Result<Option<String>, Reason> {
        let mut name = Name { wide: self.wide, ..Name::default() };
        loop {
            match self.peek() {
                Some(Token::Text(text)) => name.words(&text.clone()),
                Some(Token::Currency(unit)) => name.add(unit),
                Some(Token::Symbol(letter)) if letter.len() == 1 => {
                    let letter = letter.clone();
                    name.word(&letter);
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
                let power = self.script()?;
                match power.as_integer() {
                    Some(n) if *n != BigInt::one() => name.text += &format!("^{n}"),
                    Some(_) => {}
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
                let Name { text, unknown, .. } = name;
                return Ok(Some(text.trim().to_owned()).filter(|n| !unknown && !n.is_empty()));
            }
        }
    }
}
