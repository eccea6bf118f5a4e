//! Sums and products with an index, determinants, real parts, remainders.

use num_traits::ToPrimitive;

use super::Parser;
use super::named::conjugate;
use crate::lex::Token;
use crate::matrix;
use crate::node::{Function, Node, Relation, Sign};
use crate::verdict::Reason;

/// Most terms of a sum that are written out.
const TERMS: i64 = 200;

impl Parser<'_> {
    /// True for the sign of a modulus, `\pmod` or `\bmod`, so many tokens ahead.
    pub(super) fn at_modulus(&self, ahead: usize) -> bool {
        matches!(self.peek_after(ahead), Some(Token::Modulus | Token::Remainder))
    }

    /// `\sum_{k=1}^{5} k`, `\prod`, `\det`: written out as far as the limits are numbers, else an application.
    pub(super) fn operator(&mut self, name: &str) -> Result<Node, Reason> {
        let (mut below, mut above) = (None, None);
        loop {
            if below.is_none() && self.take(&Token::Underscore) {
                below = Some(self.argument_whole()?);
            } else if above.is_none() && self.take(&Token::Caret) {
                above = Some(self.script()?);
            } else {
                break;
            }
        }
        if name == "det" {
            return match self.nested(Self::factor)? {
                Node::Matrix(rows) => matrix::determinant(&rows, self.budget),
                other => Ok(Node::Apply(name.to_owned(), vec![other])),
            };
        }
        if let "Re" | "Im" = name {
            return Ok(part(name, self.nested(Self::factor)?));
        }
        let term = self.nested(Self::product)?;
        match (below, above) {
            (Some(Node::Chain(index, from, _)), Some(to)) => match &from[..] {
                [(Relation::Equal, from)] => self.indexed(name, &term, (&index, from, &to)),
                _ => Ok(Node::Apply(name.to_owned(), vec![Node::Chain(index, from, false), to, term])),
            },
            (below, above) => {
                Ok(Node::Apply(name.to_owned(), below.into_iter().chain(above).chain([term]).collect()))
            }
        }
    }

    /// A sum or product over an index: `(index, from, to)`. The name of the index says nothing.
    fn indexed(
        &mut self,
        name: &str,
        term: &Node,
        (index, from, to): (&Node, &Node, &Node),
    ) -> Result<Node, Reason> {
        let put = |value: &Node| {
            term.clone().edited(&|node| {
                if node == index {
                    *node = value.clone();
                }
            })
        };
        let whole = |node: &Node| node.as_integer().and_then(ToPrimitive::to_i64);
        let (Some(first), Some(last)) = (whole(from), whole(to)) else {
            // Of sums in each other every index has a name of its own.
            let named = |n: &usize| Node::Symbol(format!("index {n}"));
            let free = (0..).find(|n| !term.any(&|node| *node == named(n))).unwrap_or(0);
            return Ok(Node::Apply(name.to_owned(), vec![put(&named(&free)), from.clone(), to.clone()]));
        };
        if last.saturating_sub(first) >= TERMS {
            return Err(Reason::TooLarge(format!("a sum of more than {TERMS} terms")));
        }
        self.budget.spend((last - first + 1).max(0) as u64 * matrix::size(term))?;
        let mut all = (first..=last).map(|k| put(&Node::integer(k)));
        Ok(match (first > last, name) {
            (true, "sum") => Node::integer(0),
            (true, _) => Node::integer(1),
            (false, "sum") => Node::Sum(all.map(|term| (Sign::Plus, term)).collect()),
            (false, _) if first == last => all.next().unwrap_or(Node::integer(1)),
            (false, _) => Node::Product(all.map(|factor| (false, factor)).collect()),
        })
    }
}

/// The real or imaginary part of a number; of what holds symbols the application of the sign.
fn part(name: &str, z: Node) -> Node {
    if z.has_symbols() || !z.is_expression() {
        return Node::Apply(name.to_owned(), vec![z]);
    }
    let (sign, below) = match name {
        "Re" => (Sign::Plus, Node::integer(2)),
        _ => (Sign::Minus, Node::integer(2).times(Node::Imaginary)),
    };
    let both = Node::Sum(vec![(Sign::Plus, z.clone()), (sign, conjugate(z))]);
    both.over(below)
}

/// `17 \bmod 5` as what is left of the first; a number below the modulus and a relation keep it as `\pmod` does.
pub(super) fn remainder(value: &Node, modulus: &Node) -> Option<Node> {
    let reduced = match (value.as_integer(), modulus.as_integer()) {
        (Some(value), Some(modulus)) => *value >= 0.into() && value < modulus,
        _ => !value.is_expression(),
    };
    let quotient = value.clone().over(modulus.clone());
    let times = modulus.clone().times(Node::Call(Function::Floor, vec![quotient]));
    (!reduced).then(|| value.minus(&times))
}
