//! The parser: recursive descent with a bound on depth and steps.

mod arithmetic;
mod bracket;
mod call;
mod factor;
mod named;
mod number;
mod operator;
mod primary;
mod rows;
#[cfg(test)]
mod tests;
mod unit;

use bracket::expanded;

use super::budget::{Budget, DEPTH};
use super::lex::{Lexer, Spelling, Token, lex, shown};
use super::node::{Function, Node, Relation};
use super::rules::Rules;
use super::verdict::{Reason, unreadable};
use super::words::Logic;

/// One way to read an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) node: Node,
    /// The rules on which it rests.
    pub(super) rules: Rules,
    /// True if a comma could also have been read the other way.
    pub(super) two_ways: bool,
    /// True if "and" or "or" joins values.
    pub(super) joined: bool,
}

impl Reading {
    /// A reading that rests on no rule.
    pub(super) fn plain(node: Node) -> Reading {
        Reading { node, rules: Rules::NONE, two_ways: false, joined: false }
    }
}

pub(super) fn parse(text: &str, spelling: Spelling, budget: &mut Budget) -> Result<Reading, Reason> {
    let Lexer { tokens, two_ways, used, .. } = lex(text, spelling)?;
    budget.spend(tokens.len() as u64)?;
    let mut parser = Parser { tokens, at: 0, depth: 0, bars: 0, wide: spelling.wide, budget };
    let node = parser.list()?;
    let joined = parser.tokens.iter().any(|token| matches!(token, Token::And | Token::Or));
    match parser.peek() {
        None => Ok(Reading { node, rules: used, two_ways, joined }),
        Some(token) => unreadable(format!("{} is not expected there", spelled(token))),
    }
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
    /// Open `|`; the next one closes.
    bars: u32,
    /// True for the lenient rules.
    wide: bool,
    budget: &'a mut Budget,
}

/// A token in a message.
fn spelled(token: &Token) -> String {
    match token {
        Token::Number { digits, .. } => format!("the number {}", shown(digits)),
        Token::Symbol(text) | Token::Text(text) => format!("`{}`", shown(text)),
        Token::Open(c) | Token::Close(c) => format!("a bracket `{c}`"),
        Token::Relation(_) => "a relation sign".into(),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// True if the items are inequalities, memberships and the like, and not values.
fn conditions(items: &[Node]) -> bool {
    let unequal = |(relation, _): &(Relation, Node)| !matches!(relation, Relation::Equal | Relation::About);
    items.iter().all(|item| matches!(item, Node::Chain(_, rest, _) if rest.iter().all(unequal)))
}

/// True for a name: `x`, `x_{0}`, `f(x)`, `f'(x)`, `f^{-1}(x)`, `(x, y)`, `B^{-1}`, a text; `y(x)` if bracketed.
pub(super) fn is_label(node: &Node, bracketed: bool) -> bool {
    let name = |n: &Node| matches!(n, Node::Symbol(_) | Node::Euler | Node::Imaginary | Node::Words(_));
    let plain = |n: &Node| match n {
        Node::Product(factors) => {
            factors.iter().all(|(divides, n)| !divides && (name(n) || n.as_integer().is_some()))
        }
        one => name(one) || matches!(one, Node::Number(_)),
    };
    match node {
        Node::Group('(', items, ')') => items.iter().all(plain) && items.iter().any(|n| n.has_symbols()),
        Node::Apply(f, items) => !f.contains(['\\', '/']) && items.iter().all(plain),
        Node::Call(Function::Max | Function::Min, items) => items.iter().all(plain),
        Node::Product(factors) => match &factors[..] {
            [(false, Node::Symbol(_)), (false, Node::Group('(', items, ')'))] => items.iter().all(plain),
            [(false, Node::Symbol(_)), (false, one)] => bracketed && plain(one),
            _ => false,
        },
        Node::Power(base, power) => {
            let inverse = **power == Node::integer(-1);
            inverse && matches!(&**base, Node::Symbol(name) if name.starts_with(char::is_uppercase))
        }
        other => name(other),
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn peek_after(&self, steps: usize) -> Option<&Token> {
        self.tokens.get(self.at + steps)
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn close(&mut self, token: &Token, unclosed: &str) -> Result<(), Reason> {
        if self.take(token) { Ok(()) } else { unreadable(unclosed) }
    }

    /// Runs a part one level deeper.
    fn nested<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T, Reason>) -> Result<T, Reason> {
        self.budget.spend(1)?;
        if self.depth == DEPTH {
            return Err(Reason::TooLarge(format!("nested deeper than {DEPTH}")));
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    /// Items with separators between them; one item is itself.
    fn list(&mut self) -> Result<Node, Reason> {
        let (mut items, mut and_only) = self.joined_items()?;
        while self.take(&Token::Implies) {
            let (next, and) = self.joined_items()?;
            // `p \Rightarrow q` is a formula; what else stands after the sign is the answer.
            let letters = |items: &[Node]| matches!(items, [Node::Symbol(_) | Node::Logic(..)]);
            (items, and_only) = if letters(&items) && letters(&next) {
                (vec![Node::Logic(Logic::If, [items, next].concat())], false)
            } else {
                (next, and)
            };
        }
        match items.len() {
            0 => unreadable("nothing where a value should be"),
            1 => Ok(items.remove(0)),
            _ if and_only && conditions(&items) => Ok(Node::All(items)),
            _ => Ok(Node::List(expanded(items))),
        }
    }

    fn items(&mut self) -> Result<Vec<Node>, Reason> {
        self.joined_items().map(|(items, _)| expanded(items))
    }

    /// The items, and true if each is joined to the next by "and".
    fn joined_items(&mut self) -> Result<(Vec<Node>, bool), Reason> {
        let (mut items, mut and_only) = (Vec::new(), true);
        loop {
            let (mut and, mut any) = (false, false);
            while self.peek().is_some_and(Token::separates) {
                and |= self.peek() == Some(&Token::And);
                any = true;
                self.at += 1;
            }
            match self.peek() {
                None => return Ok((items, and_only)),
                Some(token) if (*token == Token::Implies || token.closes()) && !self.opens_backwards() => {
                    return Ok((items, and_only));
                }
                _ if !items.is_empty() && !any => return Ok((items, and_only)),
                _ => {
                    and_only &= and || items.is_empty();
                    items.push(self.formula()?);
                }
            }
        }
    }

    /// `]0, 1[`, where no bracket is open that it could close.
    fn opens_backwards(&self) -> bool {
        let before = &self.tokens[..self.at];
        let open = before.iter().filter(|t| matches!(t, Token::Open(_))).count();
        self.peek() == Some(&Token::Close(']'))
            && before.last().is_none_or(Token::separates)
            && open <= before.iter().filter(|t| matches!(t, Token::Close(_))).count()
    }

    /// `a`, `a = b`, `a < b <= c`.
    fn relation(&mut self) -> Result<Node, Reason> {
        // `= 5` says 5, `\approx 5` too.
        let signs =
            [Token::Relation(Relation::Equal), Token::Relation(Relation::About), Token::Logic(Logic::If)];
        let leading = self.peek().is_some_and(|token| signs.contains(token));
        self.at += usize::from(self.wide && leading);
        let start = self.at;
        let first = self.ratio()?;
        let bracketed = self.tokens[start..self.at].last() == Some(&Token::Close(')'));
        let mut label = is_label(&first, bracketed);
        let mut rest = Vec::new();
        // `\text{Answer}: 5`
        if self.peek() == Some(&Token::Colon) && matches!(first, Node::Words(_)) {
            self.at += 1;
            rest.push((Relation::Equal, self.ratio()?));
            label = true;
        }
        while let Some(&Token::Relation(relation)) = self.peek() {
            self.at += 1;
            rest.push((relation, self.ratio()?));
        }
        let node = if rest.is_empty() { first } else { Node::Chain(Box::new(first), rest, label) };
        self.modulus(node)
    }

    /// `3 \pmod 7`, `x \equiv 3 (mod 7)`.
    fn modulus(&mut self, node: Node) -> Result<Node, Reason> {
        let bracket = usize::from(matches!(self.peek(), Some(Token::Open('('))));
        if !self.at_modulus(bracket) {
            return Ok(node);
        }
        self.at += bracket + 1;
        let left = self.tokens[self.at - 1] == Token::Remainder;
        let modulus = self.nested(Self::sum)?;
        if bracket == 1 {
            self.close(&Token::Close(')'), "a bracket that is not closed")?;
        }
        if let Some(remainder) = operator::remainder(&node, &modulus).filter(|_| left) {
            return Ok(remainder);
        }
        let boxed = |node: Node| Node::Modular(Box::new(node), Box::new(modulus));
        Ok(match node {
            Node::Chain(first, mut rest, label) => {
                let last = rest.pop().map(|(relation, last)| (relation, boxed(last)));
                rest.extend(last);
                Node::Chain(first, rest, label)
            }
            value => boxed(value),
        })
    }

    /// `a : b : c`.
    fn ratio(&mut self) -> Result<Node, Reason> {
        let start = self.at;
        let first = self.union()?;
        if self.peek() != Some(&Token::Colon) || matches!(first, Node::Words(_)) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take(&Token::Colon) {
            parts.push(self.nested(Self::sum)?);
        }
        // `7:30 \text{ p.m.}`
        if let Some(Node::Unit(last, unit)) = parts.pop_if(|last| matches!(last, Node::Unit(..))) {
            parts.push(*last);
            let end = std::mem::replace(&mut self.at, start + 2 * parts.len() - 1);
            let value = self.clock(start).unwrap_or(Node::Ratio(parts));
            self.at = end;
            let time = named::half_of_day(&value, &unit);
            return Ok(time.unwrap_or_else(|| Node::Unit(Box::new(value), unit)));
        }
        Ok(self.clock(start).unwrap_or(Node::Ratio(parts)))
    }

    /// Sets joined by union, intersection and difference.
    fn union(&mut self) -> Result<Node, Reason> {
        let mut parts = vec![self.nested(Self::sum)?];
        let joined = |parts: &mut Vec<Node>| {
            if parts.len() == 1 { parts.remove(0) } else { Node::Union(std::mem::take(parts)) }
        };
        loop {
            if self.take(&Token::Union) {
                parts.push(self.nested(Self::sum)?);
                continue;
            }
            let left = joined(&mut parts);
            parts.push(if self.take(&Token::Intersection) {
                Node::All(vec![left, self.nested(Self::sum)?])
            } else if self.take(&Token::Without) {
                Node::Without(Box::new(left), Box::new(self.nested(Self::sum)?))
            } else {
                return Ok(left);
            });
        }
    }
}
