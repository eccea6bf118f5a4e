//! Names, which keep the order of their parts: applications of functions, derivatives, angles, formulas of logic.

use super::{Parser, unreadable};
use crate::lex::Token;
use crate::node::{Clock, Node, Sign};
use crate::units::Unit;
use crate::verdict::Reason;
use crate::words::{Logic, is_among};

/// Most tokens of a term that is an argument.
const TERM: usize = 7;

/// True for a letter that is a function before brackets: with an index or primes, too.
pub(super) fn is_function(name: &str) -> bool {
    let stem = name.split(['_', '\'', '^']).next().unwrap_or(name);
    matches!(stem, "f" | "g" | "h" | "F" | "G" | "H" | "T" | "P" | "phi" | "sigma" | "zeta" | "Gamma")
}

/// True for a letter that is a function before a single term with symbols: `u(2x)`, but `u(x + 1)` is a product.
fn may_be_function(name: &str) -> bool {
    const NAMES: &str = "p|q|u|v|w|y|Q|R|S|U|V|W|M|N|L|mu|tau|psi|chi|eta|rho|omega|Phi|Psi|Lambda";
    is_among(name.split(['_', '\'']).next().unwrap_or(name), NAMES)
}

impl Parser<'_> {
    /// True before the brackets after a symbol that is a function.
    pub(super) fn at_arguments(&self, name: &str) -> bool {
        // `E[X^2]`
        if matches!(name, "E" | "mathbb E" | "mathbb P") && self.peek() == Some(&Token::Open('[')) {
            return true;
        }
        if self.peek() != Some(&Token::Open('(')) || self.at_modulus(1) {
            return false;
        }
        // The few tokens of one term, in which the symbol itself does not stand.
        let inside = &self.tokens[self.at + 1..];
        let inside = &inside[..inside.iter().take(TERM).position(|t| *t == Token::Close(')')).unwrap_or(0)];
        let plain = |(i, token): (usize, &Token)| match token {
            Token::Symbol(other) => other != name,
            Token::Number { .. } | Token::Caret => true,
            Token::Minus => i == 0,
            _ => false,
        };
        let symbols = inside.iter().any(|token| matches!(token, Token::Symbol(_)));
        is_function(name) || may_be_function(name) && symbols && inside.iter().enumerate().all(plain)
    }

    /// The arguments of a named function in brackets; of a capital with several the coordinates of a point.
    pub(super) fn application(&mut self, name: String) -> Result<Node, Reason> {
        let items = match self.nested(Self::primary)? {
            Node::Group(_, items, _) => items,
            one => vec![one],
        };
        if items.len() > 1 && name.starts_with(|c: char| c.is_ascii_uppercase()) {
            let point = Node::Group('(', items, ')');
            return Ok(Node::Symbol(name).times(point));
        }
        Ok(Node::Apply(name, items))
    }

    /// The letters after `\angle` and the like; without them the sign is a symbol.
    pub(super) fn naming(&mut self, sign: &str) -> Result<Node, Reason> {
        let mut parts = Vec::new();
        let braced = self.take(&Token::BraceOpen);
        while let Some(Token::Symbol(_) | Token::Number { .. }) = self.peek() {
            parts.push(self.nested(Self::primary)?);
        }
        self.close_brace(braced)?;
        Ok(if parts.is_empty() { Node::Symbol(sign.to_owned()) } else { Node::Apply(sign.to_owned(), parts) })
    }

    /// The content of an accent: a symbol with it, the letters of a segment or vector, or under a bar a conjugate.
    pub(super) fn accented(&mut self, kind: &str) -> Result<Node, Reason> {
        let inside = self.argument()?;
        if let Some(letters) = inside.letters() {
            let letters = letters.into_iter().map(|name| Node::Symbol(name.to_owned())).collect();
            return Ok(Node::Apply(format!("\\{kind}"), letters));
        }
        match inside {
            Node::Symbol(name) if kind == "hat" && matches!(name.as_str(), "j" | "k") => {
                Ok(Node::Symbol(format!("vec {name}")))
            }
            Node::Symbol(name) => self.subscripted(format!("{kind} {name}")),
            Node::Imaginary if kind != "bar" => Ok(Node::Symbol("vec i".into())),
            Node::Number(number) if number.places.is_some() => unreadable("a bar over a decimal"),
            other if kind == "bar" => Ok(conjugate(other)),
            other if kind == "vec" => Ok(other),
            _ => unreadable("an accent over something that is not a symbol"),
        }
    }

    /// `p \land q \to r`: relations joined by connectives, the loosest of which is looked for first.
    pub(super) fn formula(&mut self) -> Result<Node, Reason> {
        self.joined_by(&[Logic::Iff, Logic::If, Logic::Or, Logic::And])
    }

    fn joined_by(&mut self, connectives: &[Logic]) -> Result<Node, Reason> {
        let Some((connective, tighter)) = connectives.split_first() else {
            return self.nested(Self::relation);
        };
        let mut parts = vec![self.joined_by(tighter)?];
        while self.take(&Token::Logic(*connective)) {
            parts.push(self.joined_by(tighter)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            // Inequalities and equations that hold together, or one of which does.
            _ if *connective == Logic::And && super::conditions(&parts) => Node::All(parts),
            _ if parts.iter().all(|part| matches!(part, Node::Chain(..))) => Node::List(parts),
            _ => Node::Logic(*connective, parts),
        })
    }

    /// `1:15` with two digits after the colon, or `1:15:30`: a time, if the token before the parts is `start`.
    pub(super) fn clock(&self, start: usize) -> Option<Node> {
        let part = |at: usize, least: usize, below: u32| match self.tokens.get(at)? {
            Token::Number { digits, exponent: 0, .. } if (least..=2).contains(&digits.len()) => {
                digits.parse().ok().filter(|n| *n < below)
            }
            _ => None,
        };
        let past = match self.at - start {
            3 => (part(start + 2, 2, 60)?, None),
            5 => (part(start + 2, 2, 60)?, Some(part(start + 4, 2, 60)?)),
            _ => return None,
        };
        Some(Node::Time(Clock { hour: part(start, 1, 25)?, past, afternoon: None }))
    }
}

/// The conjugate, symbols being real; of what holds symbols and no i the sign stays.
pub(super) fn conjugate(node: Node) -> Node {
    if node.has_symbols() && !node.any(&|n| *n == Node::Imaginary) {
        return Node::Apply("\\bar".into(), vec![node]);
    }
    node.edited(&|n| {
        if *n == Node::Imaginary {
            *n = Node::Sum(vec![(Sign::Minus, Node::Imaginary)]);
        }
    })
}

/// `7 \text{ p.m.}` and `1:15 \text{ p.m.}` as a time.
pub(super) fn half_of_day(value: &Node, unit: &Unit) -> Option<Node> {
    let Unit::Measure(name) = unit else { return None };
    let afternoon = Some(name == "pm").filter(|_| matches!(name.as_str(), "am" | "pm"))?;
    let clock = match value {
        Node::Time(clock) => *clock,
        other => {
            let hour = u32::try_from(other.as_integer()?).ok().filter(|n| (1..=12).contains(n))?;
            Clock { hour, past: (0, None), afternoon: None }
        }
    };
    Some(Node::Time(Clock { afternoon: Some(afternoon), ..clock }))
}

/// The derivative `\frac{d^n y}{dx^n}`, of which the letters d do not cancel.
pub(super) fn derivative(top: &Node, bottom: &Node) -> Option<Node> {
    // A symbol and its power.
    let raised = |node: &Node| match node {
        Node::Symbol(name) => Some((name.clone(), None)),
        Node::Power(base, n) => match &**base {
            Node::Symbol(name) => Some((name.clone(), Some(n.as_integer()?.to_string()))),
            _ => None,
        },
        _ => None,
    };
    let Node::Product(below) = bottom else { return None };
    let (first, of) = match top {
        Node::Product(factors) => (&factors.first()?.1, &factors[1..]),
        alone => (alone, &[][..]),
    };
    let (d, n) = raised(first).filter(|(d, _)| matches!(d.as_str(), "d" | "partial"))?;
    let by = |(divides, factor): &(bool, Node)| match raised(factor).filter(|_| !divides)? {
        (name, Some(n)) => Some(format!("{name}^{n}")),
        (name, None) => Some(name),
    };
    let by: Vec<String> = below.iter().map(by).collect::<Option<_>>()?;
    if by.len() < 2 || by[0] != d {
        return None;
    }
    let name = format!("{d}{}/{}", n.unwrap_or("1".to_owned()), by.join(" "));
    Some(match of {
        [] => Node::Symbol(name),
        [(false, one)] => Node::Apply(name, vec![one.clone()]),
        more => Node::Apply(name, vec![Node::Product(more.to_vec())]),
    })
}
