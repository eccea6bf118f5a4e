//! Whether two answers are the same: structures part by part, expressions by value.

use super::budget::Budget;
use super::interval::{Reals, is_described, of_inequality};
use super::node::{Node, Relation, Sign};
use super::scalar;
use super::verdict::Reason;

/// Whether two answers are the same.
///
/// # Errors
/// When that cannot be found out.
pub(super) fn same(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    budget.spend(1)?;
    if a == b {
        return Ok(true);
    }
    if let Some(decided) = sets(a, b, budget)? {
        return Ok(decided);
    }
    match (a, b) {
        (Node::Words(x), Node::Words(y)) => Ok(x == y),
        (Node::Words(_), _) | (_, Node::Words(_)) => Ok(false),
        (Node::Unit(_, Some(u)), Node::Unit(_, Some(v))) if u != v => Ok(false),
        (Node::Unit(_, Some(u)), Node::Degrees(_)) | (Node::Degrees(_), Node::Unit(_, Some(u)))
            if !u.starts_with("degree") =>
        {
            Ok(false)
        }
        (Node::Unit(x, _), Node::Unit(y, _)) => same(x, y, budget),
        (Node::Unit(x, _), y) | (y, Node::Unit(x, _)) => same(x, y, budget),
        (Node::Chain(..), _) | (_, Node::Chain(..)) => relations(a, b, budget),
        (Node::Degrees(x), Node::Degrees(y)) | (Node::Percent(x), Node::Percent(y)) => same(x, y, budget),
        // 90 degrees are written as 90 and are pi/2.
        (turn @ Node::Degrees(x), y) | (y, turn @ Node::Degrees(x)) => {
            let radians = y.any(&|n| *n == Node::Pi);
            if radians && is_expression(y) { scalar::same(turn, y, budget) } else { same(x, y, budget) }
        }
        // 8 % is written as 8 and is 0.08.
        (part @ Node::Percent(x), y) | (y, part @ Node::Percent(x)) => {
            Ok(same(x, y, budget)? || is_expression(y) && scalar::same(part, y, budget)?)
        }
        (Node::Numeral(x, _), Node::Numeral(y, _)) => Ok(x == y),
        (Node::Numeral(..), _) | (_, Node::Numeral(..)) => Ok(false),
        (Node::Matrix(x), Node::Matrix(y)) => {
            let shape = |m: &[Vec<Node>]| (m.len(), m[0].len());
            if shape(x) != shape(y) {
                return Ok(false);
            }
            let flat = |m: &[Vec<Node>]| m.iter().flatten().cloned().collect::<Vec<_>>();
            in_order(&flat(x), &flat(y), budget)
        }
        // A vector as a column, as a row or as a point.
        (Node::Matrix(rows), Node::Group('(', items, ')'))
        | (Node::Group('(', items, ')'), Node::Matrix(rows)) => {
            if rows.len() != 1 && rows[0].len() != 1 {
                return Ok(false);
            }
            in_order(&rows.iter().flatten().cloned().collect::<Vec<_>>(), items, budget)
        }
        (Node::Group(o, x, c), Node::Group(p, y, d)) => {
            if x.len() != y.len() || (x.len() == 2 && (o, c) != (p, d)) {
                return Ok(false);
            }
            in_order(x, y, budget)
        }
        _ if is_collection(a) || is_collection(b) => collections(a, b, budget),
        _ if is_expression(a) && is_expression(b) => scalar::same(a, b, budget),
        _ => Ok(false),
    }
}

/// Whether a node is a number, a symbol or made of them by arithmetic and functions.
fn is_expression(node: &Node) -> bool {
    matches!(
        node,
        Node::Number(_)
            | Node::Pi
            | Node::Euler
            | Node::Imaginary
            | Node::Infinity
            | Node::Symbol(_)
            | Node::Sum(_)
            | Node::Product(_)
            | Node::Power(..)
            | Node::Call(..)
            | Node::Degrees(_)
            | Node::Percent(_)
    )
}

fn is_collection(node: &Node) -> bool {
    matches!(node, Node::List(_) | Node::Set(_)) || (is_expression(node) && node.has_double_sign())
}

/// Decides where at least one side is a union, a difference or an inequality and both are sets of reals.
fn sets(a: &Node, b: &Node, budget: &mut Budget) -> Result<Option<bool>, Reason> {
    if !is_described(a) && !is_described(b) {
        return Ok(None);
    }
    if let (Node::Chain(f, r, _), Node::Chain(g, s, _)) = (a, b)
        && let (Some((x, _)), Some((y, _))) = (of_inequality(f, r), of_inequality(g, s))
        && x != y
    {
        return Ok(Some(false));
    }
    let member = |node: &Node| match node {
        Node::Chain(_, rest, _) => match &rest[..] {
            [(Relation::In, set)] => Some(set.clone()),
            _ => None,
        },
        _ => None,
    };
    let (inside_a, inside_b) = (member(a), member(b));
    let (a, b) = (inside_a.as_ref().unwrap_or(a), inside_b.as_ref().unwrap_or(b));
    match (Reals::read(a, budget)?, Reals::read(b, budget)?) {
        (Some(x), Some(y)) => x.same(&y, budget).map(Some),
        _ => match (a, b) {
            (Node::Union(x), Node::Union(y)) => matched(x, y, false, budget).map(Some),
            (Node::Without(x, y), Node::Without(u, v)) => {
                Ok(Some(same(x, u, budget)? && same(y, v, budget)?))
            }
            _ => Ok(None),
        },
    }
}

/// Whether lists are the same, place by place. One place that differs decides, whatever cannot be read elsewhere.
fn in_order(a: &[Node], b: &[Node], budget: &mut Budget) -> Result<bool, Reason> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let mut open = None;
    for (x, y) in a.iter().zip(b) {
        match same(x, y, budget) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(reason) => open = Some(reason),
        }
    }
    open.map_or(Ok(true), Err)
}

/// The members of a list or set, each double sign as two.
fn members(node: &Node) -> Vec<Node> {
    let items = match node {
        Node::List(items) | Node::Set(items) => items.clone(),
        other => vec![other.clone()],
    };
    let both =
        |n: Node| if n.has_double_sign() { vec![n.with_signs(true), n.with_signs(false)] } else { vec![n] };
    items.into_iter().flat_map(both).collect()
}

fn collections(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    // A pair in brackets is a point or an interval and not a list.
    let as_set = [a, b].iter().any(|n| matches!(n, Node::Set(_)) || n.has_double_sign());
    let (x, y) = (members(a), members(b));
    budget.spend((x.len() + y.len()) as u64)?;
    if x.len() == 1 && y.len() == 1 && (x[0] == *a && y[0] == *b) {
        return Ok(false);
    }
    matched(&x, &y, as_set, budget)
}

/// Whether every member of one has its counterpart in the other; in a set one counterpart may serve several.
fn matched(a: &[Node], b: &[Node], as_set: bool, budget: &mut Budget) -> Result<bool, Reason> {
    if as_set {
        return Ok(covered(a, b, budget)? && covered(b, a, budget)?);
    }
    if a.len() != b.len() {
        return Ok(false);
    }
    let mut free: Vec<&Node> = b.iter().collect();
    for x in a {
        match position(x, &free, budget)? {
            Some(at) => free.swap_remove(at),
            None => return Ok(false),
        };
    }
    Ok(true)
}

fn covered(a: &[Node], b: &[Node], budget: &mut Budget) -> Result<bool, Reason> {
    let all: Vec<&Node> = b.iter().collect();
    for x in a {
        if position(x, &all, budget)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where in `list` a counterpart of `x` stands.
fn position(x: &Node, list: &[&Node], budget: &mut Budget) -> Result<Option<usize>, Reason> {
    let mut open = None;
    for (i, y) in list.iter().enumerate() {
        match same(x, y, budget) {
            Ok(true) => return Ok(Some(i)),
            Ok(false) => {}
            Err(reason) => open = Some(reason),
        }
    }
    open.map_or(Ok(None), Err)
}

/// What a relation says the answer is: the right side of `x = 5`, the set of `x \in S`.
fn answer_of(node: &Node) -> Option<&Node> {
    let Node::Chain(first, rest, label) = node else { return None };
    let (_, last) = rest.last()?;
    let equations = rest.iter().all(|(r, _)| *r == Relation::Equal);
    let member = rest.len() == 1 && rest[0].0 == Relation::In;
    // `2 + 3 = 5` says 5.
    (member || equations && (*label || !first.has_symbols())).then_some(last)
}

fn relations(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    match (a, b) {
        (Node::Chain(f, r, label), Node::Chain(g, s, label_too)) => {
            let equation = |rest: &[(Relation, Node)]| rest.iter().all(|(r, _)| *r == Relation::Equal);
            if *label && *label_too && equation(r) && equation(s) {
                if f == g {
                    return pair(answer_of(a), answer_of(b), budget);
                }
                if let Some(renamed) = with_argument(f, g, answer_of(b)) {
                    return pair(answer_of(a), Some(&renamed), budget);
                }
            }
            match (&r[..], &s[..]) {
                ([(Relation::In, x)], [(Relation::In, y)]) => same(x, y, budget),
                ([(Relation::Equal, x)], [(Relation::Equal, y)]) => equations((f, x), (g, y), budget),
                ([(p, x)], [(q, y)]) => inequalities((f, *p, x), (g, *q, y), budget),
                _ => {
                    let alike = r.len() == s.len() && r.iter().zip(s).all(|((p, _), (q, _))| p == q);
                    let parts = |first: &Node, rest: &[(Relation, Node)]| {
                        std::iter::once(first.clone())
                            .chain(rest.iter().map(|(_, n)| n.clone()))
                            .collect::<Vec<_>>()
                    };
                    if alike { in_order(&parts(f, r), &parts(g, s), budget) } else { Ok(false) }
                }
            }
        }
        (chain @ Node::Chain(..), other) | (other, chain @ Node::Chain(..)) => {
            pair(answer_of(chain), Some(other), budget)
        }
        _ => Ok(false),
    }
}

fn pair(a: Option<&Node>, b: Option<&Node>, budget: &mut Budget) -> Result<bool, Reason> {
    match (a, b) {
        (Some(a), Some(b)) => same(a, b, budget),
        _ => Ok(false),
    }
}

/// For the labels `f(n)` and `f(x)`: the right side of the second, written in the argument of the first.
fn with_argument(first: &Node, second: &Node, right: Option<&Node>) -> Option<Node> {
    let (Node::Product(a), Node::Product(b)) = (first, second) else { return None };
    match (&a[..], &b[..]) {
        ([(false, f), (false, Node::Symbol(x))], [(false, g), (false, Node::Symbol(y))]) if f == g => {
            let right = right?;
            let free = |name: &str, node: &Node| node.any(&|n| matches!(n, Node::Symbol(s) if s == name));
            (!free(x, right)).then(|| renamed(right, y, x))
        }
        _ => None,
    }
}

/// `node` with one symbol under another name.
fn renamed(node: &Node, from: &str, to: &str) -> Node {
    let one = |n: &Node| renamed(n, from, to);
    let all = |list: &[Node]| list.iter().map(one).collect::<Vec<_>>();
    match node {
        Node::Symbol(name) if name == from => Node::Symbol(to.to_owned()),
        Node::Sum(terms) => Node::Sum(terms.iter().map(|(s, n)| (*s, one(n))).collect()),
        Node::Product(factors) => Node::Product(factors.iter().map(|(d, n)| (*d, one(n))).collect()),
        Node::Power(a, b) => Node::Power(Box::new(one(a)), Box::new(one(b))),
        Node::Call(f, list) => Node::Call(*f, all(list)),
        Node::Degrees(a) => Node::Degrees(Box::new(one(a))),
        Node::Percent(a) => Node::Percent(Box::new(one(a))),
        other => other.clone(),
    }
}

fn difference(a: &Node, b: &Node) -> Node {
    Node::Sum(vec![(Sign::Plus, a.clone()), (Sign::Minus, b.clone())])
}

/// Equations are the same when their sides differ by multiples of each other.
fn equations((f, x): (&Node, &Node), (g, y): (&Node, &Node), budget: &mut Budget) -> Result<bool, Reason> {
    if [f, x, g, y].into_iter().all(is_expression) {
        return scalar::proportional(&difference(f, x), &difference(g, y), false, budget);
    }
    Ok(same(f, g, budget)? && same(x, y, budget)? || same(f, y, budget)? && same(x, g, budget)?)
}

fn inequalities(
    (f, p, x): (&Node, Relation, &Node),
    (g, q, y): (&Node, Relation, &Node),
    budget: &mut Budget,
) -> Result<bool, Reason> {
    if ![f, x, g, y].into_iter().all(is_expression) {
        return Ok(p == q && same(f, g, budget)? && same(x, y, budget)?);
    }
    // Each as "this is (or is not) above zero".
    let side = |a: &Node, r: Relation, b: &Node| match r {
        Relation::Less | Relation::LessOrEqual => (difference(b, a), r.turned()),
        other => (difference(a, b), other),
    };
    let ((u, p), (v, q)) = (side(f, p, x), side(g, q, y));
    Ok(p == q && scalar::proportional(&u, &v, p != Relation::Unequal, budget)?)
}
