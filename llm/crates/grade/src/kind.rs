//! The kind of thing that an answer is. Answers of two kinds are equal only by a rule that works on both.

use super::named::named;
use super::node::{Node, Relation};
use super::units::Unit;
use super::words;

named! {
    /// The kind of an answer.
    Kind {
        /// A constant: `5`, `\frac{1}{2}`, `2\sqrt{3}`
        Number "number",
        /// A value with a unit, a noun, degrees, percent or a modulus: `5 \text{ cm}`
        Quantity "quantity",
        /// A time of day: `1:15`, `7 \text{ p.m.}`
        Time "time",
        /// A day and its month
        Date "date",
        /// `a : b`
        Ratio "ratio",
        /// A text: a word, or letters in their order
        Word "word",
        /// A name of points: an angle, a segment, a vector
        Name "name",
        /// A formula of logic: `p \land q`
        Formula "formula",
        /// A function that is only named, and its argument: `f(2x)`
        Application "application",
        /// `\frac{dy}{dx}`
        Differential "differential",
        /// Algebra: symbols joined by arithmetic
        Expression "expression",
        /// `\{1, 2\}`
        Set "set",
        /// Values side by side
        List "list",
        /// Values in brackets, in their order
        Tuple "tuple",
        /// Numbers of several things: `7 \text{ apples}, 4 \text{ pears}`
        Counts "counts",
        /// A set of reals: an interval, a union, a difference
        Interval "interval",
        /// `y = 2x`
        Equation "equation",
        /// Another relation: `x < 2`, `AB \parallel CD`
        Relation "relation",
        /// A matrix, or values by cases
        Matrix "matrix",
        /// The letter of a choice
        Choice "choice",
    }
}

impl Kind {
    /// True for kinds whose answers have a value that arithmetic alone compares.
    pub fn is_value(self) -> bool {
        use Kind::{Application, Differential, Expression, Name, Number};
        matches!(self, Number | Expression | Application | Differential | Name)
    }

    pub(super) fn read(node: &Node) -> Kind {
        match node {
            Node::Unit(..) | Node::Degrees(_) | Node::Percent(_) | Node::Modular(..) => Kind::Quantity,
            Node::Time(_) => Kind::Time,
            Node::Ratio(_) => Kind::Ratio,
            Node::Words(text) if words::is_date(text) => Kind::Date,
            Node::Words(_) => Kind::Word,
            Node::Apply(name, _) if name.starts_with('\\') => Kind::Name,
            Node::Apply(name, _) if name.contains('/') => Kind::Differential,
            Node::Apply(..) => Kind::Application,
            Node::Logic(..) => Kind::Formula,
            Node::Set(_) => Kind::Set,
            Node::List(items) if items.iter().any(counts) => Kind::Counts,
            Node::List(_) | Node::Dots => Kind::List,
            Node::Group(open, items, close) => {
                let pair =
                    items.len() == 2 && ((*open, *close) != ('(', ')') || items.iter().any(is_infinite));
                if pair { Kind::Interval } else { Kind::Tuple }
            }
            Node::All(_) | Node::Union(_) | Node::Without(..) => Kind::Interval,
            Node::Chain(_, rest, _) => match rest.last() {
                Some((Relation::Equal | Relation::About | Relation::In, _)) => Kind::Equation,
                _ => Kind::Relation,
            },
            Node::Matrix(_) | Node::Cases(_) => Kind::Matrix,
            Node::Product(_) if named_point(node).is_some() => Kind::Name,
            _ if node.has_symbols() => Kind::Expression,
            _ => Kind::Number,
        }
    }
}

/// True for a number of some noun.
fn counts(node: &Node) -> bool {
    matches!(node, Node::Unit(_, Unit::Noun(words)) if !words.is_empty())
}

pub(super) fn is_infinite(node: &Node) -> bool {
    *node == Node::Infinity || *node == Node::minus_infinity()
}

/// The name and the coordinates of `A(1, 2)`: a capital letter, with or without an index or a prime.
pub(crate) fn named_point(node: &Node) -> Option<(&str, &Node)> {
    let Node::Product(factors) = node else { return None };
    let [(false, Node::Symbol(name)), (false, point @ Node::Group('(', ..))] = &factors[..] else {
        return None;
    };
    let index = name.strip_prefix(|c: char| c.is_ascii_uppercase())?;
    index.chars().all(|c| c.is_ascii_digit() || c == '_' || c == '\'').then_some((name, point))
}
