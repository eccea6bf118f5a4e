//! An equation in one unknown next to the list of its solutions.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};

use super::same as same_node;
use crate::budget::Budget;
use crate::node::{Function, Node, Relation};
use crate::numeric::is_complex;
use crate::rules::Rule;
use crate::units::Unit;
use crate::verdict::Reason;
use crate::{exact, scalar};

/// Highest degree of an equation whose solutions are counted.
const DEGREE: usize = 8;

/// Coefficients from the constant one upwards, the last not zero.
type Polynomial = Vec<BigRational>;

/// True if `other` lists the solutions of the equation `chain`. `None` if that is no equation in one unknown.
pub(super) fn same(chain: &Node, other: &Node, budget: &mut Budget) -> Result<Option<bool>, Reason> {
    let Node::Chain(left, rest, false) = chain else { return Ok(None) };
    let [(Relation::Equal, right)] = &rest[..] else { return Ok(None) };
    if !budget.allows(Rule::Solutions) || !left.is_expression() || !right.is_expression() {
        return Ok(None);
    }
    let absolute = of_absolute(left, right);
    if absolute.is_none() && super::names::names_a_value(left) {
        return Ok(None);
    }
    let two_only = absolute.is_some();
    let difference = absolute.unwrap_or_else(|| left.minus(right));
    let symbols = difference.symbols();
    let ([name], Some(values)) = (&symbols[..], values(other, &symbols)) else { return Ok(None) };
    // `|z| = 5` names a value, too.
    if two_only && values.len() != 2 {
        return Ok(None);
    }
    let polynomial = polynomial(&difference, name, budget)?;
    if polynomial.as_ref().is_some_and(|p| p.len() < 2) {
        return Ok(None);
    }
    for (i, value) in values.iter().enumerate() {
        for known in &values[..i] {
            if same_node(value, known, budget)? {
                return Ok(Some(false));
            }
        }
        if !scalar::same(&difference.with(name, value), &Node::integer(0), budget)? {
            // Of an equation whose solutions nobody counts, other values decide nothing.
            return Ok(polynomial.map(|_| false));
        }
    }
    let Some(polynomial) = polynomial else {
        return Err(Reason::Undecided("whether an equation has more solutions than those given".into()));
    };
    let sequence = sturm(polynomial, budget)?;
    // Distinct roots, complex ones among them.
    let distinct = sequence.first().zip(sequence.last()).map_or(0, |(p, common)| p.len() - common.len());
    let all = [distinct, real_roots(&sequence)].contains(&values.len());
    Ok(Some(all && budget.uses(Rule::Solutions)))
}

/// `u^2 - c^2` for `|u| = c` of real numbers.
fn of_absolute(left: &Node, right: &Node) -> Option<Node> {
    let Node::Call(Function::Abs, inner) = left else { return None };
    let square = |n: &Node| Node::Power(Box::new(n.clone()), Box::new(Node::integer(2)));
    let real = !inner[0].symbols().iter().any(|name| is_complex(name));
    (real && !right.has_symbols()).then(|| square(&inner[0]).minus(&square(right)))
}

/// The values of `2, 3`, `\{2, 3\}`, `\pm 2`, `x = 2, x = 3` for the unknown `symbols`.
fn values(node: &Node, symbols: &[String]) -> Option<Vec<Node>> {
    match node {
        Node::List(items) | Node::Set(items) => {
            let all: Option<Vec<Vec<Node>>> = items.iter().map(|n| values(n, symbols)).collect();
            all.map(|all| all.concat())
        }
        Node::Chain(left, rest, true) => match (&**left, &rest[..]) {
            // `x` and `x_1`
            (Node::Symbol(name), [(Relation::Equal, value)]) => {
                let index = name.strip_prefix(symbols.first()?)?;
                values(value, &[]).filter(|_| index.is_empty() || index.starts_with('_'))
            }
            _ => None,
        },
        Node::Unit(inner, Unit::Noun(_)) => values(inner, symbols),
        value if value.is_expression() && !value.has_symbols() => Some(value.of_both_signs()),
        _ => None,
    }
}

/// The polynomial that `node` is in its one symbol, by interpolation, checked at further points.
fn polynomial(node: &Node, name: &str, budget: &mut Budget) -> Result<Option<Polynomial>, Reason> {
    let value_at = |x: &BigRational, budget: &mut Budget| {
        let found = exact::rational(&node.with(name, &Node::exact(x.clone())), budget);
        if matches!(found, Err(Reason::Undefined(_))) { Ok(None) } else { found }
    };
    let whole = |n: i64| BigRational::from_integer(BigInt::from(n));
    let mut divided = Vec::new();
    for n in 0..=DEGREE as i64 {
        let Some(value) = value_at(&whole(n), budget)? else { return Ok(None) };
        divided.push(value);
    }
    // Newton's divided differences, in place.
    for order in 1..=DEGREE {
        for i in (order..=DEGREE).rev() {
            divided[i] = (&divided[i] - &divided[i - 1]) / whole(order as i64);
        }
    }
    let mut out: Polynomial = Vec::new();
    for (n, coefficient) in divided.iter().enumerate().rev() {
        // out * (x - n) + coefficient
        let mut next = vec![BigRational::zero(); out.len() + 1];
        for (i, c) in out.iter().enumerate() {
            next[i + 1] += c;
            next[i] -= c * whole(n as i64);
        }
        next[0] += coefficient;
        out = next;
    }
    let out = trimmed(out);
    for x in [whole(-3), whole(23), BigRational::new(7.into(), 2.into())] {
        let value = out.iter().rev().fold(BigRational::zero(), |sum, c| sum * &x + c);
        if value_at(&x, budget)? != Some(value) {
            return Ok(None);
        }
    }
    Ok(Some(out))
}

fn trimmed(mut p: Polynomial) -> Polynomial {
    while p.pop_if(|c| c.is_zero()).is_some() {}
    p
}

/// Sturm's sequence: the polynomial, its derivative, and the remainder of the last two with the other sign. The last
/// is the greatest common divisor of the first two.
fn sturm(p: Polynomial, budget: &mut Budget) -> Result<Vec<Polynomial>, Reason> {
    let derivative = p.iter().zip(0..).skip(1).map(|(c, n)| c * BigInt::from(n)).collect();
    let mut sequence = vec![p, derivative];
    while let [.., above, by] = &sequence[..]
        && let Some(lead) = by.last()
    {
        let mut rest = above.clone();
        while let Some(top) = rest.last().filter(|_| rest.len() >= by.len()) {
            budget.spend(64 * by.len() as u64)?;
            let (shift, factor) = (rest.len() - by.len(), top / lead);
            for (i, c) in by.iter().enumerate() {
                rest[shift + i] -= c * &factor;
            }
            rest = trimmed(rest);
        }
        sequence.push(rest.into_iter().map(|c| -c).collect());
    }
    sequence.pop();
    Ok(sequence)
}

/// Distinct real roots.
fn real_roots(sequence: &[Polynomial]) -> usize {
    let changes = |negative_end: bool| {
        let sign =
            |p: &Polynomial| Some(p.last()?.is_negative() ^ (negative_end && p.len().is_multiple_of(2)));
        let signs: Vec<bool> = sequence.iter().filter_map(sign).collect();
        signs.windows(2).filter(|w| w[0] != w[1]).count()
    };
    changes(true).saturating_sub(changes(false))
}
