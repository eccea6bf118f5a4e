//! Inequalities: the symbol they are about, and the intervals they leave for it.

use num_rational::BigRational;
use num_traits::{Signed, Zero};

use super::budget::Budget;
use super::node::{Function, Node, Relation, Sign};
use super::numeric::is_complex;
use super::{exact, scalar};

/// The subject of an inequality, a symbol or another expression with a range such as `|z|` and `f(x)`, and the
/// intervals whose union the inequality leaves for it.
type Described = (Node, Vec<Node>);

/// Ends, and for each true if it belongs to the interval.
struct Bounds {
    low: Option<(Node, bool)>,
    high: Option<(Node, bool)>,
}

impl Bounds {
    /// The bounds that `subject relation bound` states.
    fn stated(relation: Relation, bound: Node) -> Option<Bounds> {
        let inside = matches!(relation, Relation::LessOrEqual | Relation::GreaterOrEqual);
        let bound = Some((bound, inside));
        match relation {
            Relation::Less | Relation::LessOrEqual => Some(Bounds { low: None, high: bound }),
            Relation::Greater | Relation::GreaterOrEqual => Some(Bounds { low: bound, high: None }),
            _ => None,
        }
    }

    fn interval(self) -> Node {
        let (low, low_in) = self.low.unwrap_or((Node::minus_infinity(), false));
        let (high, high_in) = self.high.unwrap_or((Node::Infinity, false));
        Node::interval(low, high, (low_in, high_in))
    }

    /// The bounds of x, given those of `slope x + shift`.
    fn solved(self, slope: &BigRational, shift: &BigRational) -> Bounds {
        let solved = |(bound, inside): (Node, bool)| {
            let moved = bound.minus(&Node::exact(shift.clone()));
            (moved.over(Node::exact(slope.clone())), inside)
        };
        let (low, high) = (self.low.map(solved), self.high.map(solved));
        if slope.is_negative() { Bounds { low: high, high: low } } else { Bounds { low, high } }
    }
}

/// The middle of a chain of inequalities and its bounds, without symbols.
fn bounded(first: &Node, rest: &[(Relation, Node)]) -> Option<(Node, Bounds)> {
    match rest {
        [(relation, right)] => match (first.has_symbols(), right.has_symbols()) {
            (true, false) => Some((first.clone(), Bounds::stated(*relation, right.clone())?)),
            (false, true) => Some((right.clone(), Bounds::stated(relation.turned(), first.clone())?)),
            (true, true) => Some((first.minus(right), Bounds::stated(*relation, Node::integer(0))?)),
            (false, false) => None,
        },
        [(r, middle), (s, last)] if middle.has_symbols() && !first.has_symbols() && !last.has_symbols() => {
            let (one, other) =
                (Bounds::stated(r.turned(), first.clone())?, Bounds::stated(*s, last.clone())?);
            let bounds = Bounds { low: one.low.or(other.low), high: one.high.or(other.high) };
            // `1 < x > 2` bounds one side twice.
            (bounds.low.is_some() && bounds.high.is_some()).then(|| (middle.clone(), bounds))
        }
        _ => None,
    }
}

/// The symbol, slope and shift of a linear expression in one symbol.
fn linear(node: &Node, budget: &mut Budget) -> Option<(String, BigRational, BigRational)> {
    // An absolute value may be straight at all the points tried.
    if !node.is_expression() || node.any(&|n| matches!(n, Node::Call(Function::Abs, _))) {
        return None;
    }
    let symbols = node.symbols();
    let [name] = &symbols[..] else { return None };
    let mut at = |n: i64| exact::rational(&node.with(name, &Node::integer(n)), budget).ok().flatten();
    let (zero, one, two, far) = (at(0)?, at(1)?, at(2)?, at(-7)?);
    let slope = &one - &zero;
    let straight = &two - &one == slope && &zero - &far == &slope * BigRational::from_integer(7.into());
    (straight && !slope.is_zero()).then(|| (name.clone(), slope, zero))
}

/// True for an expression that is spoken of by its range.
fn has_range(node: &Node) -> bool {
    match node {
        Node::Call(Function::Abs, _) | Node::Apply(..) => true,
        Node::Product(factors) => {
            factors.len() == 2 && factors.iter().all(|(divides, n)| !divides && matches!(n, Node::Symbol(_)))
        }
        _ => false,
    }
}

pub(super) fn described(first: &Node, rest: &[(Relation, Node)], budget: &mut Budget) -> Option<Described> {
    let (subject, bounds) = bounded(first, rest)?;
    if matches!(subject, Node::Symbol(_)) {
        return Some((subject, vec![bounds.interval()]));
    }
    if let Some((name, slope, shift)) = linear(&subject, budget) {
        return Some((Node::Symbol(name), vec![bounds.solved(&slope, &shift).interval()]));
    }
    // A modulus of a complex number stays one.
    if let Node::Call(Function::Abs, inner) = &subject
        && let Some((name, slope, shift)) = linear(&inner[0], budget).filter(|(name, ..)| !is_complex(name))
    {
        return Some((Node::Symbol(name), of_absolute(bounds, &slope, &shift, budget)));
    }
    has_range(&subject).then(|| (subject, vec![bounds.interval()]))
}

/// The intervals of x where `|slope x + shift|` has these bounds.
fn of_absolute(bounds: Bounds, slope: &BigRational, shift: &BigRational, budget: &mut Budget) -> Vec<Node> {
    let negated = |(bound, inside): &(Node, bool)| (Node::Sum(vec![(Sign::Minus, bound.clone())]), *inside);
    let all = match bounds {
        Bounds { low: Some(near), high: Some(far) }
            if scalar::less(&near.0, &Node::integer(0), budget) == Ok(false) =>
        {
            let below = Bounds { low: Some(negated(&far)), high: Some(negated(&near)) };
            vec![below, Bounds { low: Some(near), high: Some(far) }]
        }
        Bounds { high: Some(end), .. } => vec![Bounds { low: Some(negated(&end)), high: Some(end) }],
        Bounds { low: Some(end), .. } => {
            vec![Bounds { low: None, high: Some(negated(&end)) }, Bounds { low: Some(end), high: None }]
        }
        none => vec![none],
    };
    all.into_iter().map(|b| b.solved(slope, shift).interval()).collect()
}

/// The symbol or expression that an inequality, or a list of them, is about.
pub(super) fn subject(node: &Node, budget: &mut Budget) -> Option<Node> {
    match node {
        Node::Chain(first, rest, _) => match unequal(first, rest) {
            Some(_) => Some((**first).clone()),
            None => described(first, rest, budget).map(|(subject, _)| subject),
        },
        Node::List(items) | Node::All(items) => {
            // One inequality makes points and memberships next to it parts of a set.
            let names = |relation| matches!(relation, Relation::Equal | Relation::In);
            let is_set = items.iter().any(|n| matches!(n, Node::Chain(_, rest, _) if !names(rest[0].0)));
            let mut subjects = items.iter().map(|item| {
                let Node::Chain(first, rest, _) = item else { return None };
                let plain = || named_point(first, rest).or(in_reals(first, rest)).map(|_| (**first).clone());
                subject(item, budget).or_else(plain)
            });
            let first = subjects.next()?;
            first.filter(|first| subjects.all(|other| other.as_ref() == Some(first)) && is_set)
        }
        _ => None,
    }
}

/// True if a node describes a set of reals in a way that a pair in brackets alone does not.
pub(super) fn is_described(node: &Node, budget: &mut Budget) -> bool {
    match node {
        Node::Union(_) | Node::Without(..) => true,
        Node::All(items) => {
            items.iter().all(|i| matches!(i, Node::Chain(..) | Node::Group(..) | Node::Union(_)))
        }
        Node::Chain(..) | Node::List(_) => subject(node, budget).is_some(),
        _ => false,
    }
}

/// The right side of a relation of one symbol.
fn side<'a>(first: &Node, rest: &'a [(Relation, Node)], relation: Relation) -> Option<&'a Node> {
    let [(own, side)] = rest else { return None };
    (matches!(first, Node::Symbol(_)) && *own == relation).then_some(side)
}

/// `x != a` for one symbol.
pub(super) fn unequal<'a>(first: &Node, rest: &'a [(Relation, Node)]) -> Option<&'a Node> {
    side(first, rest, Relation::Unequal).filter(|bound| !bound.has_symbols())
}

/// `x = 5` among inequalities.
pub(super) fn named_point<'a>(first: &Node, rest: &'a [(Relation, Node)]) -> Option<&'a Node> {
    side(first, rest, Relation::Equal).filter(|value| value.is_expression() && !value.has_symbols())
}

/// `x \in (0, 1)` among inequalities.
pub(super) fn in_reals<'a>(first: &Node, rest: &'a [(Relation, Node)]) -> Option<&'a Node> {
    side(first, rest, Relation::In).filter(|set| matches!(set, Node::Group(..) | Node::Union(_)))
}
