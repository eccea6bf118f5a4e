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

/// The rational number that `node` is. `None` if it is none, or none of bearable size.
/// Errors if the budget is spent, or the value is undefined.
pub(super) fn rational(node: &Node, budget: &mut Budget) -> Result<Option<BigRational>, Reason> {
    budget.spend(1)?;
    Ok(match node {
        Node::Number(number) => Some(number.value.clone()),
        Node::Unit(inner, _) => rational(inner, budget)?,
        Node::Percent(inner) => rational(inner, budget)?.map(|v| v / BigInt::from(100)),
        Node::Sum(terms) => {
            let mut sum = BigRational::zero();
            for (sign, term) in terms {
                let Some(value) = rational(term, budget)? else { return Ok(None) };
                let value = match sign {
                    Sign::Plus => value,
                    Sign::Minus => -value,
                    Sign::PlusMinus | Sign::MinusPlus => return Ok(None),
                };
                let whole = spend(budget, &sum, &value, false)?;
                sum = if whole { (sum.numer() + value.numer()).into() } else { sum + value };
                if is_too_large(&sum) {
                    return Ok(None);
                }
            }
            Some(sum)
        }
        Node::Product(factors) => {
            let mut product = BigRational::one();
            for (divides, factor) in factors {
                let Some(value) = rational(factor, budget)? else { return Ok(None) };
                let whole = spend(budget, &product, &value, *divides)?;
                if *divides && value.is_zero() {
                    return undefined("a division by zero");
                }
                product = match divides {
                    true => product / value,
                    false if whole => (product.numer() * value.numer()).into(),
                    false => product * value,
                };
                if is_too_large(&product) {
                    return Ok(None);
                }
            }
            Some(product)
        }
        Node::Power(base, exponent) => {
            let (Some(base), Some(exponent)) = (rational(base, budget)?, rational(exponent, budget)?) else {
                return Ok(None);
            };
            power(&base, &exponent, budget)?
        }
        Node::Call(function, arguments) => call(*function, arguments, budget)?,
        _ => None,
    })
}

fn size(value: &BigRational) -> u64 {
    value.numer().bits().max(value.denom().bits())
}

fn is_too_large(value: &BigRational) -> bool {
    size(value) > if value.is_integer() { WHOLE } else { BITS }
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
fn power(
    base: &BigRational,
    exponent: &BigRational,
    budget: &mut Budget,
) -> Result<Option<BigRational>, Reason> {
    if exponent.is_integer() {
        if base.is_zero() && !exponent.is_positive() {
            return undefined("zero to a power that is not positive");
        }
        if base.is_one() || base.is_zero() {
            return Ok(Some(base.clone()));
        }
        let Some(n) = exponent.to_integer().to_i64() else { return Ok(None) };
        if *base == -BigRational::one() {
            return Ok(Some(if n % 2 == 0 { BigRational::one() } else { base.clone() }));
        }
        let bits = n.unsigned_abs().saturating_mul(size(base).max(2) - 1);
        if bits > if base.is_integer() && n > 0 { WHOLE } else { BITS } {
            return Ok(None);
        }
        budget.spend((bits / 64).pow(2) / 64 + 1)?;
        let value = Pow::pow(base, n.unsigned_abs() as u32);
        return Ok(Some(if n < 0 { value.recip() } else { value }));
    }
    // A root that comes out even: 8^(2/3).
    let (Some(top), Some(order)) = (exponent.numer().to_i64(), exponent.denom().to_u32()) else {
        return Ok(None);
    };
    if base.is_negative() || order > 64 || top.unsigned_abs() > 64 {
        return Ok(None);
    }
    match root(base, order, budget)? {
        Some(root) => power(&root, &BigRational::from_integer(top.into()), budget),
        None => Ok(None),
    }
}

/// The root of order `order` if it is rational.
fn root(value: &BigRational, order: u32, budget: &mut Budget) -> Result<Option<BigRational>, Reason> {
    let words = size(value) / 64 + 1;
    budget.spend(words * words * 8 + 8)?;
    if value.is_negative() && order.is_multiple_of(2) {
        return Ok(None);
    }
    let even = |n: &BigInt| {
        let root = n.nth_root(order);
        (Pow::pow(&root, order) == *n).then_some(root)
    };
    let (Some(top), Some(bottom)) = (even(value.numer()), even(value.denom())) else { return Ok(None) };
    Ok(Some(BigRational::new(top, bottom)))
}

fn call(function: Function, arguments: &[Node], budget: &mut Budget) -> Result<Option<BigRational>, Reason> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let Some(value) = rational(argument, budget)? else { return Ok(None) };
        values.push(value);
    }
    apply(function, &values, budget)
}

/// Largest argument of a factorial or a binomial coefficient that is worked out.
const LARGEST: u64 = 1500;

/// A function of rational numbers if its value is rational.
pub(super) fn apply(
    function: Function,
    values: &[BigRational],
    budget: &mut Budget,
) -> Result<Option<BigRational>, Reason> {
    let words: u64 = values.iter().map(|v| size(v) / 64 + 1).sum();
    budget.spend(words * words)?;
    Ok(match (function, values) {
        (Function::Abs, [v]) => Some(v.abs()),
        (Function::Floor, [v]) => Some(v.floor()),
        (Function::Ceil, [v]) => Some(v.ceil()),
        (Function::Max, list) => list.iter().max().cloned(),
        (Function::Min, list) => list.iter().min().cloned(),
        (Function::Root, [v, order]) => return root_of_order(v, order, budget),
        (Function::Gcd | Function::Lcm, _) => return divisor(function, values, budget),
        (Function::Factorial, [v]) => return factorial(v, budget),
        (Function::Binomial, [n, k]) => return binomial(n, k, budget),
        (Function::Exp, [v]) if v.is_zero() => Some(BigRational::one()),
        (Function::Ln | Function::Log, [v, ..]) if v.is_one() => Some(BigRational::zero()),
        (Function::Ln | Function::Log, [v, ..]) if v.is_zero() => return undefined("the logarithm of zero"),
        _ => None,
    })
}

fn root_of_order(
    v: &BigRational,
    order: &BigRational,
    budget: &mut Budget,
) -> Result<Option<BigRational>, Reason> {
    match order.is_integer().then(|| order.numer().to_u32()).flatten() {
        Some(0) => undefined("a root of order zero"),
        Some(order @ 1..=64) => root(v, order, budget),
        _ => Ok(None),
    }
}

/// The greatest common divisor, or the least common multiple.
fn divisor(
    function: Function,
    values: &[BigRational],
    budget: &mut Budget,
) -> Result<Option<BigRational>, Reason> {
    if values.iter().any(|v| !v.is_integer()) {
        return undefined("a common divisor of what is not whole");
    }
    let words: u64 = values.iter().map(|v| size(v) / 64 + 1).sum();
    let mut result = values[0].numer().abs();
    for n in values[1..].iter().map(|v| v.numer()) {
        budget.spend((result.bits() / 8 + n.bits() / 8 + 1) * words)?;
        result = if function == Function::Gcd { result.gcd(n) } else { result.lcm(n) };
    }
    Ok(Some(BigRational::from_integer(result)))
}

fn factorial(v: &BigRational, budget: &mut Budget) -> Result<Option<BigRational>, Reason> {
    if !v.is_integer() || v.is_negative() {
        return undefined("the factorial of what is not a natural number");
    }
    let Some(n) = v.numer().to_u64().filter(|n| *n <= LARGEST) else { return Ok(None) };
    budget.spend(n * n / 32 + 1)?;
    let product = (1..=n).fold(BigInt::one(), |product, k| product * k);
    Ok(Some(BigRational::from_integer(product)))
}

fn binomial(n: &BigRational, k: &BigRational, budget: &mut Budget) -> Result<Option<BigRational>, Reason> {
    if !n.is_integer() || !k.is_integer() || n.is_negative() || k.is_negative() {
        return undefined("a binomial coefficient of what is not natural");
    }
    if k > n {
        return Ok(Some(BigRational::zero()));
    }
    let (Some(n), Some(k)) = (n.numer().to_u64().filter(|n| *n <= LARGEST), k.numer().to_u64()) else {
        return Ok(None);
    };
    budget.spend(n * n / 32 + 1)?;
    let value = (0..k.min(n - k)).fold(BigInt::one(), |value, i| value * (n - i) / (i + 1));
    Ok(Some(BigRational::from_integer(value)))
}
