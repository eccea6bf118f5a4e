//! Comparison of two expressions by value: exactly if that is simple, then at random points of finite fields, then to
//! many digits.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use super::ball::Ball;
use super::budget::Budget;
use super::exact;
use super::field::{self, Value};
use super::node::{Function, Node, Number, Sign};
use super::numeric::{EvaluationPoint, Symbols, is_complex};
use super::rules::Rule;
use super::verdict::{Reason, undefined};

/// Bits of a first look, which proves most differences: the bound on the error holds at any precision.
const GLANCE: usize = 64;
/// Bits of the evaluation that decides, and of the one that confirms that two constants agree.
const PRECISION: [usize; 2] = [256, 640];
/// Two constants are the same if they differ by at most 2 to this power relative to the larger. This equality is
/// believed, not proved.
const AGREEMENT: i64 = -128;
/// Points at which expressions with symbols must agree; more are tried when some are not in the domain.
const POINTS: usize = 4;
/// Points with symbols of either sign at which expressions with roots are compared, too.
const SIGNED: u64 = 6;
/// Digits from which a decimal is read as a rounded value.
const ROUNDED: u32 = 6;

/// True if two expressions are the same. Errors if that cannot be found out.
pub(super) fn same(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    if applies(a) || applies(b) {
        let (x, y) = unapplied(a, b, budget)?;
        return same(&x, &y, budget);
    }
    let (infinite_a, infinite_b) = (infinity(a), infinity(b));
    if infinite_a.is_some() || infinite_b.is_some() {
        return Ok(infinite_a == infinite_b);
    }
    let (exact_a, exact_b) = (exact::rational(a, budget)?, exact::rational(b, budget)?);
    if let (Some(x), Some(y)) = (&exact_a, &exact_b) {
        return Ok(x == y || spells(a, x, y, budget)? || spells(b, y, x, budget)?);
    }
    let symbols = (a.has_symbols(), b.has_symbols());
    let constant = symbols == (false, false);
    // A decimal is a constant that rounds to it.
    if constant {
        for (decimal, exact, other) in [(a, &exact_a, b), (b, &exact_b, a)] {
            let (Some(value), Some(decimal)) = (exact, decimal_of(decimal)) else { continue };
            if decimal.dots || decimal.significant >= ROUNDED || budget.allows(Rule::WrittenPrecision) {
                return near(&decimal, value, other, budget);
            }
        }
    }
    if let Some(decided) = in_fields(a, b, budget)? {
        return Ok(decided);
    }
    if constant { constants(a, b, budget) } else { functions(a, b, budget) }
}

fn applies(node: &Node) -> bool {
    node.any(&|n| matches!(n, Node::Apply(..)))
}

/// Both with an unknown in place of each application of a function: two are one where the function and its arguments
/// are. A letter before a sum that the other side has as a factor is one: `\frac{h(a+b)}{2}` and `\frac12 (a+b)h`.
fn unapplied(a: &Node, b: &Node, budget: &mut Budget) -> Result<(Node, Node), Reason> {
    let mut known: Vec<Node> = Vec::new();
    let multiplies = |name: &str| {
        !matches!(name, "f" | "g" | "phi" | "sigma" | "zeta") && (a.has_symbol(name) || b.has_symbol(name))
    };
    Ok((replaced(a, &multiplies, &mut known, budget)?, replaced(b, &multiplies, &mut known, budget)?))
}

fn replaced(
    node: &Node,
    multiplies: &impl Fn(&str) -> bool,
    known: &mut Vec<Node>,
    budget: &mut Budget,
) -> Result<Node, Reason> {
    budget.spend(1)?;
    let mut out = node.clone();
    let mut failed = None;
    for part in out.parts_mut() {
        match replaced(part, multiplies, known, budget) {
            Ok(new) => *part = new,
            Err(reason) => failed = Some(reason),
        }
    }
    if let Some(reason) = failed {
        return Err(reason);
    }
    let Node::Apply(name, arguments) = &out else { return Ok(out) };
    if let (true, [one @ Node::Sum(_)]) = (multiplies(name), &arguments[..]) {
        return Ok(Node::Product(vec![(false, Node::Symbol(name.clone())), (false, one.clone())]));
    }
    for (i, other) in known.iter().enumerate() {
        let Node::Apply(f, others) = other else { continue };
        let equal = |(x, y): (&Node, &Node), budget: &mut Budget| {
            x == y || x.is_expression() && y.is_expression() && same(x, y, budget) == Ok(true)
        };
        if f == name
            && others.len() == arguments.len()
            && others.iter().zip(arguments).all(|pair| equal(pair, budget))
        {
            return Ok(Node::Symbol(format!("value {i}")));
        }
    }
    known.push(out);
    Ok(Node::Symbol(format!("value {}", known.len() - 1)))
}

/// The sign of an infinite value.
fn infinity(node: &Node) -> Option<bool> {
    match node {
        Node::Infinity => Some(true),
        Node::Sum(terms) => match &terms[..] {
            [(Sign::Plus, Node::Infinity)] => Some(true),
            [(Sign::Minus, Node::Infinity)] => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// The precision of a written decimal.
struct Decimal {
    /// One unit of the last place.
    unit: BigRational,
    significant: u32,
    /// True if dots follow, so that it is cut off and not rounded.
    dots: bool,
}

impl Decimal {
    /// True if it may stand for a value it rounds to; if so the rule counts as used.
    fn rounds(&self, budget: &mut Budget) -> bool {
        self.significant >= ROUNDED && budget.uses(Rule::SixDigits) || budget.uses(Rule::WrittenPrecision)
    }
}

/// True if a decimal of value `own` stands for a constant that is not rational.
fn near(decimal: &Decimal, own: &BigRational, other: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    let p = PRECISION[0];
    let difference = EvaluationPoint::constant(p).value(other, budget)?.minus(&Ball::rational(own, p)?, p)?;
    if decimal.dots {
        let outward = if own.is_negative() { difference.negated() } else { difference };
        let cut = outward.is_negative() == Some(false) && within(&outward, &decimal.unit, p)?;
        return ellipsis(cut, budget);
    }
    Ok(within(&difference.abs(p)?, &(&decimal.unit / BigInt::from(2)), p)? && decimal.rounds(budget))
}

/// True if `x` is at most `bound`.
fn within(x: &Ball, bound: &BigRational, p: usize) -> Result<bool, Reason> {
    Ok(Ball::rational(bound, p)?.minus(x, p)?.is_negative() == Some(false))
}

/// The verdict on a decimal that ends in dots, whose digits fit the other value or do not.
fn ellipsis(fits: bool, budget: &mut Budget) -> Result<bool, Reason> {
    if fits && !budget.uses(Rule::Ellipsis) {
        return Err(Reason::Undecided("a decimal that ends in dots".into()));
    }
    Ok(fits)
}

/// True if `node`, a decimal of value `own`, stands for `value`: one that rounds to it, or whose first digits it gives.
fn spells(node: &Node, own: &BigRational, value: &BigRational, budget: &mut Budget) -> Result<bool, Reason> {
    let Some(decimal) = decimal_of(node) else { return Ok(false) };
    if decimal.dots {
        let outward = if own.is_negative() { own - value } else { value - own };
        return ellipsis(!outward.is_negative() && outward < decimal.unit, budget);
    }
    Ok((own - value).abs() * BigInt::from(2) <= decimal.unit && decimal.rounds(budget))
}

/// True if `about` is `exact` rounded, or cut off, at the last digit written. Errors if the values cannot be found.
pub(super) fn rounded(about: &Node, exact: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    let unit = match (decimal_of(about), about.as_integer()) {
        (Some(decimal), _) => decimal.unit,
        (None, Some(_)) => BigRational::one(),
        _ => return Ok(false),
    };
    if exact.has_symbols() || !exact.is_expression() {
        return Ok(false);
    }
    within(&difference(exact, about, PRECISION[0], budget)?.abs(PRECISION[0])?, &unit, PRECISION[0])
}

/// `a - b` for constants.
fn difference(a: &Node, b: &Node, p: usize, budget: &mut Budget) -> Result<Ball, Reason> {
    let place = EvaluationPoint::constant(p);
    place.value(a, budget)?.minus(&place.value(b, budget)?, p)
}

/// True if `modulus` divides `value`. Errors if a step too many is taken, or the modulus is zero.
pub(super) fn divides(modulus: &Node, value: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    let (Some(value), Some(modulus)) = (exact::rational(value, budget)?, exact::rational(modulus, budget)?)
    else {
        return Ok(false);
    };
    if modulus.is_zero() {
        return undefined("a remainder modulo zero");
    }
    Ok((value / modulus).is_integer())
}

/// A decimal, with its sign, times a power of ten.
fn decimal_of(node: &Node) -> Option<Decimal> {
    let ten = |n: i64| {
        let power = BigRational::from_integer(Pow::pow(BigInt::from(10), n.unsigned_abs().min(4000) as u32));
        if n < 0 { power.recip() } else { power }
    };
    match node {
        Node::Number(Number { places: Some(places), significant, dots, .. }) => {
            Some(Decimal { unit: ten(-places), significant: *significant, dots: *dots })
        }
        Node::Sum(terms) => match &terms[..] {
            [(Sign::Plus | Sign::Minus, term)] => decimal_of(term),
            _ => None,
        },
        Node::Unit(inner, _) => decimal_of(inner),
        Node::Product(factors) => match &factors[..] {
            [(false, first), (false, Node::Power(base, exponent))] if **base == Node::integer(10) => {
                let negative = match &**exponent {
                    Node::Sum(terms) => match &terms[..] {
                        [(Sign::Minus, n)] => Some(-n.as_integer()?),
                        _ => None,
                    },
                    _ => None,
                };
                let exponent = match negative {
                    Some(negative) => negative,
                    None => exponent.as_integer()?.clone(),
                };
                let Decimal { unit, significant, dots } = decimal_of(first)?;
                Some(Decimal { unit: unit * ten(exponent.to_i64()?), significant, dots })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Compares rational functions. `None` for other expressions.
fn in_fields(a: &Node, b: &Node, budget: &mut Budget) -> Result<Option<bool>, Reason> {
    let mut agreed = false;
    for point in field::points() {
        match (point.value(a, budget)?, point.value(b, budget)?) {
            (Value::Other, _) | (_, Value::Other) => return Ok(None),
            (Value::At(x, _), Value::At(y, _)) if x != y => return Ok(Some(false)),
            (Value::At(..), Value::At(..)) => agreed = true,
            // A point at which one is not defined says nothing.
            (Value::Pole, _) | (_, Value::Pole) => {}
        }
    }
    if agreed { Ok(Some(true)) } else { undefined("a division by zero") }
}

fn constants(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    for precision in [GLANCE, PRECISION[0], PRECISION[1]] {
        let place = EvaluationPoint::constant(precision);
        let (x, y) = (place.value(a, budget)?, place.value(b, budget)?);
        let difference = x.minus(&y, precision)?;
        if !difference.may_be_zero() {
            return Ok(false);
        }
        if precision == PRECISION[1] && difference.error > x.size().max(y.size()).max(-400) + AGREEMENT {
            return Err(Reason::TooLarge("the digits lost to cancellation".into()));
        }
    }
    Ok(true)
}

/// Compares two expressions with symbols at fixed points of their common domain.
fn functions(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    let differ = |x: &Ball, y: &Ball, p| Ok::<bool, Reason>(!x.minus(y, p)?.may_be_zero());
    let glance = EvaluationPoint { symbols: domain(&[a, b]), seed: 0, precision: GLANCE };
    if let (Ok(x), Ok(y)) = (glance.value(a, budget), glance.value(b, budget))
        && differ(&x, &y, GLANCE)?
    {
        return Ok(false);
    }
    let differs = |values: &[Ball], p| differ(&values[0], &values[1], p);
    if at_points(&[a, b], budget, differs)? {
        return Ok(false);
    }
    // With a root the sign of a symbol may matter, `\sqrt{x^2}` is not x; with a floor, that it is whole.
    let symbols = match domain(&[a, b]) {
        Symbols::Positive => Symbols::Signed,
        Symbols::ByName => Symbols::Whole,
        Symbols::Signed | Symbols::Complex | Symbols::Whole => return Ok(true),
    };
    for seed in 0..SIGNED {
        let place = EvaluationPoint { symbols, seed, precision: PRECISION[0] };
        if let (true, Ok(x), Ok(y)) = (
            is_real(a, place, budget)? && is_real(b, place, budget)?,
            place.value(a, budget),
            place.value(b, budget),
        ) && differ(&x, &y, place.precision)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True at a point where everything under an even root, a fractional power or a logarithm is positive, and there is a
/// root.
fn is_real(node: &Node, place: EvaluationPoint, budget: &mut Budget) -> Result<bool, Reason> {
    let inside = match node {
        Node::Call(Function::Root, list) if list[1].as_integer().is_none_or(|n| n % 2 == BigInt::from(0)) => {
            Some(&list[0])
        }
        Node::Call(Function::Ln | Function::Log, list) => Some(&list[0]),
        // `x^{2/2}` has a whole exponent.
        Node::Power(base, exponent) if **base != Node::Euler => {
            let whole = exact::rational(exponent, budget)?.is_some_and(|power| power.is_integer());
            (!whole).then_some(&**base)
        }
        _ => None,
    };
    if let Some(inside) = inside.filter(|inside| inside.has_symbols()) {
        let positive = place.value(inside, budget).is_ok_and(|value| value.is_negative() == Some(false));
        if !positive {
            return Ok(false);
        }
    }
    for part in node.children() {
        if !is_real(part, place, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The values of symbols: whole numbers in functions of whole numbers, both signs if a sign matters, complex numbers
/// for the z of `|z|`.
fn domain(nodes: &[&Node]) -> Symbols {
    let any = |list: &[Function]| {
        nodes.iter().any(|n| n.any(&|n| matches!(n, Node::Call(f, _) if list.contains(f))))
    };
    use Function::{Abs, Binomial, Ceil, Factorial, Floor, Gcd, Lcm, Max, Min};
    if any(&[Factorial, Binomial, Gcd, Lcm]) {
        Symbols::Whole
    } else if any(&[Floor, Ceil]) {
        Symbols::ByName
    } else if nodes.iter().any(|n| n.any(&is_modulus)) && !any(&[Max, Min]) {
        Symbols::Complex
    } else if any(&[Abs, Max, Min]) {
        Symbols::Signed
    } else {
        Symbols::Positive
    }
}

/// `|z|`
fn is_modulus(node: &Node) -> bool {
    matches!(node, Node::Call(Function::Abs, _))
        && node.any(&|n| matches!(n, Node::Symbol(name) if is_complex(name)))
}

/// Evaluates `nodes` at points until `found` says yes or enough points have said no.
fn at_points(
    nodes: &[&Node],
    budget: &mut Budget,
    found: impl Fn(&[Ball], usize) -> Result<bool, Reason>,
) -> Result<bool, Reason> {
    let symbols = domain(nodes);
    let wanted = if symbols == Symbols::Positive { POINTS } else { 3 * POINTS };
    let (mut seen, mut last) = (0, None);
    for seed in 0..6 * wanted as u64 {
        let place = EvaluationPoint { symbols, seed, precision: PRECISION[0] };
        let mut values = Vec::with_capacity(nodes.len());
        for node in nodes {
            match place.value(node, budget) {
                Ok(value) => values.push(value),
                Err(reason @ Reason::Undefined(_)) => last = Some(reason),
                Err(other) => return Err(other),
            }
        }
        if values.len() < nodes.len() {
            continue;
        }
        if found(&values, place.precision)? {
            return Ok(true);
        }
        seen += 1;
        if seen == wanted {
            return Ok(false);
        }
    }
    Err(last.unwrap_or_else(|| Reason::Undefined("no value where it was tried".into())))
}

/// True if `a` is a constant times `b`, neither of them zero throughout; with `positive`, a constant above zero.
pub(super) fn proportional(a: &Node, b: &Node, positive: bool, budget: &mut Budget) -> Result<bool, Reason> {
    if applies(a) || applies(b) {
        let (x, y) = unapplied(a, b, budget)?;
        return proportional(&x, &y, positive, budget);
    }
    // The ratio at one point must be the ratio at every other: a(p) b(q) = a(q) b(p), in one field.
    let mut rational = true;
    let mut values: Vec<(field::Point, u64, u64)> = Vec::new();
    for point in field::points().chain(field::points().take(1)) {
        match (point.value(a, budget)?, point.value(b, budget)?) {
            (Value::Other, _) | (_, Value::Other) => {
                rational = false;
                break;
            }
            (Value::At(x, _), Value::At(y, _)) => values.push((point, x, y)),
            _ => {}
        }
    }
    if rational && !positive {
        let zero = |f: &dyn Fn(&(field::Point, u64, u64)) -> u64| values.iter().all(|v| f(v) == 0);
        if zero(&|v| v.1) || zero(&|v| v.2) {
            return Ok(zero(&|v| v.1) && zero(&|v| v.2) && !values.is_empty());
        }
        return Ok(values.iter().all(|(point, x, y)| {
            values
                .iter()
                .filter(|(other, ..)| other.prime == point.prime)
                .all(|(_, u, v)| point.multiply(*x, *v) == point.multiply(*u, *y))
        }));
    }
    let place = |seed| EvaluationPoint { symbols: domain(&[a, b]), seed, precision: PRECISION[0] };
    let (base, p) = (place(1000), PRECISION[0]);
    let (x, y) = (base.value(a, budget)?, base.value(b, budget)?);
    if x.may_be_zero() || y.may_be_zero() {
        return Ok(x.may_be_zero() && y.may_be_zero());
    }
    if positive && x.times(&y, p)?.is_negative() != Some(false) {
        return Ok(false);
    }
    let differ = |values: &[Ball], p: usize| {
        let (left, right) = (values[0].times(&y, p)?, values[1].times(&x, p)?);
        Ok(!left.minus(&right, p)?.may_be_zero())
    };
    at_points(&[a, b], budget, differ).map(|different| !different)
}

/// True if `a < b`. Errors if one of them is not a real constant.
pub(super) fn less(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    match (infinity(a), infinity(b)) {
        (Some(x), Some(y)) => return Ok(!x && y),
        (Some(x), None) => return Ok(!x),
        (None, Some(y)) => return Ok(y),
        (None, None) => {}
    }
    difference(a, b, PRECISION[0], budget)?
        .is_negative()
        .ok_or_else(|| Reason::Undefined("an order of complex numbers".into()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::tests::{budget, read};

    #[test]
    fn as_many_points_are_tried_as_the_symbols_need() {
        for (text, wanted) in [("\\sin x", 4), ("|x|", 12), ("\\lfloor x \\rfloor", 12)] {
            let tried = Cell::new(0);
            let found = at_points(&[&read(text)], &mut budget(), |_, _| {
                tried.set(tried.get() + 1);
                Ok(false)
            });
            assert_eq!((found, tried.get()), (Ok(false), wanted), "{text}");
        }
    }
}
