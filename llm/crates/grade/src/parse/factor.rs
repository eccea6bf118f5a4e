//! Primaries with powers, factorials, degrees and percent after them.

use super::named::is_function;
use super::{Parser, unreadable};
use crate::lex::Token;
use crate::node::{Function, Node, Sign};
use crate::units::Unit;
use crate::verdict::Reason;
use crate::words::is_ordinal_ending;

impl Parser<'_> {
    pub(super) fn factor(&mut self) -> Result<Node, Reason> {
        self.nested(|p| {
            let mut node = p.primary()?;
            loop {
                if let Node::Symbol(name) = &node
                    && p.at_arguments(name)
                {
                    node = p.application(name.clone())?;
                }
                p.at += 1;
                node = match p.tokens.get(p.at - 1) {
                    Some(Token::Bang) => Node::Call(Function::Factorial, vec![node]),
                    Some(Token::Degree) => p.degrees(node)?,
                    Some(Token::Percent) => Node::Percent(Box::new(node)),
                    Some(Token::Prime) => primed(node),
                    Some(Token::Caret) => p.power(node)?,
                    _ => {
                        p.at -= 1;
                        return Ok(node);
                    }
                };
                p.budget.spend(1)?;
                p.deepen(&node)?;
            }
        })
    }

    /// Refuses a chain such as `x!!!!...` that is as deep as nesting.
    fn deepen(&self, node: &Node) -> Result<(), Reason> {
        let (mut depth, mut at) = (0, node);
        loop {
            at = match at {
                Node::Call(Function::Factorial, list) => &list[0],
                Node::Degrees(inner) | Node::Percent(inner) | Node::Power(inner, _) => inner,
                _ => return Ok(()),
            };
            depth += 1;
            if depth > 8 {
                return unreadable("a pile of signs after a value");
            }
        }
    }

    /// `90^\circ` with its minutes and seconds, and the letter of a temperature after it.
    fn degrees(&mut self, node: Node) -> Result<Node, Reason> {
        if let Some(Token::Symbol(letter) | Token::Text(letter)) = self.peek()
            && matches!(letter.as_str(), "C" | "F" | "K")
        {
            let unit = format!("degree-{letter}");
            self.at += 1;
            return Ok(Node::Unit(Box::new(node), Unit::Measure(unit)));
        }
        let mut terms = vec![(Sign::Plus, node)];
        for (primes, parts) in [(1, 60), (2, 3600)] {
            let value = self.sixtieths(primes)?;
            terms.extend(value.map(|value| (Sign::Plus, value.over(Node::integer(parts)))));
        }
        let value = if terms.len() == 1 { terms.remove(0).1 } else { Node::Sum(terms) };
        Ok(Node::Degrees(Box::new(value)))
    }

    /// A number with as many primes after it.
    fn sixtieths(&mut self, primes: usize) -> Result<Option<Node>, Reason> {
        let start = self.at;
        if !matches!(self.peek(), Some(Token::Number { .. })) {
            return Ok(None);
        }
        let value = self.primary()?;
        let caret = self.take(&Token::Caret);
        let braced = caret && self.take(&Token::BraceOpen);
        let mut found = 0;
        while self.take(&Token::Prime) {
            found += 1;
        }
        if found != primes || (braced && !self.take(&Token::BraceClose)) {
            self.at = start;
            return Ok(None);
        }
        Ok(Some(value))
    }

    fn power(&mut self, base: Node) -> Result<Node, Reason> {
        let braced = self.peek() == Some(&Token::BraceOpen);
        let ahead = usize::from(braced);
        match self.peek_after(ahead) {
            Some(Token::Circ | Token::Degree) => {
                self.at += 1 + ahead;
                self.close_brace(braced)?;
                return self.degrees(base);
            }
            Some(Token::Prime) => {
                self.at += ahead;
                let mut node = base;
                while self.take(&Token::Prime) {
                    node = primed(node);
                }
                self.close_brace(braced)?;
                return Ok(node);
            }
            // `5^{\text{th}}`
            Some(Token::Text(ending)) if self.wide && is_ordinal_ending(ending) => {
                self.at += 1 + ahead;
                self.close_brace(braced)?;
                return Ok(Node::Unit(Box::new(base), Unit::Noun(String::new())));
            }
            Some(Token::Symbol(first)) if self.wide && braced && self.ordinal(first) => {
                self.at += 4;
                return Ok(Node::Unit(Box::new(base), Unit::Noun(String::new())));
            }
            _ => {}
        }
        let exponent = self.script()?;
        // `f^{-1}(x)`
        if let (Node::Symbol(name), true) = (&base, exponent == Node::integer(-1))
            && is_function(name)
            && self.peek() == Some(&Token::Open('('))
        {
            return Ok(Node::Symbol(format!("{name}^-1")));
        }
        crate::matrix::power(base, exponent, self.budget)
    }

    /// `^{rd}` in letters.
    fn ordinal(&self, first: &str) -> bool {
        matches!(self.peek_after(2), Some(Token::Symbol(second)) if is_ordinal_ending(&format!("{first}{second}")))
            && self.peek_after(3) == Some(&Token::BraceClose)
    }

    pub(super) fn close_brace(&mut self, open: bool) -> Result<(), Reason> {
        if open { self.close(&Token::BraceClose, "a brace that is not closed") } else { Ok(()) }
    }
}

/// Adds a prime to a symbol; on a number it is the sign of minutes or feet, seconds or inches.
fn primed(node: Node) -> Node {
    match node {
        Node::Symbol(name) => Node::Symbol(format!("{name}'")),
        Node::Number(_) => Node::Unit(Box::new(node), Unit::Measure("'".into())),
        Node::Unit(inner, Unit::Measure(mark)) if mark == "'" => {
            Node::Unit(inner, Unit::Measure("''".into()))
        }
        other => other,
    }
}
