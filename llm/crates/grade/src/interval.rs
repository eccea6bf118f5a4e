//! Sets of real numbers: intervals, points, their unions and differences, and the inequalities that describe them.
//!
//! The ends of all intervals part the line into cells: the ends and what lies between. A set is the cells in it.

use super::budget::Budget;
use super::inequality::{described, in_reals, named_point, subject, unequal};
use super::node::Node;
use super::scalar;
use super::verdict::Reason;

enum Set {
    /// Two ends, and for each true if it belongs to the interval. A point is closed with equal ends.
    Interval(Node, Node, [bool; 2]),
    Any(Vec<Set>),
    All(Vec<Set>),
    /// The rest of the line.
    Not(Box<Set>),
    /// Inequalities with commas between them.
    Listed(Vec<Set>),
}

/// True if two nodes describe the same set. `None` if one is no set of reals. Errors if the ends cannot be ordered.
pub(super) fn same(a: &Node, b: &Node, budget: &mut Budget) -> Result<Option<bool>, Reason> {
    let (Some(a), Some(b)) = (Set::read(a, budget)?, Set::read(b, budget)?) else { return Ok(None) };
    let mut ends = vec![vec![Node::minus_infinity()], vec![Node::Infinity]];
    for end in a.ends().into_iter().chain(b.ends()) {
        add_end(end, &mut ends, budget)?;
    }
    Ok(Some(a.cells(&ends)? == b.cells(&ends)?))
}

/// Ends in their order, each in all its spellings.
type Ends = Vec<Vec<Node>>;

fn add_end(node: &Node, ends: &mut Ends, budget: &mut Budget) -> Result<(), Reason> {
    if ends.iter().any(|known| known.contains(node)) {
        return Ok(());
    }
    let mut at = ends.len();
    while at > 0 && scalar::less(node, &ends[at - 1][0], budget)? {
        at -= 1;
    }
    match at.checked_sub(1) {
        Some(before) if scalar::same(node, &ends[before][0], budget)? => ends[before].push(node.clone()),
        _ => ends.insert(at, vec![node.clone()]),
    }
    Ok(())
}

impl Set {
    fn point(node: &Node) -> Set {
        Set::Interval(node.clone(), node.clone(), [true; 2])
    }

    /// The set of a node. `None` if it is no set of reals.
    fn read(node: &Node, budget: &mut Budget) -> Result<Option<Set>, Reason> {
        budget.spend(1)?;
        let mut all = |nodes: &[Node]| -> Result<Option<Vec<Set>>, Reason> {
            nodes.iter().map(|node| Set::read(node, budget).transpose()).collect::<Option<_>>().transpose()
        };
        Ok(match node {
            Node::Group(open, items, close) => match &items[..] {
                [low, high] if !low.has_symbols() && !high.has_symbols() => {
                    Some(Set::Interval(low.clone(), high.clone(), [*open == '[', *close == ']']))
                }
                _ => None,
            },
            Node::Set(points) => {
                let plain = |p: &Node| p.is_expression() && !p.has_symbols() && !p.has_double_sign();
                points.iter().all(plain).then(|| Set::Any(points.iter().map(Set::point).collect()))
            }
            Node::Union(sets) => all(sets)?.map(Set::Any),
            Node::All(sets) => all(sets)?.map(Set::All),
            Node::List(items) => {
                let holes = |n: &Node| {
                    matches!(n, Node::Chain(first, rest, _)
                    if unequal(first, rest).or(in_reals(first, rest)).is_some())
                };
                let sets = all(items)?;
                let sets = sets.filter(|_| subject(node, budget).is_some());
                sets.map(if items.iter().any(holes) { Set::All } else { Set::Listed })
            }
            Node::Chain(first, rest, _) => match (unequal(first, rest), named_point(first, rest)) {
                (Some(point), _) => Some(Set::Not(Box::new(Set::point(point)))),
                (_, Some(point)) => Some(Set::point(point)),
                _ => match in_reals(first, rest) {
                    Some(set) => Set::read(set, budget)?,
                    None => match described(first, rest, budget) {
                        Some((_, parts)) => Set::read(&Node::Union(parts), budget)?,
                        None => None,
                    },
                },
            },
            Node::Without(set, rest) => {
                let both = Set::read(set, budget)?.zip(Set::read(rest, budget)?);
                both.map(|(set, rest)| Set::All(vec![set, Set::Not(Box::new(rest))]))
            }
            _ => None,
        })
    }

    fn ends(&self) -> Vec<&Node> {
        match self {
            Set::Interval(low, high, _) => vec![low, high],
            Set::Any(sets) | Set::All(sets) | Set::Listed(sets) => sets.iter().flat_map(Set::ends).collect(),
            Set::Not(set) => set.ends(),
        }
    }

    /// The cells that belong to the set: those of odd numbers are ends. Errors for a list that has two readings.
    fn cells(&self, ends: &Ends) -> Result<Vec<bool>, Reason> {
        let count = 2 * ends.len() + 1;
        let inside = 2..count - 2;
        let joined = |sets: &[Set], all: bool| {
            let cells = sets.iter().map(|set| set.cells(ends)).collect::<Result<Vec<_>, _>>()?;
            let cell = |at: usize| {
                if all { cells.iter().all(|set| set[at]) } else { cells.iter().any(|set| set[at]) }
            };
            Ok((0..count).map(cell).collect::<Vec<bool>>())
        };
        match self {
            Set::Interval(low, high, closed) => {
                let place = |end| 2 * ends.iter().position(|known| known.contains(end)).unwrap_or(0) + 1;
                let (low, high) = (place(low), place(high));
                // Ends in the wrong order are those of no other interval.
                let turned = |at| high < low && (at == low || at == high);
                let within = |at: usize| {
                    at > low && at < high || at == low && closed[0] || at == high && closed[1] || turned(at)
                };
                Ok((0..count).map(within).collect())
            }
            Set::Any(sets) => joined(sets, false),
            Set::All(sets) => joined(sets, true),
            Set::Not(set) => {
                let cells = set.cells(ends)?;
                Ok((0..count).map(|at| inside.contains(&at) && !cells[at]).collect())
            }
            // They hold together if that leaves some of the line and their union is all; else they are alternatives.
            Set::Listed(sets) => {
                let (any, all) = (joined(sets, false)?, joined(sets, true)?);
                match (all.contains(&true), any[inside].contains(&false)) {
                    (false, _) => Ok(any),
                    (true, false) => Ok(all),
                    (true, true) => Err(Reason::Undecided(
                        "inequalities joined by a comma: together, or one of them".into(),
                    )),
                }
            }
        }
    }
}
