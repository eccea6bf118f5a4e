//! Any expression, evaluated to many digits at chosen values of its symbols.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive};

use super::ball::Ball;
use super::budget::Budget;
use super::exact;
use super::node::{Function, Node, Sign};
use super::verdict::{Reason, undefined};

/// The values that symbols take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbols {
    /// Real numbers from 1/2 to 3.
    Positive,
    /// Real numbers from 1/2 to 3 with either sign.
    Signed,
    /// Complex numbers for z and w; else real ones with either sign.
    Complex,
    /// Whole numbers from 1 to 12.
    Whole,
    /// Whole numbers for k, m, n and N, which name them; else real ones with either sign.
    ByName,
}

/// The values of the symbols, and the precision of an evaluation.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvaluationPoint {
    pub(super) symbols: Symbols,
    pub(super) seed: u64,
    /// Bits.
    pub(super) precision: usize,
}

impl EvaluationPoint {
    /// A point for expressions without symbols.
    pub(super) fn constant(precision: usize) -> EvaluationPoint {
        EvaluationPoint { symbols: Symbols::Positive, seed: 0, precision }
    }

    fn symbol(self, name: &str) -> Ball {
        let h = hash(name, self.seed.wrapping_add(101));
        let real = 0.5 + 2.5 * ((h >> 12) as f64 / (1u64 << 52) as f64);
        let whole = (1 + h % 12) as f64;
        let value = match self.symbols {
            Symbols::Positive => real,
            // Names such as r_0 are of constants.
            Symbols::Signed if name.ends_with("_0") => real,
            Symbols::Whole => whole,
            Symbols::ByName if name.starts_with(['k', 'm', 'n', 'N']) => whole,
            _ if h & 1 == 0 => real,
            _ => -real,
        };
        match self.symbols {
            Symbols::Complex if is_complex(name) => Ball::complex(value, 1.25 - value, self.precision),
            _ => Ball::float(value, self.precision),
        }
    }

    /// The value of `node` here. Errors if it has none, or the budget is spent.
    pub(super) fn value(self, node: &Node, budget: &mut Budget) -> Result<Ball, Reason> {
        let p = self.precision;
        budget.spend(p as u64 / 32)?;
        match node {
            Node::Number(number) => Ball::rational(&number.value, p),
            Node::Pi => Ball::pi(p),
            Node::Euler => Ball::e(p),
            Node::Imaginary => Ok(Ball::i(p)),
            Node::Symbol(name) => Ok(self.symbol(name)),
            Node::Unit(inner, _) => self.value(inner, budget),
            Node::Percent(inner) => self.value(inner, budget)?.times(&Ball::float(100.0, p).inverse(p)?, p),
            Node::Degrees(inner) => {
                let right = Ball::float(180.0, p).inverse(p)?;
                self.value(inner, budget)?.times(&Ball::pi(p)?, p)?.times(&right, p)
            }
            Node::Sum(terms) => terms.iter().try_fold(Ball::float(0.0, p), |sum, (sign, term)| {
                let value = self.value(term, budget)?;
                sum.plus(&if *sign == Sign::Minus { value.negated() } else { value }, p)
            }),
            Node::Product(factors) => {
                factors.iter().try_fold(Ball::float(1.0, p), |product, (divides, factor)| {
                    let value = self.value(factor, budget)?;
                    product.times(&if *divides { value.inverse(p)? } else { value }, p)
                })
            }
            Node::Power(base, exponent) => self.power(base, exponent, budget),
            Node::Call(function, arguments) => self.call(*function, arguments, budget),
            _ => Err(Reason::Unreadable("a structure inside an expression".into())),
        }
    }

    fn power(self, base: &Node, exponent: &Node, budget: &mut Budget) -> Result<Ball, Reason> {
        let p = self.precision;
        budget.spend(p as u64)?;
        if let Some(exponent) = exact::rational(exponent, budget)? {
            let base = self.value(base, budget)?;
            if exponent.is_integer() {
                let Some(n) = exponent.numer().to_i64() else {
                    return Err(Reason::TooLarge("an exponent of more than 63 bits".into()));
                };
                return whole_power(&base, n, p);
            }
            budget.spend(steps(&base, p))?;
            if exponent.denom() == &BigInt::from(2)
                && let Some(n) = exponent.numer().to_i64()
            {
                return whole_power(&base.root(2, p)?, n, p);
            }
            if base.may_be_zero() && exponent.is_positive() {
                return Ok(Ball::float(0.0, p));
            }
            return base.ln(p)?.times(&Ball::rational(&exponent, p)?, p)?.exp(p);
        }
        let power = self.value(exponent, budget)?;
        budget.spend(steps(&power, p))?;
        if *base == Node::Euler {
            return power.exp(p);
        }
        let base = self.value(base, budget)?;
        // A whole exponent keeps the sign of a negative base exact.
        if base.is_negative() == Some(true)
            && let Ok((n, true)) = power.floor(p)
        {
            return whole_power(&base, n, p);
        }
        base.ln(p)?.times(&power, p)?.exp(p)
    }

    fn call(self, function: Function, arguments: &[Node], budget: &mut Budget) -> Result<Ball, Reason> {
        let p = self.precision;
        budget.spend(p as u64)?;
        let values: Vec<Ball> = arguments.iter().map(|n| self.value(n, budget)).collect::<Result<_, _>>()?;
        let x = &values[0];
        budget.spend(steps(x, p))?;
        match function {
            Function::Sin | Function::Cos | Function::Tan | Function::Cot | Function::Sec | Function::Csc => {
                by_cosine_and_sine(function, x.cos_sin(p)?, p)
            }
            Function::Arcsin => x.arcsin(p),
            Function::Arccos => right_angle_less(&x.arcsin(p)?, p),
            Function::Arctan => x.arctan(p),
            Function::Arccot => right_angle_less(&x.arctan(p)?, p),
            Function::Sinh | Function::Cosh | Function::Tanh => {
                by_cosine_and_sine(function, x.cosh_sinh(p)?, p)
            }
            Function::Ln => x.ln(p),
            Function::Log => {
                let base = values.get(1).cloned().unwrap_or(Ball::float(10.0, p));
                x.ln(p)?.times(&base.ln(p)?.inverse(p)?, p)
            }
            Function::Exp => x.exp(p),
            Function::Abs => x.abs(p),
            Function::Floor => whole(x.floor(p)?.0, p),
            Function::Ceil => x.floor(p).and_then(|(below, exact)| whole(below + i64::from(!exact), p)),
            Function::Root => match values[1].floor(p)? {
                (order @ 1..=64, true) => x.root(order as u32, p),
                _ => x.ln(p)?.times(&values[1].inverse(p)?, p)?.exp(p),
            },
            Function::Max | Function::Min => extreme(function, &values, p),
            Function::Factorial | Function::Binomial | Function::Gcd | Function::Lcm => {
                let exact = |value: &Ball| match value.floor(p)? {
                    (n, true) => Ok(BigRational::from_integer(n.into())),
                    _ => undefined("a function of whole numbers of what is not whole"),
                };
                let values: Vec<BigRational> = values.iter().map(exact).collect::<Result<_, _>>()?;
                let too_large = || Reason::TooLarge("a factorial or binomial coefficient".into());
                let value = exact::apply(function, &values, budget);
                Ball::rational(&value.map_err(|reason| reason.unwrap_or_else(too_large))?, p)
            }
        }
    }
}

/// A value made from a name and a seed, the same on every machine (FNV-1a, then the finaliser of SplitMix64).
pub(super) fn hash(name: &str, seed: u64) -> u64 {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut z =
        name.bytes().fold(0xcbf2_9ce4_8422_2325, step).wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// True for the usual names of complex numbers.
pub(super) fn is_complex(name: &str) -> bool {
    matches!(name, "z" | "w")
}

fn whole_power(base: &Ball, n: i64, p: usize) -> Result<Ball, Reason> {
    let value = base.power(n.unsigned_abs(), p)?;
    if n < 0 { value.inverse(p) } else { Ok(value) }
}

fn whole(n: i64, p: usize) -> Result<Ball, Reason> {
    Ball::rational(&BigRational::from_integer(n.into()), p)
}

/// The steps of a root, a power or a function; a complex number has an angle next to its logarithm and exponential.
fn steps(x: &Ball, p: usize) -> u64 {
    let each = if x.real().is_none() { 16 } else { 3 };
    each * p as u64
}

/// `pi/2 - x`.
fn right_angle_less(x: &Ball, p: usize) -> Result<Ball, Reason> {
    Ball::pi(p)?.times(&Ball::float(0.5, p), p)?.minus(x, p)
}

/// A function of the circle, or of the hyperbola, by its cosine and sine.
fn by_cosine_and_sine(function: Function, (cos, sin): (Ball, Ball), p: usize) -> Result<Ball, Reason> {
    match function {
        Function::Sin | Function::Sinh => Ok(sin),
        Function::Cos | Function::Cosh => Ok(cos),
        Function::Tan | Function::Tanh => sin.times(&cos.inverse(p)?, p),
        Function::Cot => cos.times(&sin.inverse(p)?, p),
        Function::Sec => cos.inverse(p),
        _ => sin.inverse(p),
    }
}

fn extreme(function: Function, values: &[Ball], p: usize) -> Result<Ball, Reason> {
    values[1..].iter().try_fold(values[0].clone(), |best, value| match value.minus(&best, p)?.is_negative() {
        Some(less) => Ok(if less == (function == Function::Min) { value.clone() } else { best }),
        None => undefined("the largest of complex numbers"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::budget;

    #[test]
    fn symbols_take_values_of_their_range() {
        let taken = |symbols, seed| {
            let place = EvaluationPoint { symbols, seed, precision: 64 };
            place.value(&Node::Symbol("x".into()), &mut budget()).unwrap()
        };
        let below =
            |x: &Ball, bound: f64| x.plus(&Ball::float(-bound, 64), 64).unwrap().is_negative().unwrap();
        let (mut high, mut negative, mut whole) = (0, 0, [0; 14]);
        for seed in 0..400 {
            let x = taken(Symbols::Positive, seed);
            assert!(!below(&x, 0.499) && below(&x, 3.001));
            high += usize::from(!below(&x, 1.75));
            let x = taken(Symbols::Signed, seed);
            let size = x.abs(64).unwrap();
            assert!(!below(&size, 0.499) && below(&size, 3.001));
            negative += usize::from(below(&x, 0.0));
            let (n, exact) = taken(Symbols::Whole, seed).floor(64).unwrap();
            assert!(exact);
            whole[n as usize] += 1;
        }
        // Half of them, within five standard errors; each whole number from 1 to 12, some 33 times.
        assert!((150..250).contains(&high) && (150..250).contains(&negative), "{high} {negative}");
        assert!(whole[0] == 0 && whole[13] == 0 && whole[1..13].iter().all(|n| *n > 5), "{whole:?}");
    }

    /// Computed by another program, whose first number of SplitMix64 from state 0 is the published e220a8397b1dcdaf.
    #[test]
    fn the_values_of_symbols_are_frozen() {
        assert_eq!((hash("x", 1), hash("\\pi", 2)), (3_711_637_726_795_544_975, 945_343_399_838_168_589));
    }
}
