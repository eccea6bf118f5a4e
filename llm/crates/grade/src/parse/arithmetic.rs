//! Sums and products.

use num_bigint::BigInt;
use num_traits::Zero;

use super::named::{derivative, half_of_day};
use super::number::mixed;
use super::{Parser, unreadable};
use crate::lex::Token;
use crate::matrix;
use crate::node::{Node, Number, Sign};
use crate::units::Unit;
use crate::verdict::Reason;

impl Parser<'_> {
    fn sign(&mut self) -> Option<Sign> {
        let sign = match self.peek()? {
            Token::Plus => Sign::Plus,
            Token::Minus => Sign::Minus,
            Token::PlusMinus => Sign::PlusMinus,
            Token::MinusPlus => Sign::MinusPlus,
            _ => return None,
        };
        self.at += 1;
        Some(sign)
    }

    pub(super) fn sum(&mut self) -> Result<Node, Reason> {
        let mut terms = Vec::new();
        let mut sign = self.sign();
        loop {
            // `x + -y`
            let second = if sign.is_some() { self.sign() } else { None };
            let mut term = self.product()?;
            if let Some(second) = second {
                term = Node::Sum(vec![(second, term)]);
            }
            terms.push((sign.unwrap_or(Sign::Plus), term));
            sign = self.sign();
            if sign.is_none() {
                break;
            }
        }
        if let [(sign, _)] = terms[..] {
            return Ok(signed(sign, terms.remove(0).1));
        }
        if let [(Sign::Plus, whole), (Sign::Minus, Node::Set(_))] = &terms[..]
            && matches!(whole, Node::Group(..) | Node::Set(_))
        {
            let points = terms.remove(1).1;
            return Ok(Node::Without(Box::new(terms.remove(0).1), Box::new(points)));
        }
        matrix::sum(terms, self.budget)
    }

    /// True if a factor begins here without a sign of multiplication.
    pub(super) fn at_factor(&self) -> bool {
        match self.peek() {
            Some(Token::Bar) => self.bars == 0,
            // A modulus in brackets belongs to the whole relation.
            Some(Token::Open('(')) => !self.at_modulus(1),
            Some(Token::Open('[')) => !self.closes_backwards(),
            other => other.is_some_and(Token::begins_factor),
        }
    }

    pub(super) fn product(&mut self) -> Result<Node, Reason> {
        if let Some(&Token::Currency(name)) = self.peek() {
            self.at += 1;
            let value = self.nested(Self::product)?;
            return Ok(Node::Unit(Box::new(value), Unit::Measure(name.to_owned())));
        }
        let is_vector =
            |node: &Node| matches!(node, Node::Symbol(name) if name.starts_with("vec ") || name == "nabla");
        let mut factors = vec![(false, self.factor()?)];
        let mut unit = None;
        loop {
            let divides = self.peek() == Some(&Token::Divide);
            if divides || matches!(self.peek(), Some(Token::Times | Token::Cross)) {
                let cross = self.take(&Token::Cross);
                self.at += usize::from(!cross);
                let factor = self.signed_factor()?;
                match factors.last_mut() {
                    // The vector product has an order.
                    Some((false, last)) if cross && is_vector(last) && matches!(factor, Node::Symbol(_)) => {
                        *last = Node::Apply("\\times".into(), vec![last.clone(), factor]);
                    }
                    _ => factors.push((divides, factor)),
                }
            } else if self.at_unit() {
                unit = Some(self.unit()?);
                break;
            } else if self.at_factor() {
                self.juxtaposed(&mut factors)?;
            } else {
                break;
            }
        }
        // `15\,\mu\text{m}`
        if factors.len() > 1
            && unit == Some(Unit::Measure("m".into()))
            && factors.pop_if(|last| *last == (false, Node::Symbol("mu".into()))).is_some()
        {
            unit = Some(Unit::Measure("um".into()));
        }
        // `dy/dx`
        let plain = match &factors[..] {
            [top @ .., (true, d), (false, x)] if top.len() == 2 => {
                let below = vec![(false, d.clone()), (false, x.clone())];
                derivative(&Node::Product(top.to_vec()), &Node::Product(below))
            }
            _ => None,
        };
        let value = match (plain, &factors[..]) {
            (Some(derivative), _) => derivative,
            (None, [(false, _)]) => factors.remove(0).1,
            _ => matrix::product(factors, self.budget)?,
        };
        match unit {
            None => Ok(value),
            Some(unit) => half_of_day(&value, &unit).map_or_else(|| self.compound(value, unit), Ok),
        }
    }

    fn signed_factor(&mut self) -> Result<Node, Reason> {
        let sign = self.sign().unwrap_or(Sign::Plus);
        Ok(signed(sign, self.factor()?))
    }

    /// A factor after another without a sign: a product, or the fraction of a mixed number.
    pub(super) fn juxtaposed(&mut self, factors: &mut Vec<(bool, Node)>) -> Result<(), Reason> {
        let after_number = matches!(self.tokens.get(self.at - 1), Some(Token::Number { .. }));
        let whole = match factors.last() {
            Some((false, node)) if after_number => node.as_integer().cloned(),
            _ => None,
        };
        if after_number && matches!(self.peek(), Some(Token::Number { .. })) {
            return self.mixed_number(whole, factors);
        }
        let is_fraction = self.peek() == Some(&Token::Frac);
        let factor = self.factor()?;
        // `33\frac13\%` is one number with its sign.
        let (fraction, sign): (&Node, fn(Box<Node>) -> Node) = match &factor {
            Node::Percent(inner) => (inner, Node::Percent),
            Node::Degrees(inner) => (inner, Node::Degrees),
            other => (other, |plain| *plain),
        };
        if let (true, Some(whole), Some((top, bottom))) = (is_fraction, &whole, fraction.fraction())
            && let (Ok(top), Ok(bottom)) = (u32::try_from(top), u32::try_from(bottom))
            && top < bottom
            && !whole.is_zero()
            && let Some(last) = factors.last_mut()
        {
            last.1 = sign(Box::new(mixed(whole, top, bottom)));
            return Ok(());
        }
        factors.push((false, factor));
        Ok(())
    }

    /// `1 1/2`, and nothing else.
    fn mixed_number(&mut self, whole: Option<BigInt>, factors: &mut [(bool, Node)]) -> Result<(), Reason> {
        let number = |token: Option<&Token>| match token {
            Some(Token::Number { digits, exponent: 0, .. }) => digits.parse::<u32>().ok(),
            _ => None,
        };
        let parts = (number(self.peek()), self.peek_after(1), number(self.peek_after(2)));
        match (whole, parts) {
            (Some(whole), (Some(top), Some(Token::Divide), Some(bottom)))
                if top < bottom && factors.len() == 1 =>
            {
                self.at += 3;
                factors[0].1 = mixed(&whole, top, bottom);
                Ok(())
            }
            _ => unreadable("two numbers side by side"),
        }
    }

    /// An exponent: braces, or one signed factor with its own power.
    pub(super) fn script(&mut self) -> Result<Node, Reason> {
        if self.peek() == Some(&Token::BraceOpen) { self.nested(Self::braces) } else { self.signed_factor() }
    }
}

/// A term with its sign; a number with it is a number.
fn signed(sign: Sign, term: Node) -> Node {
    match (sign, term) {
        (Sign::Plus, term) => term,
        (Sign::Minus, Node::Number(number)) => Node::Number(Number { value: -number.value, ..number }),
        (sign, term) => Node::Sum(vec![(sign, term)]),
    }
}
