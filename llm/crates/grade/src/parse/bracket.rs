//! Brackets and braces: groups, sets, and sets described by a condition.

use super::{Parser, dots, unreadable};
use crate::lex::Token;
use crate::node::{Function, Node, Relation};
use crate::verdict::Reason;

/// Tokens before the bar of a set that is described by a condition.
const SUBJECT: usize = 12;

impl Parser<'_> {
    pub(super) fn braces(&mut self) -> Result<Node, Reason> {
        self.at += 1;
        let bars = std::mem::take(&mut self.bars);
        let mut items = self.items()?;
        if let Some(token @ (Token::Choose | Token::Over)) = self.peek().cloned() {
            self.at += 1;
            let mut below = self.items()?;
            let (1, 1) = (items.len(), below.len()) else { return unreadable("a fraction of lists") };
            let (top, bottom) = (items.remove(0), below.remove(0));
            items = vec![match token {
                Token::Choose => Node::Call(Function::Binomial, vec![top, bottom]),
                _ => Node::Product(vec![(false, top), (true, bottom)]),
            }];
        }
        self.bars = bars;
        self.close_brace(true)?;
        match items.len() {
            0 => unreadable("empty braces"),
            1 => Ok(items.remove(0)),
            _ => Ok(Node::Set(items)),
        }
    }

    pub(super) fn brackets(&mut self, open: char) -> Result<Node, Reason> {
        let bars = std::mem::take(&mut self.bars);
        let described = open == '{' && self.described_set();
        let items = if described {
            self.nested(Self::set_by_condition).map(|set| vec![set])
        } else {
            self.nested(Self::items)
        };
        self.bars = bars;
        let mut items = items?;
        let close = match self.peek().cloned() {
            Some(Token::Close(close)) => close,
            // `[0, 1[`
            Some(Token::Open('[')) if items.len() == 2 => ')',
            _ => return unreadable("a bracket that is not closed"),
        };
        self.at += 1;
        if described {
            return Ok(items.remove(0));
        }
        let one = items.len() == 1;
        match (open, close) {
            ('{', '}') => Ok(Node::Set(items)),
            _ if items.is_empty() => unreadable("empty brackets"),
            ('(', ')')
                if one && self.peek() == Some(&Token::Underscore) && items[0].as_integer().is_some() =>
            {
                self.numeral(&items[0].as_integer().map(ToString::to_string).unwrap_or_default())
            }
            ('(', ')') | ('[', ']') if one => Ok(items.remove(0)),
            ('f', 'f') if one => Ok(Node::Call(Function::Floor, items)),
            ('c', 'c') if one => Ok(Node::Call(Function::Ceil, items)),
            ('<', '>') => Ok(Node::Group('(', items, ')')),
            ('(' | '[', ')' | ']') if items.len() > 1 => Ok(Node::Group(open, items, close)),
            _ => unreadable("brackets that do not match"),
        }
    }

    /// True if a square bracket here is the open end of an interval: `[0, 1[`.
    pub(super) fn closes_backwards(&self) -> bool {
        match self.peek_after(1) {
            None | Some(Token::Union | Token::Intersection | Token::Relation(_)) => true,
            Some(token) => token.separates(),
        }
    }

    /// True if a bar or colon parts this set into a symbol and a condition on it.
    fn described_set(&self) -> bool {
        let ahead = &self.tokens[self.at..];
        let bar = ahead.iter().take(SUBJECT).position(|t| matches!(t, Token::Bar | Token::Colon));
        match bar {
            Some(1) => matches!(ahead[0], Token::Symbol(_)),
            Some(at) => matches!(ahead[..at], [Token::Symbol(_), Token::Relation(Relation::In), ..]),
            None => false,
        }
    }

    /// The condition of `\{x \in S \mid x > 2\}`, with its domain where that is not the real line.
    fn set_by_condition(&mut self) -> Result<Node, Reason> {
        let subject = self.primary()?;
        let mut parts = Vec::new();
        if self.take(&Token::Relation(Relation::In)) {
            let reals = self.peek() == Some(&Token::Reals);
            // One primary: the bar behind it is no absolute value.
            let domain = self.primary()?;
            if !reals {
                parts.push(Node::Chain(Box::new(subject), vec![(Relation::In, domain)], true));
            }
        }
        self.at += 1;
        parts.append(&mut self.items()?);
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::All(dots::expanded(parts)) })
    }
}
