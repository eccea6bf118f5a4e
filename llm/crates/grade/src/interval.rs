//! Sets of real numbers: intervals, points, their unions and differences, and the inequalities that describe them.

use num_rational::BigRational;
use num_traits::{Signed, Zero};

use super::budget::Budget;
use super::exact;
use super::node::{Function, Node, Relation, Sign};
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

/// The set that an inequality leaves for what it is about.
struct Described {
    /// A symbol, or what else has a range: `|z|`, `f(x)`.
    subject: Node,
    /// Intervals, of which the set is the union.
    parts: Vec<Node>,
}

/// Ends, and whether each belongs to the interval.
struct Bounds {
    low: Option<(Node, bool)>,
    high: Option<(Node, bool)>,
}

impl Bounds {
    /// `subject r bound`.
    fn of(relation: Relation, bound: Node) -> Option<Bounds> {
        Some(match relation {
            Relation::Less => Bounds { low: None, high: Some((bound, false)) },
            Relation::LessOrEqual => Bounds { low: None, high: Some((bound, true)) },
            Relation::Greater => Bounds { low: Some((bound, false)), high: None },
            Relation::GreaterOrEqual => Bounds { low: Some((bound, true)), high: None },
            _ => return None,
        })
    }

    fn interval(self) -> Node {
        let (low, low_in) = self.low.unwrap_or((Node::minus_infinity(), false));
        let (high, high_in) = self.high.unwrap_or((Node::Infinity, false));
        Node::interval(low, high, (low_in, high_in))
    }

    /// The bounds of x, where these are those of `slope x + shift`.
    fn solved(self, slope: &BigRational, shift: &BigRational) -> Bounds {
        let one = |(bound, inside): (Node, bool)| {
            let moved = bound.minus(&Node::exact(shift.clone()));
            (Node::Product(vec![(false, moved), (true, Node::exact(slope.clone()))]), inside)
        };
        let (low, high) = (self.low.map(one), self.high.map(one));
        if slope.is_negative() { Bounds { low: high, high: low } } else { Bounds { low, high } }
    }
}

/// The middle of a chain of inequalities and its bounds, without symbols.
fn bounded(first: &Node, rest: &[(Relation, Node)]) -> Option<(Node, Bounds)> {
    match rest {
        [(relation, right)] => match (first.has_symbols(), right.has_symbols()) {
            (true, false) => Some((first.clone(), Bounds::of(*relation, right.clone())?)),
            (false, true) => Some((right.clone(), Bounds::of(relation.turned(), first.clone())?)),
            (true, true) if first.is_expression() && right.is_expression() => {
                Some((first.minus(right), Bounds::of(*relation, Node::integer(0))?))
            }
            _ => None,
        },
        [(r, middle), (s, last)] if middle.has_symbols() && !first.has_symbols() && !last.has_symbols() => {
            let (one, other) = (Bounds::of(r.turned(), first.clone())?, Bounds::of(*s, last.clone())?);
            let bounds = Bounds { low: one.low.or(other.low), high: one.high.or(other.high) };
            // `1 < x > 2` bounds one side twice.
            (bounds.low.is_some() && bounds.high.is_some()).then(|| (middle.clone(), bounds))
        }
        _ => None,
    }
}

/// Slope and shift of what is linear in its one symbol.
fn linear(node: &Node, budget: &mut Budget) -> Option<(String, BigRational, BigRational)> {
    if !node.is_expression() {
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

/// Whether something that is no symbol is spoken of by its range.
fn has_range(node: &Node) -> bool {
    match node {
        Node::Call(Function::Abs, _) => true,
        Node::Product(factors) => {
            factors.len() == 2 && factors.iter().all(|(divides, n)| !divides && matches!(n, Node::Symbol(_)))
        }
        _ => false,
    }
}

fn described(first: &Node, rest: &[(Relation, Node)], budget: &mut Budget) -> Option<Described> {
    let (subject, bounds) = bounded(first, rest)?;
    if matches!(subject, Node::Symbol(_)) {
        return Some(Described { subject, parts: vec![bounds.interval()] });
    }
    if let Some((name, slope, shift)) = linear(&subject, budget) {
        let parts = vec![bounds.solved(&slope, &shift).interval()];
        return Some(Described { subject: Node::Symbol(name), parts });
    }
    if let (Node::Call(Function::Abs, inner), [_]) = (&subject, rest)
        && let Some((name, slope, shift)) = linear(&inner[0], budget)
    {
        return Some(Described { subject: Node::Symbol(name), parts: of_absolute(bounds, &slope, &shift) });
    }
    has_range(&subject).then(|| Described { subject, parts: vec![bounds.interval()] })
}

/// The intervals of x where `|slope x + shift|` has one bound.
fn of_absolute(bounds: Bounds, slope: &BigRational, shift: &BigRational) -> Vec<Node> {
    let negative = |bound: &Node| Node::Sum(vec![(Sign::Minus, bound.clone())]);
    let all = match bounds {
        Bounds { high: Some((bound, inside)), .. } => {
            vec![Bounds { low: Some((negative(&bound), inside)), high: Some((bound, inside)) }]
        }
        Bounds { low: Some((bound, inside)), .. } => vec![
            Bounds { low: None, high: Some((negative(&bound), inside)) },
            Bounds { low: Some((bound, inside)), high: None },
        ],
        none => vec![none],
    };
    all.into_iter().map(|b| b.solved(slope, shift).interval()).collect()
}

/// What an inequality, or a list of them, is about.
pub(super) fn subject(node: &Node, budget: &mut Budget) -> Option<Node> {
    match node {
        Node::Chain(first, rest, _) => match unequal(first, rest) {
            Some(_) => Some((**first).clone()),
            None => described(first, rest, budget).map(|d| d.subject),
        },
        Node::List(items) | Node::All(items) => {
            // One inequality makes points and memberships beside it parts of a set.
            let mut found = None;
            for item in items {
                let Node::Chain(first, rest, _) = item else { return None };
                let about = subject(item, budget);
                let own = match about {
                    None if named_point(first, rest).is_some() || in_reals(first, rest).is_some() => {
                        (**first).clone()
                    }
                    other => other?,
                };
                if found.as_ref().is_some_and(|(known, _)| *known != own) {
                    return None;
                }
                let is_set = found.is_some_and(|(_, is_set)| is_set)
                    || !matches!(rest[0].0, Relation::Equal | Relation::In);
                found = Some((own, is_set));
            }
            found.filter(|(_, is_set)| *is_set).map(|(own, _)| own)
        }
        _ => None,
    }
}

/// Whether a node describes a set of reals in a way that a pair in brackets alone does not.
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
        match collect(node, budget)? {
            Some(parts) => Ok(Some(Reals(merged(parts, budget)?))),
            None => Ok(None),
        }
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

type Intervals = Option<Vec<Interval>>;

/// The intervals of a node; nothing where it is no set of reals.
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
            let point = |p: &Node| Interval { low: p.clone(), high: p.clone(), ends: (true, true) };
            Ok(points.iter().all(plain).then(|| points.iter().map(point).collect()))
        }
        Node::Union(sets) => all_of(sets, budget),
        Node::All(sets) => common(sets, budget),
        Node::List(items) if subject(node, budget).is_some() => listed(items, budget),
        Node::Chain(first, rest, _) => match unequal(first, rest) {
            Some(point) => {
                let point = Interval { low: point.clone(), high: point.clone(), ends: (true, true) };
                complement(vec![point], budget).map(Some)
            }
            None if named_point(first, rest).is_some() => collect_point(named_point(first, rest)),
            None => match in_reals(first, rest) {
                Some(set) => collect(set, budget),
                None => described_set(first, rest, budget),
            },
        },
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

fn described_set(first: &Node, rest: &[(Relation, Node)], budget: &mut Budget) -> Result<Intervals, Reason> {
    match described(first, rest, budget) {
        Some(set) => all_of(&set.parts, budget),
        None => Ok(None),
    }
}

fn collect_point(point: Option<&Node>) -> Result<Intervals, Reason> {
    Ok(point.map(|p| vec![Interval { low: p.clone(), high: p.clone(), ends: (true, true) }]))
}

/// `x = 5` among inequalities.
fn named_point<'a>(first: &Node, rest: &'a [(Relation, Node)]) -> Option<&'a Node> {
    match (first, rest) {
        (Node::Symbol(_), [(Relation::Equal, value)]) if value.is_expression() && !value.has_symbols() => {
            Some(value)
        }
        _ => None,
    }
}

/// `x \in (0, 1)` among inequalities.
fn in_reals<'a>(first: &Node, rest: &'a [(Relation, Node)]) -> Option<&'a Node> {
    match (first, rest) {
        (Node::Symbol(_), [(Relation::In, set @ (Node::Group(..) | Node::Union(_)))]) => Some(set),
        _ => None,
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

/// The common part.
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

/// What two intervals have in common.
fn overlap(a: &Interval, b: &Interval, budget: &mut Budget) -> Result<Option<Interval>, Reason> {
    let (low, low_in) = if scalar::same(&a.low, &b.low, budget)? {
        (&a.low, a.ends.0 && b.ends.0)
    } else if scalar::less(&a.low, &b.low, budget)? {
        (&b.low, b.ends.0)
    } else {
        (&a.low, a.ends.0)
    };
    let (high, high_in) = if scalar::same(&a.high, &b.high, budget)? {
        (&a.high, a.ends.1 && b.ends.1)
    } else if scalar::less(&a.high, &b.high, budget)? {
        (&a.high, a.ends.1)
    } else {
        (&b.high, b.ends.1)
    };
    let touching = scalar::same(low, high, budget)?;
    let some = if touching { low_in && high_in } else { scalar::less(low, high, budget)? };
    Ok(some.then(|| Interval { low: low.clone(), high: high.clone(), ends: (low_in, high_in) }))
}

/// Inequalities with commas between them hold together where that leaves a part of the line and their union is all of it;
/// else they are alternatives.
///
/// # Errors
/// When both readings leave a part of the line.
fn listed(items: &[Node], budget: &mut Budget) -> Result<Intervals, Reason> {
    let holes = |n: &Node| matches!(n, Node::Chain(first, rest, _) if unequal(first, rest).is_some() || in_reals(first, rest).is_some());
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
        let gap = if part.ends.0 { scalar::less(&low, &part.low, budget)? } else { true };
        if gap && part.low != Node::minus_infinity() {
            out.push(Interval { low, high: part.low, ends: (low_in, !part.ends.0) });
        }
        (low, low_in) = (part.high, !part.ends.1);
    }
    if low != Node::Infinity {
        out.push(Interval { low, high: Node::Infinity, ends: (low_in, false) });
    }
    Ok(out)
}

/// What two sets have in common.
fn both(a: &[Interval], b: &[Interval], budget: &mut Budget) -> Result<Vec<Interval>, Reason> {
    let mut out = Vec::new();
    for x in a {
        for y in b {
            out.extend(overlap(x, y, budget)?);
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
