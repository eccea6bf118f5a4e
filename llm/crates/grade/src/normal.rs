//! Normal forms of constants: values, as against arithmetic that is still to be done.
//!
//! A rational number is in normal form as an integer, a decimal, a fraction that is no integer (`\frac{6}{8}`, but not
//! `\frac{52}{2}`), a mixed number, or a decimal times a power of ten; another constant if no rational part is left to
//! work out (`2\sqrt{8}`, but not `2\sqrt{9}`) and it has a sum or a function only where the reference has one.

use num_integer::Integer as _;
use num_traits::One;

use super::budget::Budget;
use super::exact;
use super::node::{Function, Node};
use super::rules::Rules;

/// Digits from which a decimal may stand for any other constant.
const ROUNDED: u32 = 6;

/// Parts of which the constants of an answer are made.
#[derive(Clone, Copy, Debug, Default)]
struct Form {
    /// Arithmetic with rational numbers is still to be done.
    undone: bool,
    sum: bool,
    /// A function other than a root, or a power.
    call: bool,
    /// A decimal of many digits, which may stand for a sum of radicals.
    decimal: bool,
}

/// True if the answer is a value, or an expression as the reference is one.
pub(super) fn is_evaluated(answer: &Node, reference: &Node) -> bool {
    let mut budget = Budget::new(Rules::NONE);
    let (mut own, mut wanted) = (Form::default(), Form::default());
    values(answer, &mut own, &mut budget);
    if !(own.undone || own.sum || own.call) {
        return true;
    }
    values(reference, &mut wanted, &mut budget);
    wanted.undone || !own.undone && (wanted.call || wanted.decimal || !own.call && (wanted.sum || !own.sum))
}

/// True for what is more than a number, a word or a name: it has a sign of arithmetic, a bracket, a relation.
pub(super) fn is_compound(node: &Node) -> bool {
    match node {
        Node::Unit(inner, _) | Node::Percent(inner) | Node::Degrees(inner) => is_compound(inner),
        Node::Number(_) | Node::Numeral(..) | Node::Symbol(_) | Node::Words(_) | Node::Time(_) => false,
        Node::Pi | Node::Euler | Node::Imaginary | Node::Infinity => false,
        Node::Sum(terms) if terms.len() == 1 => is_compound(&terms[0].1),
        _ => node.fraction().is_none_or(|(top, bottom)| !top.gcd(bottom).is_one()),
    }
}

/// Adds the form of each constant in an answer that stands for a value; of an equation that of its last side.
fn values(node: &Node, form: &mut Form, budget: &mut Budget) {
    match node {
        Node::Chain(_, rest, _) => rest.last().into_iter().for_each(|(_, side)| values(side, form, budget)),
        Node::Apply(..) | Node::Logic(..) => {}
        // Degrees with minutes and seconds.
        Node::Degrees(inner) if has_minutes(inner) => {}
        _ if node.is_expression() && !matches!(node, Node::Degrees(_) | Node::Percent(_)) => {
            if !node.has_symbols() {
                constant(node, form, budget);
            }
        }
        _ => node.children().into_iter().for_each(|part| values(part, form, budget)),
    }
}

fn constant(node: &Node, form: &mut Form, budget: &mut Budget) {
    let rational = |node: &Node, budget: &mut Budget| !matches!(exact::rational(node, budget), Ok(None));
    if rational(node, budget) {
        form.undone |= !is_rational_form(node);
        form.decimal |=
            matches!(node, Node::Number(number) if number.places.is_some() && number.significant >= ROUNDED);
        return;
    }
    let mut several = |list: &[&Node]| list.iter().filter(|part| rational(part, budget)).count() > 1;
    match node {
        Node::Sum(terms) => {
            form.undone |= several(&node.children());
            form.sum |= terms.len() > 1;
        }
        Node::Product(factors) => {
            let side = |below| factors.iter().filter(move |f| f.0 == below).map(|f| &f.1).collect::<Vec<_>>();
            let roots = factors.iter().filter(|(_, n)| matches!(n, Node::Call(Function::Root, _))).count();
            form.undone |= several(&side(false)) || several(&side(true)) || roots > 1;
        }
        Node::Call(function, _) => form.call |= *function != Function::Root,
        Node::Power(base, exponent) => {
            let root = exact::rational(exponent, budget).ok().flatten().is_some_and(|n| !n.is_integer());
            form.call |= !root || **base == Node::Euler;
        }
        _ => {}
    }
    node.children().into_iter().for_each(|part| constant(part, form, budget));
}

/// True for a spelling of a rational number that leaves nothing to do.
fn is_rational_form(node: &Node) -> bool {
    let ten = |n: &Node| matches!(n, Node::Power(base, exponent) if **base == Node::integer(10) && exponent.as_integer().is_some());
    match node {
        Node::Number(_) => true,
        Node::Sum(terms) => terms.len() == 1 && is_rational_form(&terms[0].1),
        Node::Percent(inner) | Node::Unit(inner, _) => is_rational_form(inner),
        Node::Product(factors) => match &factors[..] {
            [(false, Node::Number(_)), (false, power)] => ten(power),
            _ => node.fraction().is_some_and(|(top, bottom)| !top.is_multiple_of(bottom)),
        },
        power => ten(power),
    }
}

fn has_minutes(degrees: &Node) -> bool {
    let Node::Sum(terms) = degrees else { return false };
    let parts = [Node::integer(60), Node::integer(3600)];
    terms[1..].iter().all(|(_, part)| {
        matches!(part, Node::Product(factors)
            if matches!(&factors[..], [(false, Node::Number(_)), (true, below)] if parts.contains(below)))
    })
}
