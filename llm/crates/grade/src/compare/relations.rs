//! Equations and inequalities, and the answers according to them.

use super::{collections, names, same as same_node, solutions};
use crate::budget::Budget;
use crate::node::{Node, Relation};
use crate::rules::Rule;
use crate::scalar;
use crate::verdict::Reason;

type Rest = [(Relation, Node)];

fn is_equation(rest: &Rest) -> bool {
    rest.iter().all(|(r, _)| matches!(r, Relation::Equal | Relation::About))
}

/// The answer according to a relation.
struct Said<'a> {
    /// The right side of `x = 5`, the set of `x \in S`, the exact side of `\sqrt 2 \approx 1.414`.
    value: &'a Node,
    /// The side after `\approx`.
    about: Option<&'a Node>,
    rule: Rule,
}

fn said<'a>(node: &'a Node, budget: &Budget) -> Option<Said<'a>> {
    let Node::Chain(first, rest, label) = node else { return None };
    let (_, last) = rest.last()?;
    if let [(Relation::In, set)] = &rest[..]
        && (set.has_symbols() || !set.is_expression())
    {
        return Some(Said { value: set, about: None, rule: Rule::Assignment });
    }
    if !is_equation(rest) {
        return None;
    }
    // `2 + 3 = 5` says 5, and `11 = 3p + q` nothing of its right side.
    let named = *label || !first.has_symbols() && (!last.has_symbols() || matches!(last, Node::Symbol(_)));
    let value_of_more = !named && budget.allows(Rule::NamedValue) && names_more(first, last);
    let rule = if named { Rule::Assignment } else { Rule::NamedValue };
    let about = rest.iter().position(|(r, _)| *r == Relation::About);
    if !named && (!value_of_more || about.is_some() && last.has_symbols()) {
        return None;
    }
    // The exact side counts; after a mere name there is none.
    Some(match about {
        Some(0) if named && first.has_symbols() => Said { value: last, about: None, rule },
        Some(0) => Said { value: first, about: Some(last), rule },
        Some(at) => Said { value: &rest[at - 1].1, about: Some(last), rule },
        None => Said { value: last, about: None, rule },
    })
}

fn names_more(first: &Node, last: &Node) -> bool {
    let letters =
        |n: &Node| matches!(n, Node::Product(f) if f.iter().all(|(d, n)| !d && matches!(n, Node::Symbol(_))));
    let applied = |n: &Node| matches!(n, Node::Apply(name, _) if name.contains(['/', '\\']));
    names::names_a_value(first) && (!last.has_symbols() || letters(first) || applied(first))
}

/// Compares two answers of which at least one is a relation.
pub(super) fn same(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    if let (Node::Chain(f, r, label), Node::Chain(g, s, label_too)) = (a, b) {
        let before = budget.used;
        if chains((f, r, *label), (g, s, *label_too), budget)? {
            return Ok(true);
        }
        budget.used = before;
        return both_said(a, b, budget);
    }
    let (chain, other) = if matches!(a, Node::Chain(..)) { (a, b) } else { (b, a) };
    if let Some(found) = solutions::same(chain, other, budget)? {
        return Ok(found);
    }
    if let Some(values) = names::assignments(chain)
        && let Node::List(_) = other
        && let Some(others) = names::assignments(other)
    {
        return assigned(&values, &others, budget);
    }
    // A compound left side makes a reference an equation; in an answer it may be asked for, unless it is a curve.
    if let Node::Chain(left, _, false) = chain
        && (matches!(a, Node::Chain(..)) && left.has_symbols() || names::has_coordinates(left))
        && !names::is_quantity(left, budget)?
    {
        return Ok(false);
    }
    let Some(said) = said(chain, budget) else { return Ok(false) };
    Ok(holds(chain, budget) && value(&said, other, budget)?)
}

/// False for a chain of constants that is wrong, as `2 + 2 = 5` and `x = 4 = 5` are: it says nothing.
fn holds(chain: &Node, budget: &mut Budget) -> bool {
    let Node::Chain(first, rest, _) = chain else { return true };
    let constant = |n: &Node| n.is_expression() && !n.has_symbols();
    let lefts = std::iter::once(&**first).chain(rest.iter().map(|(_, side)| side));
    lefts.zip(rest).all(|(x, (relation, y))| {
        let compared = *relation == Relation::Equal && constant(x) && constant(y) && !y.has_double_sign();
        !compared || scalar::same(x, y, budget) != Ok(false)
    })
}

/// Compares the answer of a relation with a value.
fn value(said: &Said<'_>, other: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    if same_node(said.value, other, budget)? {
        return Ok(budget.uses(said.rule));
    }
    // The digits must be those of the exact side: a wrong one does not become right by a lucky approximation.
    let about = said.about.filter(|_| budget.uses(Rule::Approximation) && budget.uses(said.rule));
    let Some(about) = about else { return Ok(false) };
    Ok(same_node(about, other, budget)? && scalar::rounded(about, said.value, budget)?)
}

/// Two assignments to one name, of which one or both say more than a value: `x = 3/2 = 1.5`; `y = 2x` and `f(x) = 2x`.
fn both_said(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    for (chain, other) in [(a, b), (b, a)] {
        if matches!(other, Node::Chain(_, _, true))
            && let Some(found) = solutions::same(chain, other, budget)?
        {
            return Ok(found);
        }
    }
    let (Node::Chain(f, ..), Node::Chain(g, ..)) = (a, b) else { return Ok(false) };
    let function = |n: &Node| matches!(n, Node::Apply(..)) || matches!(n, Node::Product(f) if f.len() == 2);
    let symbol = |n: &Node| matches!(n, Node::Symbol(_));
    let one_function = function(f) && symbol(g) || function(g) && symbol(f);
    let constant = |n: &Node| !n.has_symbols();
    let (Some(x), Some(y)) = (said(a, budget), said(b, budget)) else { return Ok(false) };
    let one_name = names::one_name(f, g) && constant(x.value) && constant(y.value);
    let equal = one_name && budget.uses(Rule::NamedValue)
        || f == g
        || (constant(f) && constant(g))
        || constant(f) != constant(g) && constant(x.value) && constant(y.value);
    let functions = one_function && x.value.has_symbols();
    if !(equal || functions && budget.uses(Rule::NamedValue)) {
        return Ok(false);
    }
    if x.about.is_none() && y.about.is_none() {
        return Ok(same_node(x.value, y.value, budget)? && budget.uses(x.rule));
    }
    Ok(value(&x, y.value, budget)? || value(&y, x.value, budget)?)
}

/// Compares values by their names, in any order.
fn assigned(a: &[(String, Node)], b: &[(String, Node)], budget: &mut Budget) -> Result<bool, Reason> {
    let equal = a.iter().try_fold(a.len() == b.len(), |equal, (name, value)| {
        let other = b.iter().find(|(known, _)| known == name);
        Ok(equal && other.map_or(Ok(false), |(_, other)| same_node(value, other, budget))?)
    });
    Ok(equal? && budget.uses(Rule::TupleList))
}

fn chains(
    (f, r, label): (&Node, &Rest, bool),
    (g, s, label_too): (&Node, &Rest, bool),
    budget: &mut Budget,
) -> Result<bool, Reason> {
    let exact =
        |rest: &Rest| rest.iter().all(|(r, _)| *r == Relation::Equal) || rest.len() == 1 && is_equation(rest);
    if let (true, Some((_, x)), Some((_, y))) =
        (label && label_too && exact(r) && exact(s), r.last(), s.last())
    {
        if f == g {
            // In an equation letters are factors.
            let factors = matches!(f, Node::Symbol(_)) && x.letters().is_some() && y.letters().is_some();
            return if factors { scalar::same(x, y, budget) } else { same_node(x, y, budget) };
        }
        if let Some(renamed) = with_argument(f, g, y) {
            return Ok(same_node(x, &renamed, budget)? && budget.uses(Rule::RenamedArgument));
        }
    }
    match (r, s) {
        ([(p, x)], [(q, y)]) if p.is_of_figures() || q.is_of_figures() => {
            let one = |p, f, x, budget: &mut Budget| {
                Ok(p == *q && same_node(f, g, budget)? && same_node(x, y, budget)?)
            };
            Ok(one(*p, f, x, budget)? || one(p.turned(), x, f, budget)?)
        }
        ([(Relation::About, x)], [(Relation::About, y)])
            if x.letters().is_some() && y.letters().is_some() =>
        {
            Ok(same_node(f, g, budget)? && same_node(x, y, budget)?)
        }
        ([(Relation::Equal | Relation::About, x)], [(Relation::Equal | Relation::About, y)]) => {
            equations((f, x), (g, y), budget)
        }
        ([(p, x)], [(q, y)]) => inequalities((f, *p, x), (g, *q, y), budget),
        _ => {
            let equal = r.len() == s.len() && r.iter().zip(s).all(|((p, _), (q, _))| p == q);
            let parts = |first: &Node, rest: &Rest| {
                std::iter::once(first.clone()).chain(rest.iter().map(|(_, n)| n.clone())).collect::<Vec<_>>()
            };
            if equal {
                return collections::in_order(&parts(f, r), &parts(g, s), budget);
            }
            let turned = r.len() == s.len() && r.iter().rev().zip(s).all(|((p, _), (q, _))| p.turned() == *q);
            let mut backwards = parts(f, r);
            backwards.reverse();
            Ok(turned
                && collections::in_order(&backwards, &parts(g, s), budget)?
                && budget.uses(Rule::Scaled))
        }
    }
}

/// The right side of `f(x)` in the argument of `f(n)`, if it has it: `P(A) = 1/2` and `P(B) = 1/2` are two things.
fn with_argument(first: &Node, second: &Node, right: &Node) -> Option<Node> {
    let (Node::Apply(f, one), Node::Apply(g, other)) = (first, second) else { return None };
    let ([Node::Symbol(x)], [Node::Symbol(y)]) = (&one[..], &other[..]) else { return None };
    (f == g && right.has_symbol(y) && !right.has_symbol(x)).then(|| right.renamed(y, x))
}

/// Compares equations, which are the same if their sides differ by multiples of each other.
fn equations((f, x): (&Node, &Node), (g, y): (&Node, &Node), budget: &mut Budget) -> Result<bool, Reason> {
    if ![f, x, g, y].into_iter().all(Node::is_expression) {
        return Ok(same_node(f, g, budget)? && same_node(x, y, budget)?
            || same_node(f, y, budget)? && same_node(x, g, budget)?);
    }
    let (p, q) = (f.minus(x), g.minus(y));
    // Equations of constants say nothing of each other.
    if !p.has_symbols() || !q.has_symbols() {
        return Ok(false);
    }
    if scalar::proportional(&p, &q, false, budget)? {
        return Ok(budget.uses(Rule::Scaled));
    }
    Ok(budget.allows(Rule::EquivalentEquation)
        && scalar::proportional(&numerator(p), &numerator(q), false, budget)?
        && budget.uses(Rule::EquivalentEquation))
}

/// A sum of fractions times their denominators, each of which counts once.
fn numerator(node: Node) -> Node {
    fn add(node: &Node, found: &mut Vec<(bool, Node)>) {
        match node {
            Node::Sum(terms) => terms.iter().for_each(|(_, term)| add(term, found)),
            Node::Product(factors) => {
                for (divides, factor) in factors {
                    let below = (false, factor.clone());
                    if *divides && !found.contains(&below) {
                        found.push(below);
                    }
                    add(factor, found);
                }
            }
            _ => {}
        }
    }
    let mut factors = Vec::new();
    add(&node, &mut factors);
    factors.push((false, node));
    Node::Product(factors)
}

fn inequalities(
    (f, p, x): (&Node, Relation, &Node),
    (g, q, y): (&Node, Relation, &Node),
    budget: &mut Budget,
) -> Result<bool, Reason> {
    if ![f, x, g, y].into_iter().all(Node::is_expression) {
        return Ok(p == q && same_node(f, g, budget)? && same_node(x, y, budget)?);
    }
    // Each as "this is (or is not) above zero".
    let side = |a: &Node, r: Relation, b: &Node| match r {
        Relation::Less | Relation::LessOrEqual => (b.minus(a), r.turned()),
        other => (a.minus(b), other),
    };
    let ((u, p), (v, q)) = (side(f, p, x), side(g, q, y));
    Ok(p == q && scalar::proportional(&u, &v, p != Relation::Unequal, budget)? && budget.uses(Rule::Scaled))
}
