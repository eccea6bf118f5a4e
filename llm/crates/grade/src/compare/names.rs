//! Names that a value may carry: of a point, of an unknown, of a parameter.

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::Budget;
use crate::kind::named_point;
use crate::node::{Function, Node, Relation, Sign};
use crate::scalar;
use crate::units::Unit;
use crate::verdict::Reason;

/// `C(10, 3)` as a number of combinations.
pub(super) fn combinations(node: &Node) -> Option<Node> {
    let Some(("C", Node::Group(_, items, _))) = named_point(node) else { return None };
    let whole = items.len() == 2 && items.iter().all(|n| n.as_integer().is_some());
    whole.then(|| Node::Call(Function::Binomial, items.clone()))
}

/// The coordinates of a sum of unit vectors, `3\mathbf{i} - 2\mathbf{j}`, as many as `other` has; `None` if it is none.
pub(super) fn components(node: &Node, other: &Node, budget: &mut Budget) -> Result<Option<Node>, Reason> {
    const UNITS: [&str; 3] = ["vec i", "vec j", "vec k"];
    let count = other.children().len();
    let outside = (count..3).any(|i| node.has_symbol(UNITS[i]));
    if outside || !node.is_expression() || !(2..=3).contains(&count) {
        return Ok(None);
    }
    let at = |axis: usize| {
        let value = |i: usize| Node::integer(i64::from(i == axis));
        (0..3).fold(node.clone(), |node, i| node.with(UNITS[i], &value(i)))
    };
    let parts: Vec<Node> = (0..count).map(at).collect();
    let along = |(part, unit): (&Node, &str)| (Sign::Plus, part.clone().times(Node::Symbol(unit.to_owned())));
    let sum = Node::Sum(parts.iter().zip(UNITS).map(along).collect());
    Ok(scalar::same(node, &sum, budget)?.then_some(Node::Group('(', parts, ')')))
}

/// A value times letters that are units, such as `9.8 m/s^2`, as a value with its unit.
pub(super) fn unit_in_letters(node: &Node) -> Option<Node> {
    let Node::Product(factors) = node else { return None };
    let first =
        factors.iter().position(|(_, n)| n.any(&|n| matches!(n, Node::Symbol(_) | Node::Words(_))))?;
    let (value, letters) = factors.split_at(first);
    let value = match value {
        [] => return None,
        [(false, value)] => value.clone(),
        more => Node::Product(more.to_vec()),
    };
    let name = unit_name(&Node::Product(letters.to_vec()), false)?;
    crate::units::measure(name.trim())?;
    Some(Node::Unit(Box::new(value), Unit::Measure(name.trim().to_owned())))
}

fn unit_name(node: &Node, divides: bool) -> Option<String> {
    match node {
        Node::Symbol(letters) | Node::Words(letters) => {
            Some(format!("{}{}", if divides { '/' } else { ' ' }, crate::units::canonical(letters)?))
        }
        Node::Power(base, power) => Some(format!("{}^{}", unit_name(base, divides)?, power.as_integer()?)),
        Node::Product(parts) => parts.iter().map(|(below, part)| unit_name(part, divides ^ below)).collect(),
        _ => None,
    }
}

/// True if a left side was asked for, not to be solved: `AB`, `f(2)`, `x + y`, `\sin x`, `\frac{dy}{dx}`, `a : b`.
pub(super) fn names_a_value(left: &Node) -> bool {
    match left {
        Node::Call(function, _) => *function != Function::Root,
        Node::Apply(..) | Node::Symbol(_) | Node::Words(_) => true,
        Node::Ratio(parts) => parts.iter().all(|n| n.has_symbols() && n.is_expression()),
        Node::Group('(', items, ')') => items.iter().all(|n| matches!(n, Node::Symbol(_))),
        Node::Product(factors) => {
            let symbol = |n: &Node| matches!(n, Node::Symbol(_));
            let function = matches!(&factors[..],
                [(false, Node::Symbol(f)), (false, argument)] if !argument.has_symbol(f));
            let letters = factors.iter().all(|(divides, n)| !divides && symbol(n));
            function || letters || left.is_expression() && left.symbols().len() != 1
        }
        Node::Power(base, _) => matches!(&**base, Node::Call(..)) || left.symbols().len() != 1,
        Node::Sum(_) => left.symbols().len() != 1,
        _ => false,
    }
}

/// True for an expression in two coordinates.
pub(super) fn has_coordinates(node: &Node) -> bool {
    node.symbols().iter().filter(|name| COORDINATES.contains(&name.as_str())).count() > 1
}

const COORDINATES: [&str; 3] = ["x", "y", "z"];

/// True if a left side names a value and is no curve: a sum counts only if every unknown plays the same part in it, as
/// in `x + y` and `a^2 + b^2`, and if it is straight in the coordinates.
pub(super) fn is_quantity(left: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    let Node::Sum(terms) = left else { return Ok(names_a_value(left)) };
    let symbols = left.symbols();
    let straight = terms.iter().all(|(_, n)| matches!(n, Node::Symbol(_)));
    let curve = !straight && symbols.iter().any(|name| COORDINATES.contains(&name.as_str()));
    if symbols.len() < 2 || curve {
        return Ok(false);
    }
    symbols[1..].iter().try_fold(true, |same, other| {
        let swapped =
            left.renamed(&symbols[0], "swapped").renamed(other, &symbols[0]).renamed("swapped", other);
        Ok(same && scalar::same(left, &swapped, budget)?)
    })
}

/// True if two left sides are spellings of one name: `S` and `S_{ABC}`, `AB` and `|AB|`, `P` and `P(A)`.
pub(super) fn one_name(a: &Node, b: &Node) -> bool {
    let bare = |n: &Node| match n {
        Node::Call(Function::Abs, inner) => inner[0].clone(),
        Node::Apply(sign, parts) if sign.starts_with('\\') && parts.len() > 1 => {
            Node::Product(parts.iter().map(|part| (false, part.clone())).collect())
        }
        other => other.clone(),
    };
    let (a, b) = (bare(a), bare(b));
    let stem = |n: &Node| match n {
        Node::Symbol(name) => Some(name.split('_').next().unwrap_or(name).to_lowercase()),
        // `P(A)`, but not `f(2)` or `pq`.
        Node::Apply(f, arguments) if arguments.iter().all(|n| matches!(n, Node::Symbol(_))) => {
            Some(f.to_lowercase())
        }
        _ => None,
    };
    // Two that are numbered are two; `S_{ABC}` is no `S_{DEF}`, and `P(A)` no `P(B)`.
    let numbered = |n: &Node| matches!(n, Node::Symbol(name) if name.ends_with(|c: char| c.is_ascii_digit()));
    let bare = |n: &Node| matches!(n, Node::Symbol(name) if !name.contains('_'));
    let one_is_bare = (bare(&a) || bare(&b)) && !numbered(&a) && !numbered(&b);
    a == b || one_is_bare && stem(&a).is_some() && stem(&a) == stem(&b)
}

/// The names and values of assignments: `x = 1, y = 2`, `(x, y) = (1, 2)`; each name once.
pub(crate) fn assignments(node: &Node) -> Option<Vec<(String, Node)>> {
    let found: Vec<(String, Node)> = match node {
        Node::List(items) => items.iter().map(assignment).collect::<Option<_>>()?,
        Node::Chain(left, rest, _) => match (&**left, &rest[..]) {
            (
                Node::Group('(', names, ')') | Node::List(names),
                [(Relation::Equal, Node::Group('(', values, ')'))],
            ) if names.len() == values.len() => {
                let pair = |(name, value): (&Node, &Node)| match name {
                    Node::Symbol(name) => Some((name.clone(), value.clone())),
                    _ => None,
                };
                names.iter().zip(values).map(pair).collect::<Option<_>>()?
            }
            _ => return None,
        },
        _ => return None,
    };
    let names: BTreeSet<&String> = found.iter().map(|(name, _)| name).collect();
    (names.len() == found.len()).then_some(found)
}

/// `x=1, y=2, x=3, y=4` as the tuples `(1,2), (3,4)`, their entries in the order of the names.
pub(super) fn tuples(node: &Node) -> Option<Node> {
    let Node::List(items) = node else { return None };
    let all: Vec<(String, Node)> = items.iter().map(assignment).collect::<Option<_>>()?;
    let width = all.iter().skip(1).position(|(name, _)| *name == all[0].0)? + 1;
    if width < 2 || !all.len().is_multiple_of(width) {
        return None;
    }
    let row = |chunk: &[(String, Node)]| {
        let row: BTreeMap<&String, &Node> = chunk.iter().map(|(name, value)| (name, value)).collect();
        (row.len() == width).then(|| Node::Group('(', row.into_values().cloned().collect(), ')'))
    };
    all.chunks(width).map(row).collect::<Option<_>>().map(Node::List)
}

fn assignment(node: &Node) -> Option<(String, Node)> {
    let node = if let Node::Unit(inner, _) = node { inner } else { node };
    let Node::Chain(left, rest, true) = node else { return None };
    match (&**left, rest.last()) {
        (Node::Symbol(name), Some((Relation::Equal, value))) => Some((name.clone(), value.clone())),
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
