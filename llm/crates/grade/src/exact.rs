//! Exact values of expressions that are rational numbers.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use super::budget::Budget;
use super::node::{Function, Node, Sign};
use super::verdict::{Reason, undefined};

/// Most bits of a whole number, and of a numerator or denominator.
const WHOLE: u64 = 1 << 17;
const BITS: u64 = 1 << 14;

/// A value. Without a reason there is none, or none of bearable size.
type Exact = Result<BigRational, Option<Reason>>;

/// The rational number that `node` is. `None` if it is none, or none of bearable size.
/// Errors if the budget is spent, or the value is undefined.
pub(super) fn rational(node: &Node, budget: &mut Budget) -> Result<Option<BigRational>, Reason> {
    value(node, budget).map(Some).or_else(|reason| reason.map_or(Ok(None), Err))
}

fn value(node: &Node, budget: &mut Budget) -> Exact {
    budget.spend(1)?;
    match node {
        Node::Number(number) => Ok(number.value.clone()),
        Node::Unit(inner, _) => value(inner, budget),
        Node::Percent(inner) => Ok(value(inner, budget)? / BigInt::from(100)),
        Node::Sum(terms) => terms.iter().try_fold(BigRational::zero(), |sum, (sign, term)| {
            let value = value(term, budget)?;
            let value = match sign {
                Sign::Plus => value,
                Sign::Minus => -value,
                Sign::PlusMinus | Sign::MinusPlus => return Err(None),
            };
            let whole = spend(budget, &sum, &value, false)?;
            bearable(if whole { (sum.numer() + value.numer()).into() } else { sum + value })
        }),
        Node::Product(factors) => {
            factors.iter().try_fold(BigRational::one(), |product, (divides, factor)| {
                let value = value(factor, budget)?;
                let whole = spend(budget, &product, &value, *divides)?;
                bearable(match divides {
                    true if value.is_zero() => undefined("a division by zero")?,
                    true => product / value,
                    false if whole => (product.numer() * value.numer()).into(),
                    false => product * value,
                })
            })
        }
        Node::Power(base, exponent) => {
            let (base, exponent) = (rational(base, budget)?, value(exponent, budget)?);
            power(&base.ok_or(None)?, &exponent, budget)
        }
        Node::Call(function, arguments) => {
            let values: Result<Vec<_>, _> = arguments.iter().map(|part| value(part, budget)).collect();
            apply(*function, &values?, budget)
        }
        _ => Err(None),
    }
}

fn size(value: &BigRational) -> u64 {
    value.numer().bits().max(value.denom().bits())
}

fn bearable(value: BigRational) -> Exact {
    if size(&value) > if value.is_integer() { WHOLE } else { BITS } { Err(None) } else { Ok(value) }
}

/// Takes the cost of one operation, which grows with the square of the length, most of it for the common divisor of a
/// fraction. True if there is none, the numbers being whole and none dividing.
fn spend(budget: &mut Budget, a: &BigRational, b: &BigRational, divides: bool) -> Result<bool, Reason> {
    let words = (size(a) + size(b)) / 64 + 1;
    let whole = !divides && a.is_integer() && b.is_integer();
    budget.spend(words * words / if whole { 64 } else { 2 } + 1)?;
    Ok(whole)
}

/// `base^exponent` if it is rational and not too large.
fn power(base: &BigRational, exponent: &BigRational, budget: &mut Budget) -> Exact {
    if exponent.is_integer() {
        if base.is_zero() && !exponent.is_positive() {
            undefined("zero to a power that is not positive")?;
        }
        if base.is_one() || base.is_zero() {
            return Ok(base.clone());
        }
        let n = exponent.to_integer().to_i64().ok_or(None)?;
        if *base == -BigRational::one() {
            return Ok(if n % 2 == 0 { BigRational::one() } else { base.clone() });
        }
        let bits = n.unsigned_abs().saturating_mul(size(base).max(2) - 1);
        if bits > if base.is_integer() && n > 0 { WHOLE } else { BITS } {
            return Err(None);
        }
        budget.spend((bits / 64).pow(2) / 64 + 1)?;
        let value = Pow::pow(base, n.unsigned_abs() as u32);
        return Ok(if n < 0 { value.recip() } else { value });
    }
    // A root that comes out even: 8^(2/3).
    let (Some(top), Some(order @ ..=64)) = (exponent.numer().to_i64(), exponent.denom().to_u32()) else {
        return Err(None);
    };
    if base.is_negative() || top.unsigned_abs() > 64 {
        return Err(None);
    }
    power(&root(base, order, budget)?, &BigRational::from_integer(top.into()), budget)
}

/// The root of order `order` if it is rational.
fn root(value: &BigRational, order: u32, budget: &mut Budget) -> Exact {
    let words = size(value) / 64 + 1;
    budget.spend(words * words * 8 + 8)?;
    if value.is_negative() && order.is_multiple_of(2) {
        return Err(None);
    }
    let even = |n: &BigInt| {
        let root = n.nth_root(order);
        if Pow::pow(&root, order) == *n { Ok(root) } else { Err(None) }
    };
    Ok(BigRational::new(even(value.numer())?, even(value.denom())?))
}

/// Largest argument of a factorial or a binomial coefficient that is worked out.
const LARGEST: u64 = 1500;

/// A function of rational numbers if its value is rational.
pub(super) fn apply(function: Function, values: &[BigRational], budget: &mut Budget) -> Exact {
    let words: u64 = values.iter().map(|v| size(v) / 64 + 1).sum();
    budget.spend(words * words)?;
    let whole = |v: &BigRational| v.is_integer() && !v.is_negative();
    Ok(match (function, values) {
        (Function::Abs, [v]) => v.abs(),
        (Function::Floor, [v]) => v.floor(),
        (Function::Ceil, [v]) => v.ceil(),
        (Function::Max, list) => list.iter().max().cloned().ok_or(None)?,
        (Function::Min, list) => list.iter().min().cloned().ok_or(None)?,
        (Function::Root, [v, order]) => match order.is_integer().then(|| order.numer().to_u32()).flatten() {
            Some(0) => undefined("a root of order zero")?,
            Some(order @ 1..=64) => root(v, order, budget)?,
            _ => return Err(None),
        },
        (Function::Gcd | Function::Lcm, [first, others @ ..]) => {
            if values.iter().any(|v| !v.is_integer()) {
                undefined("a common divisor of what is not whole")?;
            }
            let mut result = first.numer().abs();
            for n in others.iter().map(|v| v.numer()) {
                budget.spend((result.bits() / 8 + n.bits() / 8 + 1) * words)?;
                result = if function == Function::Gcd { result.gcd(n) } else { result.lcm(n) };
            }
            result.into()
        }
        (Function::Factorial, [v]) if !whole(v) => {
            undefined("the factorial of what is not a natural number")?
        }
        (Function::Factorial, [v]) => {
            let n = small(v, budget)?;
            (1..=n).fold(BigInt::one(), |product, k| product * k).into()
        }
        (Function::Binomial, [n, k]) if !whole(n) || !whole(k) => {
            undefined("a binomial coefficient of what is not natural")?
        }
        (Function::Binomial, [n, k]) if k > n => BigRational::zero(),
        (Function::Binomial, [n, k]) => {
            let (n, k) = (small(n, budget)?, k.numer().to_u64().ok_or(None)?);
            (0..k.min(n - k)).fold(BigInt::one(), |value, i| value * (n - i) / (i + 1)).into()
        }
        (Function::Exp, [v]) if v.is_zero() => BigRational::one(),
        (Function::Ln | Function::Log, [v, ..]) if v.is_one() => BigRational::zero(),
        (Function::Ln | Function::Log, [v, ..]) if v.is_zero() => undefined("the logarithm of zero")?,
        _ => return Err(None),
    })
}

/// A number whose factorial is worked out, which costs steps.
fn small(v: &BigRational, budget: &mut Budget) -> Result<u64, Option<Reason>> {
    let n = v.numer().to_u64().filter(|n| *n <= LARGEST).ok_or(None)?;
    budget.spend(n * n / 32 + 1)?;
    Ok(n)
}
