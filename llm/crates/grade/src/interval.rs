//! Sets of real numbers: intervals, points, their unions and differences, and the inequalities that describe them.

use super::budget::Budget;
use super::node::{Node, Relation, Sign};
use super::scalar;
use super::verdict::Reason;

/// From one end to another; whether each end belongs to it. A point is closed with equal ends.
#[derive(Clone, Debug)]
struct Interval {
    low: Node,
    high: Node,
    ends: (bool, bool),
}

/// A set of real numbers as intervals in order that do not touch.
#[derive(Clone, Debug)]
pub(super) struct Reals(Vec<Interval>);

/// The interval that a chain of inequalities leaves for one symbol: `x > 3`, `2 <= x < 5`. With it the name of the symbol.
pub(super) fn of_inequality(first: &Node, rest: &[(Relation, Node)]) -> Option<(String, Node)> {
    let minus_infinity = || Node::Sum(vec![(Sign::Minus, Node::Infinity)]);
    let open_or_closed = |r: Relation| match r {
        Relation::Less | Relation::Greater => Some(false),
        Relation::LessOrEqual | Relation::GreaterOrEqual => Some(true),
        _ => None,
    };
    let upward = |r: Relation| matches!(r, Relation::Less | Relation::LessOrEqual);
    let group = |low: Node, high: Node, (a, b): (bool, bool)| {
        Node::Group(if a { '[' } else { '(' }, vec![low, high], if b { ']' } else { ')' })
    };
    match (first, rest) {
        (Node::Symbol(name), [(relation, bound)]) if !bound.has_symbols() => {
            let closed = open_or_closed(*relation)?;
            Some((
                name.clone(),
                if upward(*relation) {
                    group(minus_infinity(), bound.clone(), (false, closed))
                } else {
                    group(bound.clone(), Node::Infinity, (closed, false))
                },
            ))
        }
        (bound, [(relation, symbol @ Node::Symbol(_))]) if !bound.has_symbols() => {
            of_inequality(symbol, &[(relation.turned(), bound.clone())])
        }
        (low, [(r, Node::Symbol(name)), (s, high)])
            if !low.has_symbols() && !high.has_symbols() && upward(*r) == upward(*s) =>
        {
            let ends = (open_or_closed(*r)?, open_or_closed(*s)?);
            Some((
                name.clone(),
                if upward(*r) {
                    group(low.clone(), high.clone(), ends)
                } else {
                    group(high.clone(), low.clone(), (ends.1, ends.0))
                },
            ))
        }
        _ => None,
    }
}

/// Whether a node describes a set of reals in a way that a pair in brackets alone does not.
pub(super) fn is_described(node: &Node) -> bool {
    match node {
        Node::Union(_) | Node::Without(..) => true,
        Node::Chain(first, rest, _) => of_inequality(first, rest).is_some() || unequal(first, rest).is_some(),
        Node::List(items) => items
            .iter()
            .all(|i| matches!(i, Node::Chain(first, rest, _) if of_inequality(first, rest).is_some())),
        _ => false,
    }
}

/// `x != a` for one symbol.
fn unequal<'a>(first: &Node, rest: &'a [(Relation, Node)]) -> Option<&'a Node> {
    match (first, rest) {
        (Node::Symbol(_), [(Relation::Unequal, bound)]) if !bound.has_symbols() => Some(bound),
        _ => None,
    }
}

impl Reals {
    /// The set a node describes, if it describes one.
    ///
    /// # Errors
    /// When the order of its ends cannot be found out.
    pub(super) fn read(node: &Node, budget: &mut Budget) -> Result<Option<Reals>, Reason> {
        let mut parts = Vec::new();
        if !collect(node, &mut parts, budget)? {
            return Ok(None);
        }
        Ok(Some(Reals(merged(parts, budget)?)))
    }

    /// Whether both are the same set.
    pub(super) fn same(&self, other: &Reals, budget: &mut Budget) -> Result<bool, Reason> {
        if self.0.len() != other.0.len() {
            return Ok(false);
        }
        for (a, b) in self.0.iter().zip(&other.0) {
            let ends = a.ends == b.ends && scalar::same(&a.low, &b.low, budget)?;
            if !ends || !scalar::same(&a.high, &b.high, budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Adds the intervals of `node`; false where it is no set of reals.
fn collect(node: &Node, parts: &mut Vec<Interval>, budget: &mut Budget) -> Result<bool, Reason> {
    budget.spend(1)?;
    match node {
        Node::Group(open, items, close) => match &items[..] {
            [low, high] if !low.has_symbols() && !high.has_symbols() => {
                let ends = (*open == '[', *close == ']');
                parts.push(Interval { low: low.clone(), high: high.clone(), ends });
                Ok(true)
            }
            _ => Ok(false),
        },
        Node::Set(points) => {
            for point in points {
                if point.has_symbols() || point.has_double_sign() {
                    return Ok(false);
                }
                parts.push(Interval { low: point.clone(), high: point.clone(), ends: (true, true) });
            }
            Ok(true)
        }
        Node::Union(sets) => {
            for set in sets {
                if !collect(set, parts, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Node::List(_) if is_described(node) => {
            for item in node.children() {
                if !collect(item, parts, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Node::Chain(first, rest, _) => {
            if let Some(point) = unequal(first, rest) {
                let ends = vec![Node::Sum(vec![(Sign::Minus, Node::Infinity)]), Node::Infinity];
                let line = Node::Group('(', ends, ')');
                return collect(
                    &Node::Without(Box::new(line), Box::new(Node::Set(vec![point.clone()]))),
                    parts,
                    budget,
                );
            }
            match of_inequality(first, rest) {
                Some((_, interval)) => collect(&interval, parts, budget),
                None => Ok(false),
            }
        }
        Node::Without(set, points) => {
            let mut inside = Vec::new();
            let Node::Set(points) = &**points else { return Ok(false) };
            if !collect(set, &mut inside, budget)? {
                return Ok(false);
            }
            for point in points {
                inside = without(inside, point, budget)?;
            }
            parts.append(&mut inside);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// The intervals without one point.
fn without(intervals: Vec<Interval>, point: &Node, budget: &mut Budget) -> Result<Vec<Interval>, Reason> {
    let mut out = Vec::new();
    for interval in intervals {
        let (at_low, at_high) =
            (scalar::same(&interval.low, point, budget)?, scalar::same(&interval.high, point, budget)?);
        match (at_low, at_high) {
            (true, true) => {}
            (true, false) => out.push(Interval { ends: (false, interval.ends.1), ..interval }),
            (false, true) => out.push(Interval { ends: (interval.ends.0, false), ..interval }),
            (false, false) => {
                let inside = scalar::less(&interval.low, point, budget)?
                    && scalar::less(point, &interval.high, budget)?;
                if inside {
                    let (a, b) = interval.ends;
                    out.push(Interval { low: interval.low, high: point.clone(), ends: (a, false) });
                    out.push(Interval { low: point.clone(), high: interval.high, ends: (false, b) });
                } else {
                    out.push(interval);
                }
            }
        }
    }
    Ok(out)
}

/// In order, with those joined that overlap or touch.
fn merged(parts: Vec<Interval>, budget: &mut Budget) -> Result<Vec<Interval>, Reason> {
    let mut sorted: Vec<Interval> = Vec::new();
    for part in parts {
        // Insertion, because a comparison can fail.
        let mut at = sorted.len();
        while at > 0 && scalar::less(&part.low, &sorted[at - 1].low, budget)? {
            at -= 1;
        }
        // Of two that begin together the closed one comes first.
        while at > 0
            && part.ends.0
            && !sorted[at - 1].ends.0
            && scalar::same(&part.low, &sorted[at - 1].low, budget)?
        {
            at -= 1;
        }
        sorted.insert(at, part);
    }
    let mut out: Vec<Interval> = Vec::new();
    for part in sorted {
        let Some(last) = out.last_mut() else {
            out.push(part);
            continue;
        };
        let touching = scalar::same(&last.high, &part.low, budget)?;
        let overlap =
            if touching { last.ends.1 || part.ends.0 } else { scalar::less(&part.low, &last.high, budget)? };
        if !overlap {
            out.push(part);
        } else if scalar::same(&last.high, &part.high, budget)? {
            last.ends.1 |= part.ends.1;
        } else if scalar::less(&last.high, &part.high, budget)? {
            last.high = part.high;
            last.ends.1 = part.ends.1;
        }
    }
    Ok(out)
}
