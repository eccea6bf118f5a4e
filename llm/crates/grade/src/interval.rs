//! Sets of real numbers: intervals, points, their unions and differences, and the inequalities that describe them.

use super::budget::Budget;
use super::inequality::{described, in_reals, named_point, subject, unequal};
use super::node::Node;
use super::scalar;
use super::verdict::Reason;

/// An interval, and for each end true if it belongs to it. A point is closed with equal ends.
#[derive(Clone, Debug)]
struct Interval {
    low: Node,
    high: Node,
    ends: (bool, bool),
}

impl Interval {
    fn point(node: &Node) -> Interval {
        Interval { low: node.clone(), high: node.clone(), ends: (true, true) }
    }
}

/// A set of real numbers as intervals in order that do not touch.
#[derive(Clone, Debug)]
pub(super) struct Reals(Vec<Interval>);

impl Reals {
    /// The set that a node describes. Errors if the order of its ends cannot be found out.
    pub(super) fn read(node: &Node, budget: &mut Budget) -> Result<Option<Reals>, Reason> {
        collect(node, budget)?.map(|parts| merged(parts, budget).map(Reals)).transpose()
    }

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

type Intervals = Option<Vec<Interval>>;

/// The intervals of a node. `None` if it is no set of reals.
fn collect(node: &Node, budget: &mut Budget) -> Result<Intervals, Reason> {
    budget.spend(1)?;
    match node {
        Node::Group(open, items, close) => Ok(match &items[..] {
            [low, high] if !low.has_symbols() && !high.has_symbols() => {
                let ends = (*open == '[', *close == ']');
                Some(vec![Interval { low: low.clone(), high: high.clone(), ends }])
            }
            _ => None,
        }),
        Node::Set(points) => {
            let plain = |p: &Node| p.is_expression() && !p.has_symbols() && !p.has_double_sign();
            Ok(points.iter().all(plain).then(|| points.iter().map(Interval::point).collect()))
        }
        Node::Union(sets) => all_of(sets, budget),
        Node::All(sets) => common(sets, budget),
        Node::List(items) if subject(node, budget).is_some() => listed(items, budget),
        Node::Chain(first, rest, _) => {
            if let Some(point) = unequal(first, rest) {
                return complement(vec![Interval::point(point)], budget).map(Some);
            }
            if let Some(point) = named_point(first, rest) {
                return Ok(Some(vec![Interval::point(point)]));
            }
            match in_reals(first, rest) {
                Some(set) => collect(set, budget),
                None => described(first, rest, budget).map_or(Ok(None), |set| all_of(&set.parts, budget)),
            }
        }
        Node::Without(set, rest) => {
            let (Some(inside), Some(taken)) = (collect(set, budget)?, collect(rest, budget)?) else {
                return Ok(None);
            };
            let left = complement(taken, budget)?;
            both(&inside, &left, budget).map(Some)
        }
        _ => Ok(None),
    }
}

fn all_of(sets: &[Node], budget: &mut Budget) -> Result<Intervals, Reason> {
    let mut all = Vec::new();
    for set in sets {
        let Some(mut parts) = collect(set, budget)? else { return Ok(None) };
        all.append(&mut parts);
    }
    Ok(Some(all))
}

fn common(sets: &[Node], budget: &mut Budget) -> Result<Intervals, Reason> {
    let mut left: Option<Vec<Interval>> = None;
    for set in sets {
        let Some(parts) = collect(set, budget)? else { return Ok(None) };
        left = Some(match left {
            None => parts,
            Some(known) => both(&known, &parts, budget)?,
        });
    }
    Ok(left)
}

type End<'a> = (&'a Node, bool);

/// The larger of two ends, or the smaller one. Equal ends belong to the overlap if they belong to both intervals.
fn inner<'a>(a: End<'a>, b: End<'a>, larger: bool, budget: &mut Budget) -> Result<End<'a>, Reason> {
    if scalar::same(a.0, b.0, budget)? {
        return Ok((a.0, a.1 && b.1));
    }
    Ok(if scalar::less(a.0, b.0, budget)? == larger { b } else { a })
}

/// The common part of two intervals.
fn overlap(a: &Interval, b: &Interval, budget: &mut Budget) -> Result<Option<Interval>, Reason> {
    let (low, low_in) = inner((&a.low, a.ends.0), (&b.low, b.ends.0), true, budget)?;
    let (high, high_in) = inner((&a.high, a.ends.1), (&b.high, b.ends.1), false, budget)?;
    let touching = scalar::same(low, high, budget)?;
    let some = if touching { low_in && high_in } else { scalar::less(low, high, budget)? };
    Ok(some.then(|| Interval { low: low.clone(), high: high.clone(), ends: (low_in, high_in) }))
}

/// The set of inequalities with commas between them: they hold together if that leaves a part of the line and their
/// union is all of it; else they are alternatives. Errors if both readings leave a part of the line.
fn listed(items: &[Node], budget: &mut Budget) -> Result<Intervals, Reason> {
    let holes = |n: &Node| match n {
        Node::Chain(first, rest, _) => unequal(first, rest).is_some() || in_reals(first, rest).is_some(),
        _ => false,
    };
    if items.iter().any(holes) {
        return common(items, budget);
    }
    let (Some(any), Some(all)) = (all_of(items, budget)?, common(items, budget)?) else { return Ok(None) };
    if all.is_empty() {
        return Ok(Some(any));
    }
    match &merged(any, budget)?[..] {
        [line] if line.low == Node::minus_infinity() && line.high == Node::Infinity => Ok(Some(all)),
        _ => Err(Reason::Undecided("inequalities joined by a comma: together, or one of them".into())),
    }
}

/// The rest of the line.
fn complement(parts: Vec<Interval>, budget: &mut Budget) -> Result<Vec<Interval>, Reason> {
    let mut out = Vec::new();
    let (mut low, mut low_in) = (Node::minus_infinity(), false);
    for part in merged(parts, budget)? {
        if part.low != Node::minus_infinity() {
            out.push(Interval { low, high: part.low, ends: (low_in, !part.ends.0) });
        }
        (low, low_in) = (part.high, !part.ends.1);
    }
    if low != Node::Infinity {
        out.push(Interval { low, high: Node::Infinity, ends: (low_in, false) });
    }
    Ok(out)
}

/// The common part of two sets.
fn both(a: &[Interval], b: &[Interval], budget: &mut Budget) -> Result<Vec<Interval>, Reason> {
    let mut out = Vec::new();
    for x in a {
        for y in b {
            out.extend(overlap(x, y, budget)?);
        }
    }
    Ok(out)
}

/// Sorts intervals and joins those that overlap or touch.
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
