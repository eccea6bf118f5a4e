//! Comparison of two answers: structures part by part, expressions by value.

mod collections;
pub(super) mod names;
mod relations;
mod solutions;
#[cfg(test)]
mod tests;

use super::budget::Budget;
use super::inequality::{is_described, subject};
use super::kind::Kind;
use super::node::{Clock, Node, Relation};
use super::rules::Rule;
use super::units::{Unit, is_percent, measure};
use super::verdict::Reason;
use super::words::Logic;
use super::{interval, scalar, words};

/// True if two answers are the same. Errors if that cannot be found out. `budget` notes the rules that this took.
///
/// Answers of two kinds are the same only by a rule that works on both, or by arithmetic if both are values.
pub(super) fn same(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    // Letters that are units next to a value with one: `5m` and `5\text{ m}`.
    if let (Node::Unit(_, Unit::Measure(_)), other) | (other, Node::Unit(_, Unit::Measure(_))) = (a, b)
        && let Some(unit) = names::unit_in_letters(other)
    {
        return if std::ptr::eq(other, a) { same(&unit, b, budget) } else { same(a, &unit, budget) };
    }
    let (before, outer) = (budget.used, budget.kinds);
    let kinds = (Kind::read(a), Kind::read(b));
    budget.kinds = Some(kinds);
    let found = decide(a, b, budget);
    budget.kinds = outer;
    let one = kinds.0 == kinds.1
        || kinds.0.is_value() && kinds.1.is_value()
        || budget.used.iter().any(|rule| rule.works_on(kinds.0, kinds.1));
    let found = if one { found } else { found.map(|_| false) };
    if found != Ok(true) {
        budget.used = before;
    }
    found
}

fn decide(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    budget.spend(1)?;
    if a == b {
        return Ok(true);
    }
    if let Some(decided) = sets(a, b, budget)? {
        return Ok(decided);
    }
    if let Some(decided) = in_their_order(a, b, budget)? {
        return Ok(decided);
    }
    match (a, b) {
        (Node::Words(x), Node::Words(y)) => {
            let none = words::says_none(x) && words::says_none(y);
            // `5 March` and `March 5`
            let days = |text: &str| {
                let mut words: Vec<&str> = text.split(' ').collect();
                words.sort_unstable();
                words.join(" ")
            };
            let named = |text: &str| words::is_date(text) && text.contains(char::is_alphabetic);
            let date = named(x) && named(y) && days(x) == days(y);
            Ok((none || x == y || date) && budget.uses(Rule::Words))
        }
        (Node::Words(text), other) | (other, Node::Words(text)) => named(text, other, budget),
        (Node::Unit(..), _) | (_, Node::Unit(..)) => units(a, b, budget),
        (Node::Chain(..), _) | (_, Node::Chain(..)) => relations::same(a, b, budget),
        (Node::Degrees(_) | Node::Percent(_), _) | (_, Node::Degrees(_) | Node::Percent(_)) => {
            marked(a, b, budget)
        }
        (Node::Numeral(x, _), Node::Numeral(y, _)) => Ok(x == y),
        (Node::Numeral(value, base), other) | (other, Node::Numeral(value, base)) => {
            let spelled = other.as_integer().is_some_and(|n| n.to_string() == value.to_str_radix(*base));
            Ok(spelled && matches!(a, Node::Numeral(..)) && budget.uses(Rule::BaseDropped))
        }
        (Node::Time(x), Node::Time(y)) => Ok(clocks(*x, *y, budget)),
        (Node::Ratio(_) | Node::Time(_), _) | (_, Node::Ratio(_) | Node::Time(_)) => ratios(a, b, budget),
        (Node::Modular(x, m), Node::Modular(y, n)) => {
            Ok(same(m, n, budget)? && scalar::divides(m, &x.minus(y), budget)?)
        }
        (Node::Modular(x, _), y) | (y, Node::Modular(x, _)) => {
            Ok(same(x, y, budget)? && budget.uses(Rule::UnitDropped))
        }
        _ => structures(a, b, budget),
    }
}

/// Compares matrices, points, lists and expressions.
fn structures(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    match (a, b) {
        (Node::Matrix(x), Node::Matrix(y)) => {
            let shape = |m: &[Vec<Node>]| (m.len(), m[0].len());
            Ok(shape(x) == shape(y) && collections::in_order(&x.concat(), &y.concat(), budget)?)
        }
        (Node::Cases(x), Node::Cases(y)) => {
            let row = |row: &Vec<Node>| Node::Group('c', row.clone(), 'c');
            let [x, y] = [x, y].map(|rows| rows.iter().map(row).collect::<Vec<_>>());
            collections::matched(&x, &y, false, budget)
        }
        // A vector as a column, as a row or as a point.
        (Node::Matrix(rows), Node::Group('(', items, ')'))
        | (Node::Group('(', items, ')'), Node::Matrix(rows)) => {
            let line = rows.len() == 1 || rows[0].len() == 1;
            Ok(line && collections::in_order(&rows.concat(), items, budget)? && budget.uses(Rule::Vector))
        }
        (vector, other @ (Node::Matrix(_) | Node::Group('(', ..)))
        | (other @ (Node::Matrix(_) | Node::Group('(', ..)), vector)
            if vector.has_symbol("vec i") || vector.has_symbol("vec j") =>
        {
            let Some(parts) = names::components(vector, other, budget)? else { return Ok(false) };
            Ok(same(&parts, other, budget)? && budget.uses(Rule::Vector))
        }
        (Node::Group(o, x, c), Node::Group(p, y, d)) => {
            if x.len() != y.len() || (x.len() == 2 && (o, c) != (p, d)) {
                return Ok(false);
            }
            collections::in_order(x, y, budget)
        }
        (Node::Union(x), Node::Union(y)) | (Node::All(x), Node::All(y)) => {
            collections::matched(x, y, false, budget)
        }
        _ if collections::is_collection(a) || collections::is_collection(b) => {
            collections::same(a, b, budget)
        }
        (point @ Node::Group('(', ..), named @ Node::Product(_))
        | (named @ Node::Product(_), point @ Node::Group('(', ..)) => match crate::kind::named_point(named) {
            Some((_, inner)) if budget.uses(Rule::PointName) => same(inner, point, budget),
            _ => Ok(false),
        },
        _ => match (crate::kind::named_point(a), crate::kind::named_point(b)) {
            (Some((m, x)), Some((n, y))) => Ok(m == n && same(x, y, budget)?),
            _ if a.is_expression() && b.is_expression() => {
                let (x, y) = (names::combinations(a), names::combinations(b));
                scalar::same(x.as_ref().unwrap_or(a), y.as_ref().unwrap_or(b), budget)
            }
            _ if matches!((a, b), (Node::Dots, _) | (_, Node::Dots)) => {
                Err(Reason::Undecided("dots that stand for what is not written".into()))
            }
            _ => Ok(false),
        },
    }
}

/// Compares a text with an answer that is none.
fn named(text: &str, other: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    if words::says_none(text) {
        return Ok(matches!(other, Node::Set(items) if items.is_empty()) && budget.uses(Rule::NoSolution));
    }
    if words::says_infinity(text) {
        return Ok(*other == Node::Infinity && budget.uses(Rule::NumberWords));
    }
    let number = words::number_word(text).filter(|_| budget.allows(Rule::NumberWords));
    let Some(n) = number else { return Ok(false) };
    Ok(same(&Node::integer(n), other, budget)? && budget.uses(Rule::NumberWords))
}

/// Compares letters and names of figures, which have an order although they read as products. `None` for other answers.
fn in_their_order(a: &Node, b: &Node, budget: &mut Budget) -> Result<Option<bool>, Reason> {
    Ok(match (a, b) {
        (Node::Apply(sign, x), Node::Apply(other, y)) if sign.starts_with('\\') => {
            // An angle and a segment may be named from either end.
            let turns = x.len() > 1
                && (matches!(sign.as_str(), "\\angle" | "\\measure") || is_segment(sign, x))
                && x.iter().eq(y.iter().rev());
            Some(sign == other && (turns || collections::in_order(x, y, budget)?))
        }
        (Node::Apply(sign, x), bare) | (bare, Node::Apply(sign, x))
            if sign.starts_with('\\') && sign != "\\times" && (sign != "\\bar" || is_segment(sign, x)) =>
        {
            bare.letters().map(|letters| {
                let named =
                    x.iter().map(|part| if let Node::Symbol(name) = part { name.as_str() } else { "" });
                named.eq(letters) && budget.uses(Rule::SignDropped)
            })
        }
        (Node::Logic(p, x), Node::Logic(q, y)) => {
            let commutes = !matches!(p, Logic::If | Logic::Not);
            let any_order = |budget: &mut Budget| collections::matched(x, y, false, budget);
            Some(p == q && if commutes { any_order(budget)? } else { collections::in_order(x, y, budget)? })
        }
        (Node::Logic(..), _) | (_, Node::Logic(..)) => Some(false),
        _ => a
            .letters()
            .zip(b.letters())
            .map(|(x, y)| x == y || commutes(&x) && commutes(&y) && x.iter().rev().eq(&y)),
    })
}

/// True for a bar over the names of points: over small letters it is a conjugate, or the digits of a number.
fn is_segment(sign: &str, letters: &[Node]) -> bool {
    let point =
        |n: &Node| matches!(n, Node::Symbol(name) if name.starts_with(|c: char| c.is_ascii_uppercase()));
    sign == "\\bar" && letters.iter().all(point)
}

/// True for two small letters that are factors; the letters of a word or a ranking have an order.
fn commutes(letters: &[&str]) -> bool {
    let small = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_lowercase()) && !matches!(*name, "e" | "i" | "o" | "l")
    };
    letters.len() == 2 && letters.iter().all(small) || letters.iter().any(|name| name.starts_with("vec "))
}

/// Compares values of which at least one has words after it.
fn units(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    match (a, b) {
        (Node::Unit(x, u), Node::Unit(y, v)) => {
            // The ending of an ordinal number is no word, but its own.
            if u.is_same(v) || u == v {
                return same(x, y, budget);
            }
            let (Unit::Measure(u), Unit::Measure(v)) = (u, v) else { return Ok(false) };
            let (Some(m), Some(n)) = (measure(u), measure(v)) else { return Ok(false) };
            if m == n {
                return same(x, y, budget);
            }
            if m.dimension != n.dimension || !budget.uses(Rule::UnitConverted) {
                return Ok(false);
            }
            let scaled = |value: &Node, factor| value.clone().times(Node::exact(factor));
            same(&scaled(x, m.factor), &scaled(y, n.factor), budget)
        }
        // What is dropped is dropped on one side only.
        (Node::Unit(x, unit), y) | (y, Node::Unit(x, unit)) if is_marked(y) && !is_sign_of(y, x, unit) => {
            Ok(false)
        }
        (Node::Unit(..), Node::Chain(..)) | (Node::Chain(..), Node::Unit(..)) => {
            relations::same(a, b, budget)
        }
        (Node::Unit(_, unit), _) | (_, Node::Unit(_, unit)) => {
            // Some rules take the first for the reference, so that neither changes its side.
            let [x, y] = [a, b].map(|node| if let Node::Unit(inner, _) = node { inner } else { node });
            let silent = unit.is_silent(false) || unit.is_silent(true) && budget.uses(Rule::AnyNoun);
            Ok(silent && same(x, y, budget)? && budget.uses(Rule::UnitDropped))
        }
        _ => Ok(false),
    }
}

/// True for a value with a sign of its own.
fn is_marked(node: &Node) -> bool {
    matches!(node, Node::Degrees(_) | Node::Percent(_) | Node::Modular(..) | Node::Ratio(_) | Node::Time(_))
}

/// True for a sign that the unit says, too: `5\% \text{ of the cats}` and `5\%`, `5 \text{ degrees}` and `5^\circ`.
fn is_sign_of(sign: &Node, value: &Node, unit: &Unit) -> bool {
    match (sign, unit) {
        (Node::Degrees(_), Unit::Measure(name)) if name.starts_with("degree") => true,
        (Node::Percent(_), Unit::Noun(words)) if is_percent(words) => true,
        _ => std::mem::discriminant(sign) == std::mem::discriminant(value),
    }
}

/// Compares times of day; one without a.m. or p.m. is either.
fn clocks(a: Clock, b: Clock, budget: &mut Budget) -> bool {
    let full = |clock: Clock| match clock.afternoon {
        Some(afternoon) => Some(clock.hour % 12 + if afternoon { 12 } else { 0 }),
        None => (clock.hour > 12 || clock.hour == 0).then_some(clock.hour),
    };
    let seconds = |clock: Clock| (clock.past.0, clock.past.1.unwrap_or(0));
    seconds(a) == seconds(b)
        && match (full(a), full(b)) {
            (Some(x), Some(y)) => x == y,
            (None, None) => a.hour == b.hour,
            // Without a.m. and p.m. on both sides 3:45 is not 15:45.
            _ => {
                let half = a.afternoon.or(b.afternoon).is_some();
                half && a.hour % 12 == b.hour % 12 && budget.uses(Rule::UnitDropped)
            }
        }
}

/// Compares two values of which one has degrees or percent.
fn marked(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    match (a, b) {
        (Node::Degrees(x), Node::Degrees(y)) | (Node::Percent(x), Node::Percent(y)) => same(x, y, budget),
        _ if is_marked(a) && is_marked(b) => Ok(false),
        // 90 degrees are written as 90 and are pi/2.
        (turn @ Node::Degrees(x), y) | (y, turn @ Node::Degrees(x)) => {
            let radians = y.any(&|n| *n == Node::Pi) && y.is_expression();
            let equal = if radians { scalar::same(turn, y, budget)? } else { same(x, y, budget)? };
            Ok(equal && budget.uses(Rule::Degrees))
        }
        // 8 % is written as 8 and is 0.08.
        (part @ Node::Percent(x), y) | (y, part @ Node::Percent(x)) => {
            let number = same(x, y, budget)? && budget.uses(Rule::PercentNumber);
            Ok(number
                || y.is_expression() && scalar::same(part, y, budget)? && budget.uses(Rule::PercentValue))
        }
        _ => Ok(false),
    }
}

/// Compares ratios, which are the same if one is a multiple of the other; a ratio of two is also its quotient.
fn ratios(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    if let (Node::Ratio(x), Node::Ratio(y)) = (a, b) {
        // `7:00` is a time of day.
        if x.iter().chain(y).any(|part| *part == Node::integer(0)) {
            return collections::in_order(x, y, budget);
        }
        return x.iter().zip(y).skip(1).try_fold(x.len() == y.len(), |equal, (p, q)| {
            Ok(equal && scalar::same(&x[0].clone().times(q.clone()), &y[0].clone().times(p.clone()), budget)?)
        });
    }
    let (ratio, other) = if matches!(a, Node::Ratio(_) | Node::Time(_)) { (a, b) } else { (b, a) };
    let quotient = match ratio {
        Node::Ratio(parts) if parts.len() == 2 => parts[0].clone().over(parts[1].clone()),
        Node::Time(Clock { hour, past: (minute, None), afternoon: None }) => {
            Node::integer(*hour).over(Node::integer(*minute))
        }
        _ => return Ok(false),
    };
    Ok(budget.uses(Rule::Ratio) && other.is_expression() && scalar::same(&quotient, other, budget)?)
}

/// Compares two sets of reals, of which one is a union, a difference or an inequality. `None` for other answers.
fn sets(a: &Node, b: &Node, budget: &mut Budget) -> Result<Option<bool>, Reason> {
    if !is_described(a, budget) && !is_described(b, budget) {
        return Ok(None);
    }
    if let (Some(x), Some(y)) = (subject(a, budget), subject(b, budget))
        && x != y
    {
        return Ok(Some(false));
    }
    // `(1,2) or (3,4)` next to a union, and `x \in S`.
    let set = |node: &Node, other: &Node| match (node, other) {
        (Node::List(items), Node::Union(_))
            if items.iter().all(|n| matches!(n, Node::Group(_, two, _) if two.len() == 2)) =>
        {
            Some(Node::Union(items.clone()))
        }
        (Node::Chain(_, rest, _), _) => match &rest[..] {
            [(Relation::In, set)] => Some(set.clone()),
            _ => None,
        },
        _ => None,
    };
    let (set_a, set_b) = (set(a, b), set(b, a));
    let (a, b) = (set_a.as_ref().unwrap_or(a), set_b.as_ref().unwrap_or(b));
    Ok(match (interval::same(a, b, budget)?, a, b) {
        (Some(equal), ..) => Some(equal && budget.uses(Rule::Interval)),
        (None, Node::Without(x, y), Node::Without(u, v)) => Some(same(x, u, budget)? && same(y, v, budget)?),
        _ => None,
    })
}
