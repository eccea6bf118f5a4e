//! The tree of an answer: numbers, symbols, functions and structures.

use num_bigint::BigInt;
use num_rational::BigRational;

use super::named::coded;
use super::units::Unit;
use super::words::Logic;

/// A sign in a sum. The two double signs are read together: all the upper ones or all the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
    PlusMinus,
    MinusPlus,
}

coded! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    /// The sign between two sides; `About` is `\approx`.
    Relation by relation: Equal About Unequal Less LessOrEqual Greater GreaterOrEqual In Subset Superset SubsetOrEqual
    SupersetOrEqual Similar Parallel Perpendicular
}

coded! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    /// A function. `Ln` is the natural logarithm and `Log` that to base 10, or to a base given as the second argument;
    /// `Root` is the root of the first argument, of the order of the second.
    Function by function: Sin Cos Tan Cot Sec Csc Arcsin Arccos Arctan Arccot Sinh Cosh Tanh Ln Log Exp Abs Floor Ceil
    Factorial Binomial Root Gcd Lcm Max Min
}

impl Relation {
    /// The relation read from right to left.
    pub(super) fn turned(self) -> Self {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            Relation::Subset => Relation::Superset,
            Relation::Superset => Relation::Subset,
            Relation::SubsetOrEqual => Relation::SupersetOrEqual,
            Relation::SupersetOrEqual => Relation::SubsetOrEqual,
            same => same,
        }
    }

    /// True for a relation of figures and of sets, whose sides are no numbers.
    pub(super) fn is_of_figures(self) -> bool {
        use Relation::*;
        !matches!(self, Equal | About | Unequal | Less | LessOrEqual | Greater | GreaterOrEqual)
    }
}

/// A time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) hour: u32,
    /// Minutes, and seconds if they are written.
    pub(super) past: (u32, Option<u32>),
    /// True for p.m.
    pub(super) afternoon: Option<bool>,
}

/// A written number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) value: BigRational,
    /// Digits after the point, less the exponent of `1.5e3`. `None` without a point.
    pub(super) places: Option<i64>,
    /// Digits from the first that is not zero.
    pub(super) significant: u32,
    /// True if dots follow its digits: `0.333...`.
    pub(super) dots: bool,
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
    /// A function that is only named and its arguments: `f(2x)`; a sign and the letters that it names, in their order:
    /// `\angle ABC`; a derivative `d/dx` and what it is of.
    Apply(String, Vec<Node>),
    Logic(Logic, Vec<Node>),
    Time(Clock),
    Degrees(Box<Node>),
    Percent(Box<Node>),
    /// A value with the words after it.
    Unit(Box<Node>, Unit),
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
    /// Inequalities that hold together, or the common part of sets: `x > 1 and x < 3`, `A \cap B`.
    All(Vec<Node>),
    /// `a : b : c`.
    Ratio(Vec<Node>),
    /// The first modulo the second.
    Modular(Box<Node>, Box<Node>),
    /// The rows of `cases` with their conditions.
    Cases(Vec<Vec<Node>>),
    /// `\ldots`.
    Dots,
    Union(Vec<Node>),
    Without(Box<Node>, Box<Node>),
    Matrix(Vec<Vec<Node>>),
    /// `a = b`, `a < b <= c`; the label is true if the left side only names the right side.
    Chain(Box<Node>, Vec<(Relation, Node)>, bool),
}

/// The parts directly below a node, shared or mutable.
macro_rules! parts {
    ($node:expr, $iter:ident, $inner:ident) => {
        match $node {
            Node::Sum(terms) => terms.$iter().map(|(_, n)| n).collect(),
            Node::Product(factors) => factors.$iter().map(|(_, n)| n).collect(),
            Node::Power(a, b) | Node::Without(a, b) | Node::Modular(a, b) => vec![a.$inner(), b.$inner()],
            Node::Degrees(a) | Node::Percent(a) | Node::Unit(a, _) => vec![a.$inner()],
            Node::Call(_, list)
            | Node::Apply(_, list)
            | Node::Logic(_, list)
            | Node::Group(_, list, _)
            | Node::Set(list)
            | Node::List(list)
            | Node::All(list)
            | Node::Ratio(list)
            | Node::Union(list) => list.$iter().collect(),
            Node::Matrix(rows) | Node::Cases(rows) => rows.$iter().flatten().collect(),
            Node::Chain(first, rest, _) => {
                std::iter::once(first.$inner()).chain(rest.$iter().map(|(_, n)| n)).collect()
            }
            _ => Vec::new(),
        }
    };
}

impl Node {
    pub(super) fn integer(n: impl Into<BigInt>) -> Node {
        Node::exact(BigRational::from_integer(n.into()))
    }

    /// An exact number that is no decimal.
    pub(super) fn exact(value: BigRational) -> Node {
        Node::Number(Number { value, places: None, significant: 1, dots: false })
    }

    /// The whole number that was written.
    pub(super) fn as_integer(&self) -> Option<&BigInt> {
        match self {
            Node::Number(Number { value, places: None, .. }) if value.is_integer() => Some(value.numer()),
            _ => None,
        }
    }

    pub(super) fn children(&self) -> Vec<&Node> {
        parts!(self, iter, as_ref)
    }

    pub(super) fn parts_mut(&mut self) -> Vec<&mut Node> {
        parts!(self, iter_mut, as_mut)
    }

    /// Edits every node, the parts before the whole.
    pub(super) fn edited(mut self, edit: &impl Fn(&mut Node)) -> Node {
        fn walk(node: &mut Node, edit: &impl Fn(&mut Node)) {
            node.parts_mut().into_iter().for_each(|part| walk(part, edit));
            edit(node);
        }
        walk(&mut self, edit);
        self
    }

    /// True for a tree in which `found` is true of a node.
    pub(super) fn any(&self, found: &impl Fn(&Node) -> bool) -> bool {
        found(self) || self.children().into_iter().any(|child| child.any(found))
    }

    pub(super) fn has_double_sign(&self) -> bool {
        let double = |(sign, _): &(Sign, Node)| matches!(sign, Sign::PlusMinus | Sign::MinusPlus);
        self.any(&|n| matches!(n, Node::Sum(terms) if terms.iter().any(double)))
    }

    pub(super) fn has_symbols(&self) -> bool {
        self.any(&|n| matches!(n, Node::Symbol(_) | Node::Apply(..)))
    }

    /// Reads every double sign as its upper or its lower one.
    pub(super) fn with_signs(&self, upper: bool) -> Node {
        self.clone().edited(&|node| {
            let Node::Sum(terms) = node else { return };
            for (sign, _) in terms {
                *sign = match (*sign, upper) {
                    (Sign::PlusMinus, true) | (Sign::MinusPlus, false) => Sign::Plus,
                    (Sign::PlusMinus, false) | (Sign::MinusPlus, true) => Sign::Minus,
                    (plain, _) => plain,
                };
            }
        })
    }

    /// The values of double signs, or the tree itself.
    pub(super) fn of_both_signs(&self) -> Vec<Node> {
        let both = || [true, false].map(|upper| self.with_signs(upper)).to_vec();
        if self.has_double_sign() { both() } else { vec![self.clone()] }
    }

    /// Renames a symbol.
    pub(super) fn renamed(&self, from: &str, to: &str) -> Node {
        self.with(from, &Node::Symbol(to.to_owned()))
    }

    /// Puts a value in place of a symbol.
    pub(super) fn with(&self, name: &str, value: &Node) -> Node {
        self.clone().edited(&|node| {
            if matches!(node, Node::Symbol(own) if own == name) {
                *node = value.clone();
            }
        })
    }

    pub(super) fn has_symbol(&self, name: &str) -> bool {
        self.any(&|n| matches!(n, Node::Symbol(s) if s == name))
    }

    /// The symbols in it, each once, in order of their names.
    pub(super) fn symbols(&self) -> Vec<String> {
        if let Node::Symbol(name) = self {
            return vec![name.clone()];
        }
        let mut names: Vec<String> = self.children().into_iter().flat_map(Node::symbols).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The letters of a product of nothing but letters, in their order: `ABC`.
    pub(super) fn letters(&self) -> Option<Vec<&str>> {
        fn letter((divides, factor): &(bool, Node)) -> Option<&str> {
            match factor {
                _ if *divides => None,
                Node::Euler => Some("e"),
                Node::Imaginary => Some("i"),
                Node::Symbol(name) if !name.contains([' ', '(']) => Some(name),
                _ => None,
            }
        }
        let Node::Product(factors) = self else { return None };
        let all: Vec<&str> = factors.iter().map(letter).collect::<Option<_>>()?;
        (all.len() > 1).then_some(all)
    }

    /// The whole numbers above and below the bar of a fraction.
    pub(super) fn fraction(&self) -> Option<(&BigInt, &BigInt)> {
        let Node::Product(factors) = self else { return None };
        let [(false, top), (true, bottom)] = &factors[..] else { return None };
        top.as_integer().zip(bottom.as_integer())
    }

    pub(super) fn minus(&self, other: &Node) -> Node {
        Node::Sum(vec![(Sign::Plus, self.clone()), (Sign::Minus, other.clone())])
    }

    pub(super) fn times(self, other: Node) -> Node {
        Node::Product(vec![(false, self), (false, other)])
    }

    pub(super) fn over(self, other: Node) -> Node {
        Node::Product(vec![(false, self), (true, other)])
    }

    pub(super) fn minus_infinity() -> Node {
        Node::Sum(vec![(Sign::Minus, Node::Infinity)])
    }

    /// An interval, and for each end true if it belongs to it.
    pub(super) fn interval(low: Node, high: Node, (low_in, high_in): (bool, bool)) -> Node {
        Node::Group(if low_in { '[' } else { '(' }, vec![low, high], if high_in { ']' } else { ')' })
    }

    /// True if it is a number, a symbol or made of them by arithmetic and functions.
    pub(super) fn is_expression(&self) -> bool {
        use Node::*;
        let made = matches!(self, Sum(_) | Product(_) | Power(..) | Call(..) | Degrees(_) | Percent(_));
        made || matches!(self, Number(_) | Pi | Euler | Imaginary | Infinity | Symbol(_) | Apply(..))
    }
}
