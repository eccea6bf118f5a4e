//! Names that a value may carry: of a point, of an unknown, of a parameter.

use crate::node::{Function, Node, Relation};

/// The coordinates of `A(1, 2)`.
pub(super) fn point(node: &Node) -> Option<&Node> {
    match node {
        Node::Product(factors) => match &factors[..] {
            [(false, Node::Symbol(name)), (false, point @ Node::Group('(', ..))] if is_point_name(name) => {
                Some(point)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The name of such a point.
pub(super) fn of_point(node: &Node) -> Option<&str> {
    match node {
        Node::Product(factors) => match &factors[..] {
            [(false, Node::Symbol(name)), ..] => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// A capital letter, with or without an index or a prime.
fn is_point_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name[1..].chars().all(|c| c.is_ascii_digit() || c == '_' || c == '\'')
}

/// Whether a left side is a value that has been asked for and not an equation to be solved: `AB`, `f(2)`, `x + y`, `\sin x`,
/// `\frac{dy}{dx}`, `a : b`.
pub(super) fn names_a_value(left: &Node) -> bool {
    match left {
        Node::Call(function, _) => *function != Function::Root,
        Node::Symbol(_) | Node::Words(_) => true,
        Node::Ratio(parts) => parts.iter().all(|n| n.has_symbols() && n.is_expression()),
        Node::Group('(', items, ')') => items.iter().all(|n| matches!(n, Node::Symbol(_))),
        Node::Product(factors) => {
            let symbol = |n: &Node| matches!(n, Node::Symbol(_));
            let function = matches!(&factors[..], [(false, f), (false, _)] if symbol(f));
            let letters = factors.iter().all(|(divides, n)| !divides && symbol(n));
            function || letters || left.is_expression() && left.symbols().len() != 1
        }
        Node::Power(base, _) => matches!(&**base, Node::Call(..)) || left.symbols().len() != 1,
        Node::Sum(_) => left.symbols().len() != 1,
        _ => false,
    }
}

/// The names and values of assignments: `x = 1, y = 2`, `(x, y) = (1, 2)`; each name once.
pub(super) fn assignments(node: &Node) -> Option<Vec<(String, Node)>> {
    let mut found: Vec<(String, Node)> = Vec::new();
    match node {
        Node::List(items) => {
            for item in items {
                found.push(one(item)?);
            }
        }
        Node::Chain(left, rest, _) => match (&**left, &rest[..]) {
            (
                Node::Group('(', names, ')') | Node::List(names),
                [(Relation::Equal, Node::Group('(', values, ')'))],
            ) if names.len() == values.len() => {
                for (name, value) in names.iter().zip(values) {
                    let Node::Symbol(name) = name else { return None };
                    found.push((name.clone(), value.clone()));
                }
            }
            _ => return None,
        },
        _ => return None,
    }
    let mut names: Vec<&String> = found.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    (names.len() == found.len() && found.len() > 1).then_some(found)
}

fn one(node: &Node) -> Option<(String, Node)> {
    let node = if let Node::Unit(inner, _) = node { inner } else { node };
    match node {
        Node::Chain(left, rest, true) => match (&**left, rest.last()) {
            (Node::Symbol(name), Some((Relation::Equal, value))) => Some((name.clone(), value.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// The list with the numbers of its unknown left out: `x_1 = 2, x_2 = 3` as `x = 2, x = 3`.
pub(super) fn without_numbers(node: &Node) -> Option<Node> {
    let Node::List(items) = node else { return None };
    let mut base: Option<&str> = None;
    let mut out = Vec::new();
    for item in items {
        let Node::Chain(left, rest, true) = item else { return None };
        let Node::Symbol(name) = &**left else { return None };
        let (stem, index) = name.split_once('_')?;
        if index.is_empty() || !index.bytes().all(|b| b.is_ascii_digit()) || base.is_some_and(|b| b != stem) {
            return None;
        }
        base = Some(stem);
        out.push(Node::Chain(Box::new(Node::Symbol(stem.to_owned())), rest.clone(), true));
    }
    Some(Node::List(out))
}

/// The values and the name of the whole-number parameter of `\pi k, k \in \mathbb{Z}`.
pub(super) fn parameter(node: &Node) -> Option<(String, Node)> {
    let Node::List(items) = node else { return None };
    let (last, before) = items.split_last()?;
    let Node::Chain(name, rest, _) = last else { return None };
    let (Node::Symbol(name), [(Relation::In, Node::Symbol(set))]) = (&**name, &rest[..]) else { return None };
    if !set.starts_with("mathbb ") {
        return None;
    }
    let mut values: Vec<Node> = before.to_vec();
    let all = if values.len() == 1 { values.remove(0) } else { Node::List(values) };
    Some((name.clone(), Node::Group('p', vec![all, Node::Symbol(set.clone())], 'p')))
}
