//! Lists, sets and tuples.

use super::{names, same as same_node};
use crate::budget::Budget;
use crate::kind::Kind;
use crate::node::Node;
use crate::rules::Rule;
use crate::verdict::Reason;

pub(super) fn is_collection(node: &Node) -> bool {
    matches!(node, Node::List(_) | Node::Set(_) | Node::All(_))
        || (node.is_expression() && node.has_double_sign())
}

/// `by` if a comparison finds it, which decides over others without a verdict; else the opposite.
fn decided(found: impl Iterator<Item = Result<bool, Reason>>, by: bool) -> Result<bool, Reason> {
    let mut open = None;
    for one in found {
        match one {
            Ok(equal) if equal == by => return Ok(by),
            Ok(_) => {}
            Err(reason) => open = Some(reason),
        }
    }
    open.map_or(Ok(!by), Err)
}

/// True if lists are the same, place by place.
pub(super) fn in_order(a: &[Node], b: &[Node], budget: &mut Budget) -> Result<bool, Reason> {
    Ok(a.len() == b.len() && decided(a.iter().zip(b).map(|(x, y)| same_node(x, y, budget)), false)?)
}

/// The members of a list or set, each double sign as two.
fn members(node: &Node) -> Vec<Node> {
    match node {
        Node::List(items) | Node::Set(items) | Node::All(items) => {
            items.iter().flat_map(Node::of_both_signs).collect()
        }
        other => other.of_both_signs(),
    }
}

/// Compares two answers of which at least one is a collection.
pub(super) fn same(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    if let Some(found) = special(a, b, budget)? {
        return Ok(found);
    }
    let signs = a.has_double_sign() || b.has_double_sign();
    let braces = [a, b].iter().filter(|n| matches!(n, Node::Set(_))).count();
    let (x, y) = (members(a), members(b));
    budget.spend((x.len() + y.len()) as u64)?;
    if x.len() == 1 && y.len() == 1 && (x[0] == *a && y[0] == *b) {
        return Ok(false);
    }
    if a.children().contains(&&Node::Dots) != b.children().contains(&&Node::Dots) {
        return Err(Reason::Undecided("dots that stand for what is not written".into()));
    }
    // `\{x\}` is the fractional part of x, too.
    if matches!((braces, &x[..], &y[..]), (1, [Node::Symbol(_)], [_])) {
        return Ok(false);
    }
    let before = budget.used;
    let list = |n: &Node| matches!(n, Node::List(_));
    if list(a) && list(b) && !signs && in_order(&x, &y, budget)? {
        return Ok(true);
    }
    budget.used = before;
    // Numbers of several things are distinguished by their nouns alone.
    if [a, b].map(Kind::read).into_iter().filter(|kind| *kind == Kind::Counts).count() == 1 {
        return Ok(false);
    }
    let allowed = (!signs || budget.uses(Rule::PlusMinus))
        && (braces != 1 || budget.uses(Rule::SetBraces))
        && (braces > 0 || signs || !is_sequence(&x) && budget.uses(Rule::Unordered));
    Ok(allowed && matched(&x, &y, braces > 0 || signs, budget)?)
}

/// True for letters of which one stands twice, as in `T, F, F`: these have an order.
fn is_sequence(items: &[Node]) -> bool {
    let letter = |n: &Node| matches!(n, Node::Symbol(name) if name.len() == 1);
    items.iter().all(letter) && (1..items.len()).any(|i| items[..i].contains(&items[i]))
}

/// Compares two collections by the lenient rules. `None` if they do not decide.
fn special(a: &Node, b: &Node, budget: &mut Budget) -> Result<Option<bool>, Reason> {
    // `a) 12; b) 7` next to a list without letters, which is in their order.
    for (one, other) in [(a, b), (b, a)] {
        if let (Some(values), None, Node::List(items)) = (lettered(one), lettered(other), other) {
            return in_order(&values, items, budget).map(Some);
        }
    }
    if let (Some((k, x)), Some((n, y))) = (names::parameter(a), names::parameter(b))
        && k != n
        && !x.has_symbol(&n)
        && !y.has_symbol(&k)
        && budget.uses(Rule::ParameterName)
    {
        return same_node(&x, &y.renamed(&n, &k), budget).map(Some);
    }
    if let (Node::Group('p', x, _), Node::Group('p', y, _)) = (a, b) {
        return in_order(x, y, budget).map(Some);
    }
    // Two ends in brackets of which one is square are an interval.
    if let (Node::Group(open, items, close), other) | (other, Node::Group(open, items, close)) = (a, b)
        && ((*open, *close) == ('(', ')') || (*open, *close) == ('[', ']') && items.len() > 2)
    {
        // A pair in brackets next to a list of two values would be a point or an interval.
        let pair = items.len() == 2 && matches!(a, Node::List(_)) && names::assignments(a).is_none();
        return if pair { Ok(None) } else { in_tuple(items, other, budget) };
    }
    for (one, other) in [(a, b), (b, a)] {
        if let Some(tuples) = names::tuples(one)
            && names::tuples(other).is_none()
            && budget.uses(Rule::TupleList)
        {
            return same_node(&tuples, other, budget).map(Some);
        }
        if let Some(plain) = names::without_numbers(one)
            && names::without_numbers(other).is_none()
            && !matches!(other, Node::Chain(..))
            && budget.allows(Rule::NumberedUnknown)
            && same_node(&plain, other, budget)?
        {
            return Ok(Some(budget.uses(Rule::NumberedUnknown)));
        }
    }
    Ok(None)
}

/// The values of lettered parts.
fn lettered(node: &Node) -> Option<Vec<Node>> {
    let Node::List(items) = node else { return None };
    let part = |item: &Node| match item {
        Node::Chain(left, rest, _) if matches!(&**left, Node::Symbol(name) if name.ends_with("_part")) => {
            rest.last().map(|(_, value)| value.clone())
        }
        _ => None,
    };
    items.iter().map(part).collect()
}

/// Compares a tuple with a list of its entries, or of assignments to names.
fn in_tuple(items: &[Node], other: &Node, budget: &mut Budget) -> Result<Option<bool>, Reason> {
    if !budget.allows(Rule::TupleList) || matches!(other, Node::Set(_)) {
        return Ok(None);
    }
    let values: Vec<Node> = match (names::assignments(other), other) {
        (Some(mut found), _) => {
            // A tuple of unknowns is written in the order of their names.
            found.sort_by(|p, q| p.0.cmp(&q.0));
            found.into_iter().map(|(_, value)| value).collect()
        }
        (None, Node::List(list)) if !list.iter().any(|n| matches!(n, Node::Group(..) | Node::Chain(..))) => {
            list.clone()
        }
        _ => return Ok(None),
    };
    Ok(Some(in_order(items, &values, budget)? && budget.uses(Rule::TupleList)))
}

/// True if every member of one has its counterpart in the other; in a set one counterpart may serve several.
pub(super) fn matched(a: &[Node], b: &[Node], as_set: bool, budget: &mut Budget) -> Result<bool, Reason> {
    if as_set {
        // A member without a counterpart decides over members without a verdict, whichever side it is on.
        let (forth, back) = (covered(a, b, budget), covered(b, a, budget));
        let missing = forth == Ok(false) || back == Ok(false);
        return if missing { Ok(false) } else { Ok(forth? && back?) };
    }
    if a.len() != b.len() {
        return Ok(false);
    }
    let mut free: Vec<&Node> = b.iter().collect();
    for x in a {
        let mut taken = None;
        let all = free.iter().enumerate().map(|(i, y)| {
            let equal = same_node(x, y, budget);
            taken = taken.or((equal == Ok(true)).then_some(i));
            equal
        });
        if !decided(all, true)? {
            return Ok(false);
        }
        taken.into_iter().for_each(|at| _ = free.swap_remove(at));
    }
    Ok(true)
}

/// True if every member of one has a counterpart in the other. In a set, the set of 1 is another member than 1.
fn covered(a: &[Node], b: &[Node], budget: &mut Budget) -> Result<bool, Reason> {
    let is_set = |n: &Node| matches!(n, Node::Set(_));
    let has_counterpart = |x: &Node| {
        decided(b.iter().filter(|y| is_set(x) == is_set(y)).map(|y| same_node(x, y, budget)), true)
    };
    decided(a.iter().map(has_counterpart), false)
}
