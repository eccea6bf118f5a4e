//! What an answer reads as: a tree of numbers, symbols, functions and structures.

use num_bigint::BigInt;
use num_rational::BigRational;

/// A sign in a sum. The two double signs are read together: all the upper ones or all the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
    PlusMinus,
    MinusPlus,
}

/// How two sides of a relation stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Relation {
    /// The relation read from right to left.
    pub(super) fn turned(self) -> Self {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            same => same,
        }
    }
}

/// A function with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Arcsin,
    Arccos,
    Arctan,
    Sinh,
    Cosh,
    Tanh,
    /// The natural logarithm.
    Ln,
    /// `log`: to base 10, or to a base given as the second argument.
    Log,
    Exp,
    Abs,
    Floor,
    Ceil,
    Factorial,
    Binomial,
    /// The root of the first argument, of the order of the second.
    Root,
    Gcd,
    Lcm,
    Max,
    Min,
}

/// A number as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) value: BigRational,
    /// Digits after the point, where it was written with one (less the exponent of `1.5e3`).
    pub(super) places: Option<i64>,
    /// Digits from the first that is not zero.
    pub(super) significant: u32,
}

/// An answer or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Number(Number),
    Pi,
    Euler,
    Imaginary,
    Infinity,
    Symbol(String),
    Sum(Vec<(Sign, Node)>),
    /// Factors; `true` for one that divides.
    Product(Vec<(bool, Node)>),
    Power(Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    Degrees(Box<Node>),
    Percent(Box<Node>),
    /// A value with a unit, in canonical spelling; nothing for words that are not a unit.
    Unit(Box<Node>, Option<String>),
    /// Digits in a base: `52_8`.
    Numeral(BigInt, u32),
    /// A text, in canonical spelling.
    Words(String),
    /// `(a, b)`, `[a, b)`: a point or an interval.
    Group(char, Vec<Node>, char),
    /// `{a, b}`.
    Set(Vec<Node>),
    /// `a, b` without brackets.
    List(Vec<Node>),
    Union(Vec<Node>),
    Without(Box<Node>, Box<Node>),
    Matrix(Vec<Vec<Node>>),
    /// `a = b`, `a < b <= c`; the label is true where the left side only names what the right side is.
    Chain(Box<Node>, Vec<(Relation, Node)>, bool),
}

impl Node {
    /// A whole number.
    pub(super) fn integer(n: i64) -> Node {
        let value = BigRational::from_integer(n.into());
        Node::Number(Number { value, places: None, significant: 1 })
    }

    /// The whole number this is, if it was written as one.
    pub(super) fn as_integer(&self) -> Option<&BigInt> {
        match self {
            Node::Number(Number { value, places: None, .. }) if value.is_integer() => Some(value.numer()),
            _ => None,
        }
    }

    /// The parts directly below.
    pub(super) fn children(&self) -> Vec<&Node> {
        match self {
            Node::Sum(terms) => terms.iter().map(|(_, n)| n).collect(),
            Node::Product(factors) => factors.iter().map(|(_, n)| n).collect(),
            Node::Power(a, b) | Node::Without(a, b) => vec![a, b],
            Node::Degrees(a) | Node::Percent(a) | Node::Unit(a, _) => vec![a],
            Node::Call(_, list)
            | Node::Group(_, list, _)
            | Node::Set(list)
            | Node::List(list)
            | Node::Union(list) => list.iter().collect(),
            Node::Matrix(rows) => rows.iter().flatten().collect(),
            Node::Chain(first, rest, _) => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, n)| n)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether this or a part of it is so.
    pub(super) fn any(&self, found: &impl Fn(&Node) -> bool) -> bool {
        found(self) || self.children().into_iter().any(|child| child.any(found))
    }

    /// Whether a double sign stands in it.
    pub(super) fn has_double_sign(&self) -> bool {
        self.any(&|n| match n {
            Node::Sum(terms) => terms.iter().any(|(s, _)| matches!(s, Sign::PlusMinus | Sign::MinusPlus)),
            _ => false,
        })
    }

    /// Whether its value depends on a symbol.
    pub(super) fn has_symbols(&self) -> bool {
        self.any(&|n| matches!(n, Node::Symbol(_)))
    }

    /// The same with every double sign read as its upper or its lower one.
    pub(super) fn with_signs(&self, upper: bool) -> Node {
        let one = |n: &Node| n.with_signs(upper);
        let all = |list: &[Node]| list.iter().map(one).collect();
        let boxed = |n: &Node| Box::new(n.with_signs(upper));
        match self {
            Node::Sum(terms) => Node::Sum(
                terms
                    .iter()
                    .map(|(sign, n)| {
                        let sign = match (sign, upper) {
                            (Sign::PlusMinus, true) | (Sign::MinusPlus, false) => Sign::Plus,
                            (Sign::PlusMinus, false) | (Sign::MinusPlus, true) => Sign::Minus,
                            (plain, _) => *plain,
                        };
                        (sign, one(n))
                    })
                    .collect(),
            ),
            Node::Product(factors) => Node::Product(factors.iter().map(|(d, n)| (*d, one(n))).collect()),
            Node::Power(a, b) => Node::Power(boxed(a), boxed(b)),
            Node::Without(a, b) => Node::Without(boxed(a), boxed(b)),
            Node::Call(f, list) => Node::Call(*f, all(list)),
            Node::Degrees(a) => Node::Degrees(boxed(a)),
            Node::Percent(a) => Node::Percent(boxed(a)),
            Node::Unit(a, unit) => Node::Unit(boxed(a), unit.clone()),
            Node::Group(open, list, close) => Node::Group(*open, all(list), *close),
            Node::Set(list) => Node::Set(all(list)),
            Node::List(list) => Node::List(all(list)),
            Node::Union(list) => Node::Union(all(list)),
            Node::Matrix(rows) => Node::Matrix(rows.iter().map(|row| all(row)).collect()),
            Node::Chain(first, rest, label) => {
                Node::Chain(boxed(first), rest.iter().map(|(r, n)| (*r, one(n))).collect(), *label)
            }
            leaf => leaf.clone(),
        }
    }
}
