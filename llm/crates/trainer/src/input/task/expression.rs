//! The arithmetic of a word problem: an expression over whole numbers and the steps that work it out.

use std::fmt;

/// One of the four operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `a + b`.
    Plus,
    /// `a - b`.
    Minus,
    /// `a * b`.
    Times,
    /// `a / b`, always exact.
    Over,
}

impl Operator {
    /// Its sign in problems and solutions.
    pub fn sign(self) -> char {
        match self {
            Operator::Plus => '+',
            Operator::Minus => '-',
            Operator::Times => '*',
            Operator::Over => '/',
        }
    }

    fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Operator::Plus => a + b,
            Operator::Minus => a - b,
            Operator::Times => a * b,
            Operator::Over => {
                assert!(b != 0 && a % b == 0, "{a}/{b} is not a whole number");
                a / b
            }
        }
    }
}

/// An expression over whole numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A number of the problem's text.
    Number(i64),
    /// Two expressions combined.
    Combined(Operator, Box<Expression>, Box<Expression>),
}

impl From<i64> for Expression {
    fn from(n: i64) -> Self {
        Expression::Number(n)
    }
}

/// One line of a worked solution, `left sign right = result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SolutionStep {
    /// Left operand.
    pub left: i64,
    pub operator: Operator,
    /// Right operand.
    pub right: i64,
    /// The outcome.
    pub result: i64,
}

impl fmt::Display for SolutionStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}={}", self.left, self.operator.sign(), self.right, self.result)
    }
}

impl Expression {
    /// `self operator right`.
    pub fn then(self, operator: Operator, right: impl Into<Expression>) -> Expression {
        Expression::Combined(operator, Box::new(self), Box::new(right.into()))
    }

    /// The value and the steps that lead to it, operands before what uses them, none twice.
    ///
    /// # Panics
    /// If a division is not exact.
    pub fn solve(&self) -> (i64, Vec<SolutionStep>) {
        let mut steps = Vec::new();
        let value = self.collect(&mut steps);
        (value, steps)
    }

    fn collect(&self, steps: &mut Vec<SolutionStep>) -> i64 {
        match self {
            Expression::Number(n) => *n,
            Expression::Combined(operator, left, right) => {
                let (left, right) = (left.collect(steps), right.collect(steps));
                let step =
                    SolutionStep { left, operator: *operator, right, result: operator.apply(left, right) };
                if !steps.contains(&step) {
                    steps.push(step);
                }
                step.result
            }
        }
    }
}

impl fmt::Display for Expression {
    /// Infix with every pair of brackets, `((3*4)+5)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Number(n) => write!(f, "{n}"),
            Expression::Combined(operator, left, right) => write!(f, "({left}{}{right})", operator.sign()),
        }
    }
}
