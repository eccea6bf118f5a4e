//! Rational functions, compared by their values at random points of two prime fields.
//!
//! Symbols, pi and e take fixed pseudo-random values and i a root of -1, so that evaluation respects every identity of
//! rational functions over Q(i). A difference at one point is therefore a proof. Agreement is not: a difference of
//! degree at most d that is not zero vanishes at a random point of a field of p elements with probability at most d/p
//! (Schwartz and Zippel), and its coefficients may all be divisible by p. With p > 2^61 and d <= 2^24, as enforced,
//! agreement at two points in each of two fields happens by accident with probability below 2^-140 for the points, and
//! below 2^-100 for the coefficients of answers of at most 8 KiB if the two primes are thought of as random 62-bit
//! primes. The points are the same in every run.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{One, ToPrimitive, Zero};

use super::budget::Budget;
use super::exact;
use super::node::{Node, Sign};
use super::verdict::Reason;

/// Two primes of the form 4k + 1 with a root of -1 in each.
const FIELDS: [(u64, u64); 2] = [
    (4_611_686_018_427_387_817, 4_490_822_397_581_186_023),
    (4_611_686_018_427_387_761, 3_481_184_452_870_754_207),
];
/// Points tried in each field.
const POINTS: u64 = 2;
/// Highest degree of a numerator or denominator.
const DEGREE: u64 = 1 << 24;

/// A point: a field, and a number from which the values of the symbols are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) prime: u64,
    root: u64,
    seed: u64,
}

/// The points at which rational functions are compared.
pub(super) fn points() -> impl Iterator<Item = Point> {
    (0..POINTS).flat_map(|i| FIELDS.map(|(prime, root)| Point { prime, root, seed: i + 1 }))
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

/// The value of an expression at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A value, and the larger degree of numerator and denominator.
    At(u64, u64),
    /// It divides by zero there.
    Pole,
    /// It is not a rational function, or one of too high a degree.
    Other,
}

impl Point {
    pub(super) fn multiply(self, a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) % u128::from(self.prime)) as u64
    }

    fn add(self, a: u64, b: u64) -> u64 {
        ((u128::from(a) + u128::from(b)) % u128::from(self.prime)) as u64
    }

    pub(super) fn subtract(self, a: u64, b: u64) -> u64 {
        self.add(a, self.prime - b)
    }

    fn raise(self, mut base: u64, mut exponent: u64) -> u64 {
        let mut result = 1;
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.multiply(result, base);
            }
            base = self.multiply(base, base);
            exponent >>= 1;
        }
        result
    }

    fn invert(self, a: u64) -> u64 {
        self.raise(a, self.prime - 2)
    }

    fn reduce(self, n: &BigInt) -> u64 {
        n.mod_floor(&BigInt::from(self.prime)).to_u64().unwrap_or(0)
    }

    fn symbol(self, name: &str) -> Value {
        Value::At(hash(name, self.seed) % self.prime, 1)
    }

    /// The value of `node` here. Errors if the budget is spent, or a constant part is undefined.
    pub(super) fn value(self, node: &Node, budget: &mut Budget) -> Result<Value, Reason> {
        budget.spend(1)?;
        Ok(match node {
            Node::Number(number) => {
                budget.spend((number.value.numer().bits() + number.value.denom().bits()) / 64)?;
                self.quotient(self.reduce(number.value.numer()), self.reduce(number.value.denom()))
            }
            Node::Pi => self.symbol("\\pi"),
            Node::Euler => self.symbol("\\e"),
            Node::Imaginary => Value::At(self.root, 0),
            Node::Symbol(name) => self.symbol(name),
            Node::Unit(inner, _) => self.value(inner, budget)?,
            Node::Percent(inner) => match self.value(inner, budget)? {
                Value::At(value, degree) => Value::At(self.multiply(value, self.invert(100)), degree),
                other => other,
            },
            Node::Sum(terms) => return self.sum(terms, budget),
            Node::Product(factors) => return self.product(factors, budget),
            Node::Power(base, exponent) => return self.power(base, exponent, budget),
            Node::Call(..) => match exact::rational(node, budget)? {
                Some(value) => self.quotient(self.reduce(value.numer()), self.reduce(value.denom())),
                None => Value::Other,
            },
            _ => Value::Other,
        })
    }

    fn sum(self, terms: &[(Sign, Node)], budget: &mut Budget) -> Result<Value, Reason> {
        let (mut sum, mut degree) = (0, 0u64);
        for (sign, term) in terms {
            let (value, d) = match self.value(term, budget)? {
                Value::At(value, d) => (value, d),
                other => return Ok(other),
            };
            sum = match sign {
                Sign::Plus => self.add(sum, value),
                Sign::Minus => self.subtract(sum, value),
                Sign::PlusMinus | Sign::MinusPlus => return Ok(Value::Other),
            };
            degree += d;
        }
        Ok(self.bounded(sum, degree))
    }

    fn product(self, factors: &[(bool, Node)], budget: &mut Budget) -> Result<Value, Reason> {
        let (mut product, mut degree) = (1, 0u64);
        for (divides, factor) in factors {
            match self.value(factor, budget)? {
                Value::At(0, _) if *divides => return Ok(Value::Pole),
                Value::At(value, d) => {
                    let value = if *divides { self.invert(value) } else { value };
                    (product, degree) = (self.multiply(product, value), degree + d);
                }
                other => return Ok(other),
            }
        }
        Ok(self.bounded(product, degree))
    }

    fn power(self, base: &Node, exponent: &Node, budget: &mut Budget) -> Result<Value, Reason> {
        let Some(exponent) = exact::rational(exponent, budget)? else { return Ok(Value::Other) };
        let Some(n) = exponent.is_integer().then(|| exponent.numer().to_i64()).flatten() else {
            return Ok(Value::Other);
        };
        Ok(match self.value(base, budget)? {
            Value::At(0, _) if n <= 0 => Value::Pole,
            Value::At(value, degree) => {
                let value = self.raise(value, n.unsigned_abs());
                let value = if n < 0 { self.invert(value) } else { value };
                self.bounded(value, degree.saturating_mul(n.unsigned_abs()))
            }
            other => other,
        })
    }

    fn quotient(self, top: u64, bottom: u64) -> Value {
        if bottom.is_zero() {
            return Value::Pole;
        }
        Value::At(if bottom.is_one() { top } else { self.multiply(top, self.invert(bottom)) }, 0)
    }

    fn bounded(self, value: u64, degree: u64) -> Value {
        if degree > DEGREE { Value::Other } else { Value::At(value, degree) }
    }
}

#[cfg(test)]
mod tests {
    use num_rational::BigRational;

    use super::super::node::Function;
    use super::super::rules::Rules;
    use super::*;

    fn at(node: &Node) -> Value {
        let point = points().next().unwrap();
        point.value(node, &mut Budget::new(Rules::STRICT)).unwrap()
    }

    fn x() -> Node {
        Node::Symbol("x".into())
    }

    fn power(base: Node, exponent: i64) -> Node {
        Node::Power(Box::new(base), Box::new(Node::integer(exponent)))
    }

    /// Computed by another program, whose first number of SplitMix64 from state 0 is the published e220a8397b1dcdaf.
    #[test]
    fn the_values_of_symbols_are_frozen() {
        assert_eq!((hash("x", 1), hash("\\pi", 2)), (3_711_637_726_795_544_975, 945_343_399_838_168_589));
        assert_eq!(points().map(|p| p.seed).collect::<Vec<_>>(), [1, 1, 2, 2]);
        for (prime, root) in FIELDS {
            let point = Point { prime, root, seed: 1 };
            assert_eq!(point.multiply(root, root), prime - 1);
            assert_eq!(point.multiply(7, point.invert(7)), 1);
            assert_eq!((point.subtract(3, 5), point.add(prime - 1, 2)), (prime - 2, 1));
        }
    }

    #[test]
    fn expressions_have_their_values_and_degrees() {
        let Value::At(value, 1) = at(&x()) else { panic!("a symbol") };
        let point = points().next().unwrap();
        let (two, minus) = (|| Node::integer(2), Sign::Minus);
        let sum = Node::Sum(vec![(Sign::Plus, x()), (minus, power(x(), 2))]);
        let square = point.multiply(value, value);
        assert_eq!(at(&sum), Value::At(point.subtract(value, square), 3));
        let product = Node::Product(vec![(false, x()), (false, x()), (true, two())]);
        assert_eq!(at(&product), Value::At(point.multiply(square, point.invert(2)), 2));
        assert_eq!(at(&power(Node::Imaginary, 2)), Value::At(point.prime - 1, 0));
        assert_eq!(at(&Node::Percent(Box::new(Node::integer(300)))), Value::At(3, 0));
        assert_eq!(at(&Node::Unit(Box::new(x()), super::super::units::Unit::Measure("cm".into()))), at(&x()));
        assert_eq!(at(&Node::Call(Function::Abs, vec![Node::integer(-3)])), Value::At(3, 0));
        assert_eq!(at(&Node::Call(Function::Sin, vec![x()])), Value::Other);
        let constants = [at(&Node::Pi), at(&Node::Euler), at(&x())];
        assert!(constants.iter().all(|v| matches!(v, Value::At(_, 1))), "{constants:?}");
        assert!(constants[0] != constants[1] && constants[1] != constants[2] && constants[0] != constants[2]);
        assert_eq!(at(&power(Node::integer(3), -1)), Value::At(point.invert(3), 0));
        // By Fermat the power p - 1 of anything is 1.
        assert_eq!(at(&power(Node::integer(3), point.prime as i64 + 6)), Value::At(3 * 729, 0));
    }

    #[test]
    fn poles_and_degrees_out_of_bounds_are_distinguished_from_values() {
        let zero = || Node::Sum(vec![(Sign::Plus, x()), (Sign::Minus, x())]);
        assert_eq!(at(&Node::Product(vec![(false, x()), (true, zero())])), Value::Pole);
        assert_eq!((at(&power(zero(), 0)), at(&power(zero(), -1))), (Value::Pole, Value::Pole));
        assert_eq!((at(&power(zero(), 2)), at(&power(x(), 0))), (Value::At(0, 4), Value::At(1, 0)));
        let largest = DEGREE as i64;
        assert_eq!(largest, 16_777_216);
        assert!(matches!(at(&power(x(), largest)), Value::At(_, 16_777_216)));
        assert_eq!(at(&power(x(), largest + 1)), Value::Other);
    }

    #[test]
    fn a_number_costs_its_words() {
        let power = |base: u32, n: u32| BigInt::from(base).pow(n);
        // 640 and 639 bits are 19 words and a part of one; one step more for the node.
        let number = Node::exact(BigRational::new(power(2, 639), power(3, 403)));
        let mut budget = Budget::new(Rules::STRICT);
        let all = budget.left;
        points().next().unwrap().value(&number, &mut budget).unwrap();
        assert_eq!(all - budget.left, 20);
    }
}
