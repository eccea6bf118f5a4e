//! Comparison of two expressions by value: exactly, or else at random whole numbers, or else to many digits.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use super::ball::Ball;
use super::budget::Budget;
use super::exact;
use super::node::{Function, Node, Number, Sign};
use super::numeric::{EvaluationPoint, Symbols, hash, is_complex};
use super::rules::{Rule, Rules};
use super::verdict::{Reason, undefined};

/// Bits of a first look, which proves most differences: the bound on the error holds at any precision.
const GLANCE: usize = 64;
/// Bits of the evaluation that decides, and of the one that confirms that two constants agree.
const PRECISION: [usize; 2] = [256, 640];
/// Two values are the same if they differ by at most 2 to this power, for values below 1 relative to the larger. This
/// equality is believed, not proved.
const AGREEMENT: i64 = -128;
/// Most bits before the point of values that are compared.
const LARGEST: i64 = 1 << 13;
/// Whole numbers at which rational functions are compared, and the bits of the values of their symbols: if the values of
/// the functions are too large, small ones can still tell them apart. Two functions of a degree of at most 500 that
/// differ agree at one point with a probability below 500 / 2^31 (Schwartz and Zippel).
const WHOLE: u64 = 4;
const BITS: [u32; 2] = [31, 3];
/// Points at which expressions with symbols must agree; more are tried when some are not in the domain.
const POINTS: usize = 4;
/// Points with symbols of either sign at which expressions with roots are compared, too.
const SIGNED: u64 = 6;
/// Digits from which a decimal is read as a rounded value.
const ROUNDED: u32 = 6;

/// True if two expressions are the same. Errors if that cannot be found out.
pub(super) fn same(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    if let Some((x, y)) = unapplied(a, b, budget)? {
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
    let constant = !a.has_symbols() && !b.has_symbols();
    // A decimal is a constant that rounds to it.
    if constant {
        for (decimal, exact, other) in [(a, &exact_a, b), (b, &exact_b, a)] {
            let (Some(value), Some(decimal)) = (exact, decimal_of(decimal)) else { continue };
            if decimal.dots || decimal.significant >= ROUNDED || budget.allows(Rule::WrittenPrecision) {
                return near(&decimal, value, other, budget);
            }
        }
    }
    for bits in BITS {
        let Some(values) = at_whole_numbers(a, b, bits, budget)? else { continue };
        let equal = values.iter().all(|(x, y)| x == y);
        if !equal || bits == BITS[0] {
            return Ok(equal);
        }
    }
    if constant { constants(a, b, budget) } else { functions(a, b, budget) }
}

/// Both with an unknown in place of each application of a function: two are one where the function and its arguments
/// are. A letter before a sum that the other side has as a factor is one: `\frac{h(a+b)}{2}` and `\frac12 (a+b)h`.
/// `None` if nothing is applied.
fn unapplied(a: &Node, b: &Node, budget: &mut Budget) -> Result<Option<(Node, Node)>, Reason> {
    if ![a, b].iter().any(|node| node.any(&|n| matches!(n, Node::Apply(..)))) {
        return Ok(None);
    }
    let mut known = Vec::new();
    let multiplies = |name: &str| {
        !matches!(name, "f" | "g" | "phi" | "sigma" | "zeta") && (a.has_symbol(name) || b.has_symbol(name))
    };
    let mut plain = |node| replaced(node, &multiplies, &mut known, budget);
    Ok(Some((plain(a)?, plain(b)?)))
}

fn replaced(
    node: &Node,
    multiplies: &impl Fn(&str) -> bool,
    known: &mut Vec<(String, Vec<Node>)>,
    budget: &mut Budget,
) -> Result<Node, Reason> {
    budget.spend(1)?;
    let mut out = node.clone();
    for part in out.parts_mut() {
        *part = replaced(part, multiplies, known, budget)?;
    }
    let Node::Apply(name, arguments) = out else { return Ok(out) };
    if let (true, [one @ Node::Sum(_)]) = (multiplies(&name), &arguments[..]) {
        return Ok(Node::Symbol(name).times(one.clone()));
    }
    let mut equal = |(x, y): (&Node, &Node)| {
        x == y || x.is_expression() && y.is_expression() && same(x, y, budget) == Ok(true)
    };
    let is_known = |(f, others): &(String, Vec<Node>)| {
        *f == name && others.len() == arguments.len() && others.iter().zip(&arguments).all(&mut equal)
    };
    let at = known.iter().position(is_known).unwrap_or(known.len());
    if at == known.len() {
        known.push((name, arguments));
    }
    Ok(Node::Symbol(format!("value {at}")))
}

/// The sign of an infinite value.
fn infinity(node: &Node) -> Option<bool> {
    let positive = *node == Node::Infinity || *node == Node::Sum(vec![(Sign::Plus, Node::Infinity)]);
    (positive || *node == Node::minus_infinity()).then_some(positive)
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
    let whole = || about.as_integer().map(|_| BigRational::one());
    let unit = decimal_of(about).map(|decimal| decimal.unit).or_else(whole);
    let Some(unit) = unit.filter(|_| exact.is_expression() && !exact.has_symbols()) else { return Ok(false) };
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
                let (decimal, exponent) = (decimal_of(first)?, exponent.as_integer()?.to_i64()?);
                Some(Decimal { unit: decimal.unit * ten(exponent), ..decimal })
            }
            _ => None,
        },
        _ => None,
    }
}

type Values = Vec<(BigRational, BigRational)>;

/// The values of two rational functions at whole numbers of so many bits, without those at which one has a pole. `None`
/// for other expressions, and for values that are too large. Errors if each number is a pole.
fn at_whole_numbers(a: &Node, b: &Node, bits: u32, budget: &mut Budget) -> Result<Option<Values>, Reason> {
    let letters = has_letters(a) || has_letters(b);
    if !letters || !is_rational(a, budget)? || !is_rational(b, budget)? {
        return Ok(None);
    }
    // A part of the steps, since there are other ways.
    let part = budget.left / 4;
    let mut spare = Budget::new(Rules::NONE);
    spare.left = part;
    let (mut values, mut pole) = (Vec::new(), None);
    for seed in 1..=WHOLE {
        let mut value = |node: &Node| exact::rational(&with_whole_numbers(node, bits, seed), &mut spare);
        match (value(a), value(b)) {
            (Err(reason @ Reason::Undefined(_)), _) | (_, Err(reason @ Reason::Undefined(_))) => {
                pole = Some(reason);
            }
            (Ok(Some(x)), Ok(Some(y))) => values.push((x, y)),
            _ => {
                budget.spend(part - spare.left)?;
                return Ok(None);
            }
        }
    }
    budget.spend(part - spare.left)?;
    pole.filter(|_| values.is_empty()).map_or(Ok(Some(values)), Err)
}

/// True if symbols, pi and e are joined by arithmetic and whole powers alone.
fn is_rational(node: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    Ok(match node {
        Node::Imaginary => false,
        Node::Call(..) => !has_letters(node),
        Node::Power(base, exponent) => {
            let whole =
                !has_letters(exponent) && exact::rational(exponent, budget)?.is_some_and(|n| n.is_integer());
            whole && is_rational(base, budget)?
        }
        _ => node.children().into_iter().try_fold(true, |all, part| Ok(is_rational(part, budget)? && all))?,
    })
}

/// True if a symbol, pi or e is in it.
fn has_letters(node: &Node) -> bool {
    node.any(&|n| matches!(n, Node::Symbol(_) | Node::Pi | Node::Euler))
}

/// The tree with whole numbers of so many bits in place of symbols, pi and e.
fn with_whole_numbers(node: &Node, bits: u32, seed: u64) -> Node {
    node.clone().edited(&|node| {
        let name = match node {
            Node::Symbol(name) => name,
            Node::Pi => "\\pi",
            Node::Euler => "\\e",
            _ => return,
        };
        *node = Node::integer((hash(name, seed) >> (64 - bits)) + 2);
    })
}

fn constants(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    for precision in [GLANCE, PRECISION[0]] {
        if !difference(a, b, precision, budget)?.may_be_zero() {
            return Ok(false);
        }
    }
    agree(EvaluationPoint::constant(PRECISION[1]), [a, b], -400, budget)
}

/// True if two values agree, for which the digits before the point are looked at, too: `2^{3000}` and `2^{3000} + 1`
/// differ. Of values below `2^least` only so many digits count. Errors if too few digits are left.
fn agree(
    mut place: EvaluationPoint,
    [a, b]: [&Node; 2],
    least: i64,
    budget: &mut Budget,
) -> Result<bool, Reason> {
    let (mut p, wanted) = (place.precision, place.precision);
    loop {
        place.precision = p;
        let (x, y) = (place.value(a, budget)?, place.value(b, budget)?);
        let difference = x.minus(&y, p)?;
        let size = x.size().max(y.size());
        if !difference.may_be_zero() || difference.error <= size.clamp(least, 0) + AGREEMENT {
            return Ok(difference.may_be_zero());
        }
        if p > wanted || !(1..=LARGEST).contains(&size) {
            return Err(Reason::TooLarge("the digits lost to cancellation".into()));
        }
        p += size as usize;
    }
}

/// Compares two expressions with symbols at fixed points of their common domain.
fn functions(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    let glance = EvaluationPoint { symbols: domain(&[a, b]), seed: 0, precision: GLANCE };
    if let (Ok(x), Ok(y)) = (glance.value(a, budget), glance.value(b, budget))
        && !x.minus(&y, GLANCE)?.may_be_zero()
    {
        return Ok(false);
    }
    let differ = |place, budget: &mut Budget| agree(place, [a, b], 0, budget).map(|same| !same);
    if at_points(&[a, b], budget, differ)? {
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
        ) && !x.minus(&y, place.precision)?.may_be_zero()
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
    if let Some(inside) = inside.filter(|inside| inside.has_symbols())
        && !place.value(inside, budget).is_ok_and(|value| value.is_negative() == Some(false))
    {
        return Ok(false);
    }
    node.children().into_iter().try_fold(true, |all, part| Ok(all && is_real(part, place, budget)?))
}

/// The values of symbols: whole in functions of whole numbers, of both signs if a sign matters, complex for z in `|z|`.
fn domain(nodes: &[&Node]) -> Symbols {
    let any = |list: &[Function]| {
        nodes.iter().any(|n| n.any(&|n| matches!(n, Node::Call(f, _) if list.contains(f))))
    };
    use Function::{Abs, Binomial, Ceil, Factorial, Floor, Gcd, Lcm, Max, Min};
    let complex = |n: &Node| matches!(n, Node::Symbol(name) if is_complex(name));
    let is_modulus = |n: &Node| matches!(n, Node::Call(Abs, _)) && n.any(&complex);
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

/// Tries points of the domain of `nodes` until `found` says yes or enough of them have said no.
fn at_points(
    nodes: &[&Node],
    budget: &mut Budget,
    found: impl Fn(EvaluationPoint, &mut Budget) -> Result<bool, Reason>,
) -> Result<bool, Reason> {
    let symbols = domain(nodes);
    let wanted = if symbols == Symbols::Positive { POINTS } else { 3 * POINTS };
    let (mut seen, mut last) = (0, None);
    for seed in 0..6 * wanted as u64 {
        let place = EvaluationPoint { symbols, seed, precision: PRECISION[0] };
        match found(place, budget) {
            Ok(false) => seen += 1,
            Err(reason @ Reason::Undefined(_)) => last = Some(reason),
            decided => return decided,
        }
        if seen == wanted {
            return Ok(false);
        }
    }
    Err(last.unwrap_or_else(|| Reason::Undefined("no value where it was tried".into())))
}

/// True if `a` is a constant times `b`, neither of them zero throughout; with `positive`, a constant above zero.
pub(super) fn proportional(a: &Node, b: &Node, positive: bool, budget: &mut Budget) -> Result<bool, Reason> {
    if let Some((x, y)) = unapplied(a, b, budget)? {
        return proportional(&x, &y, positive, budget);
    }
    // The ratio at one point must be the ratio at every other.
    if !positive && let Some(values) = at_whole_numbers(a, b, BITS[0], budget)? {
        let zero = |value: &BigRational| value.is_zero();
        let (x, y) = &values[0];
        let all_zero = [values.iter().all(|v| zero(&v.0)), values.iter().all(|v| zero(&v.1))];
        let one_ratio = values.iter().all(|(u, v)| x * v == u * y);
        return Ok(if all_zero == [false; 2] { one_ratio } else { all_zero == [true; 2] });
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
    let differ = |place: EvaluationPoint, budget: &mut Budget| {
        let (left, right) = (place.value(a, budget)?.times(&y, p)?, place.value(b, budget)?.times(&x, p)?);
        Ok(!left.minus(&right, p)?.may_be_zero())
    };
    at_points(&[a, b], budget, differ).map(|different| !different)
}

/// True if `a < b`. Errors if one of them is not a real constant.
pub(super) fn less(a: &Node, b: &Node, budget: &mut Budget) -> Result<bool, Reason> {
    match (infinity(a), infinity(b)) {
        (None, None) => difference(a, b, PRECISION[0], budget)?
            .is_negative()
            .ok_or_else(|| Reason::Undefined("an order of complex numbers".into())),
        (x, y) => Ok(x != Some(true) && y != Some(false)),
    }
}
