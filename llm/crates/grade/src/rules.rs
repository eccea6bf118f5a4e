//! The rules by which different spellings count as the same, each with a name and a switch.

use std::fmt;

use super::kind::Kind;
use super::named::named;

named! {
    /// A convention under which two spellings are one answer. What follows from arithmetic alone is no rule.
    Rule {
        /// `x = 5` answers 5.
        Assignment "assignment",
        /// Equations and inequalities that differ by a constant factor, by order of sides or of terms are one.
        Scaled "scaled",
        /// `f(n) = n` and `f(x) = x` are one function.
        RenamedArgument "renamed_argument",
        /// An inequality is the interval or union that it describes.
        Interval "interval",
        /// A list without brackets has no order.
        Unordered "unordered",
        /// A list is the set of its members, and a set of one member is that member.
        SetBraces "set_braces",
        /// A vector may be written as a column, as a row or as a point.
        Vector "vector",
        /// `1 \pm 2` stands for its two values.
        PlusMinus "plus_minus",
        /// Words are compared without case and punctuation.
        Words "words",
        /// A choice is its letter, whatever stands after it.
        Choice "choice",
        /// A unit, a currency or a counted noun that only one side has says nothing; words that change or judge a value
        /// do.
        UnitDropped "unit_dropped",
        /// An angle of 90 degrees is 90, and pi/2 if the other side has pi.
        Degrees "degrees",
        /// `8 %` is 8.
        PercentNumber "percent_number",
        /// `8 %` is 0.08.
        PercentValue "percent_value",
        /// The sign of a name that only one side has says nothing: `\overline{AB}` is AB.
        SignDropped "sign_dropped",
        /// Unknowns that are numbered, `x_1 = 2, x_2 = 3`, are values of one unknown.
        NumberedUnknown "numbered_unknown",
        /// The name of a whole-number parameter says nothing: `\pi k, k \in \mathbb{Z}`.
        ParameterName "parameter_name",
        /// A decimal of at least six significant digits is every value that rounds to it.
        SixDigits "six_digits",
        /// An expression whose arithmetic is still to be done is its value: `18 + 3` is 21.
        Evaluated "evaluated",
        /// Words after a number that are neither a unit nor a noun in the plural say nothing.
        AnyNoun "any_noun",
        /// Points, blanks and apostrophes part thousands: `1.234.567`, `12 345`.
        Thousands "thousands",
        /// A comma may be the decimal sign: `3,5`.
        DecimalComma "decimal_comma",
        /// Known units of one dimension are converted by their exact factors.
        UnitConverted "unit_converted",
        /// An equation in one unknown is the list of its solutions.
        Solutions "solutions",
        /// `x + y = 5` and `AB = 5` answer 5, and `\sin x = a` answers a.
        NamedValue "named_value",
        /// The side after `\approx` may answer if it is the exact side rounded to the digits written.
        Approximation "approximation",
        /// A tuple is the list of its entries in that order, and so are assignments to its names; a pair is no answer
        /// to a list of two.
        TupleList "tuple_list",
        /// The ratio `a : b` is the quotient a/b.
        Ratio "ratio",
        /// A decimal that ends in dots is the number whose first digits it gives.
        Ellipsis "ellipsis",
        /// `five` is 5.
        NumberWords "number_words",
        /// Digits without a base answer a reference with one: 52 for `52_8`.
        BaseDropped "base_dropped",
        /// Words that say that there is no solution are the empty set.
        NoSolution "no_solution",
        /// The text of a choice answers as well as its letter does: `(B) 12` answers 12.
        ChoiceText "choice_text",
        /// A point may carry its name: `A(1, 2)`.
        PointName "point_name",
        /// Equations are one where their sides differ by a factor without zeros: `xy = 1` and `y = 1/x`.
        EquivalentEquation "equivalent_equation",
        /// A decimal is every value that rounds to it at its last digit, however few digits it has: 0.33 is 1/3.
        WrittenPrecision "written_precision",
    }
}

impl Rule {
    /// True if the rule works on answers of this kind: on one side, and on the other.
    fn works_with(self, kind: Kind) -> (bool, bool) {
        use Kind::*;
        let among = |kinds: &[Kind]| kinds.contains(&kind);
        let scalar = kind.is_value() || among(&[Ratio, Quantity, Time]);
        // What holds a number, a list or a name and no text.
        let mathematics = !among(&[Word, Date, Choice]);
        let quantity = kind == Quantity;
        let both = |works: bool| (works, works);
        match self {
            Rule::Assignment | Rule::NamedValue => (kind == Equation, true),
            Rule::Scaled => both(among(&[Equation, Relation])),
            Rule::RenamedArgument | Rule::EquivalentEquation => both(kind == Equation),
            Rule::Interval => both(among(&[Interval, Relation, Set, List, Tuple, Equation])),
            Rule::Unordered => both(among(&[List, Counts])),
            Rule::SetBraces => (kind == Set, mathematics),
            Rule::Vector => (among(&[Tuple, Interval, Matrix]), among(&[Matrix, Expression, Number])),
            Rule::PlusMinus => both(scalar || among(&[Equation, List, Set])),
            Rule::Words => both(among(&[Word, Date])),
            Rule::Choice | Rule::ChoiceText => (kind == Choice, true),
            Rule::UnitDropped | Rule::AnyNoun => (quantity || among(&[Time, Counts]), mathematics),
            Rule::UnitConverted => (quantity, quantity || kind == Expression),
            Rule::Degrees | Rule::PercentNumber | Rule::PercentValue => (quantity, mathematics),
            Rule::SignDropped => (kind == Name, among(&[Name, Expression, Word])),
            Rule::NumberedUnknown => (kind == List, mathematics),
            Rule::ParameterName => both(kind == List),
            Rule::Solutions => (among(&[Equation, Relation]), mathematics),
            Rule::TupleList => (among(&[Tuple, List, Equation]), among(&[Tuple, List, Equation, Set])),
            Rule::Ratio => (among(&[Ratio, Time]), scalar),
            Rule::NumberWords => (kind == Word, mathematics),
            Rule::BaseDropped => both(kind == Number),
            Rule::NoSolution => both(among(&[Word, Set])),
            Rule::PointName => (kind == Name, kind == Tuple),
            // These are about the numbers in whatever holds them.
            Rule::SixDigits | Rule::WrittenPrecision | Rule::Ellipsis => both(mathematics),
            Rule::Approximation | Rule::Evaluated | Rule::Thousands | Rule::DecimalComma => both(mathematics),
        }
    }

    /// True if the rule works on answers of these kinds, whichever is the reference. On others it changes no verdict.
    pub fn works_on(self, a: Kind, b: Kind) -> bool {
        let (one, other) = (self.works_with(a), self.works_with(b));
        one.0 && other.1 || one.1 && other.0
    }
}

/// A set of rules.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Rules(u64);

impl Rules {
    /// No rule.
    pub const NONE: Rules = Rules(0);
    /// The conventions of the strict mode, which training uses.
    pub const STRICT: Rules = Rules::up_to(Rule::SixDigits);
    /// All but [`Rule::WrittenPrecision`].
    pub const LENIENT: Rules = Rules::up_to(Rule::EquivalentEquation);

    const fn up_to(last: Rule) -> Rules {
        Rules((1 << (last as u8 + 1)) - 1)
    }

    /// True if `rule` is among them.
    pub const fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u8) != 0
    }

    /// Adds a rule.
    #[must_use]
    pub const fn with(self, rule: Rule) -> Rules {
        Rules(self.0 | 1 << rule as u8)
    }

    /// Removes a rule.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Rules {
        Rules(self.0 & !(1 << rule as u8))
    }

    /// The rules in either set.
    #[must_use]
    pub const fn and(self, others: Rules) -> Rules {
        Rules(self.0 | others.0)
    }

    /// The rules that are not in `others`.
    #[must_use]
    pub const fn minus(self, others: Rules) -> Rules {
        Rules(self.0 & !others.0)
    }

    /// True if there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The rules in the order of [`Rule::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Rule> {
        Rule::ALL.iter().copied().filter(move |rule| self.has(*rule))
    }

    /// Reads `strict`, `lenient`, and changes to them, or to `strict`: `strict,+unit_converted,-six_digits`.
    ///
    /// ```
    /// use grpo_lambda_grade::{Rule, Rules};
    /// let rules = Rules::parse("lenient,-solutions")?;
    /// assert!(rules.has(Rule::Ratio) && !rules.has(Rule::Solutions));
    /// # Ok::<(), grpo_lambda_grade::RulesError>(())
    /// ```
    ///
    /// # Errors
    /// Errors if a part names no rule.
    pub fn parse(text: &str) -> Result<Rules, RulesError> {
        let mut rules = Rules::STRICT;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let rule = |name: &str| Rule::find(name).ok_or_else(|| RulesError(part.to_owned()));
            rules = match (part, part.strip_prefix('+'), part.strip_prefix('-')) {
                ("strict", ..) => Rules::STRICT,
                ("lenient", ..) => Rules::LENIENT,
                (_, Some(name), _) => rules.with(rule(name)?),
                (_, _, Some(name)) => rules.without(rule(name)?),
                _ => return Err(RulesError(part.to_owned())),
            };
        }
        Ok(rules)
    }

    /// The shortest text that [`Rules::parse`] reads as this set.
    pub fn spelled(self) -> String {
        let from = |name: &str, base: Rules| {
            let more = self.minus(base).iter().map(|rule| format!(",+{}", rule.name()));
            let fewer = base.minus(self).iter().map(|rule| format!(",-{}", rule.name()));
            name.to_owned() + &more.chain(fewer).collect::<String>()
        };
        let (strict, lenient) = (from("strict", Rules::STRICT), from("lenient", Rules::LENIENT));
        if lenient.len() < strict.len() { lenient } else { strict }
    }
}

/// The names with commas between them.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Rule::name).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rules({self})")
    }
}

/// A text that names no set of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no rule; must be strict, lenient, or +NAME or -NAME of a rule, with commas between them"
)]
pub struct RulesError(String);
