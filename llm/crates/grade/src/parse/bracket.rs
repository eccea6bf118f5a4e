//! Brackets and braces: groups, sets, sets described by a condition, and lists with dots in them.

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use super::{Parser, unreadable};
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
                _ => top.over(bottom),
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

    /// The condition of `\{x \in S \mid x > 2\}`, with its domain if that is not the real line.
    fn set_by_condition(&mut self) -> Result<Node, Reason> {
        let subject = self.primary()?;
        let mut parts = Vec::new();
        if self.take(&Token::Relation(Relation::In)) {
            let reals = self.peek() == Some(&Token::Reals);
            // One primary: the bar after it is no absolute value.
            let domain = self.primary()?;
            if !reals {
                parts.push(Node::Chain(Box::new(subject), vec![(Relation::In, domain)], true));
            }
        }
        self.at += 1;
        parts.append(&mut self.items()?);
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::All(expanded(parts)) })
    }
}

/// Most members that dots stand for.
const MOST: usize = 1000;

/// Writes `1, 2, \ldots, 9` and `2, 4, \ldots, 10` out; other dots stay.
pub(super) fn expanded(items: Vec<Node>) -> Vec<Node> {
    let Some(at) = items.iter().position(|item| *item == Node::Dots) else { return items };
    let whole = |at: usize| items.get(at).and_then(Node::as_integer);
    let (Some(last), Some(next)) = (at.checked_sub(1).and_then(whole), whole(at + 1)) else { return items };
    let step: BigInt = match at.checked_sub(2).and_then(whole) {
        Some(before) => last - before,
        None => BigInt::from(if next > last { 1 } else { -1 }),
    };
    let distance: BigInt = next - last;
    if step.is_zero() || !(&distance % &step).is_zero() {
        return items;
    }
    let Some(count) = (&distance / &step).to_usize().filter(|n| (1..=MOST).contains(n)) else { return items };
    let between = (1..count).map(|k| Node::integer(last + &step * BigInt::from(k)));
    items[..at].iter().cloned().chain(between).chain(items[at + 1..].iter().cloned()).collect()
}
