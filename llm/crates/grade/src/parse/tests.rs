//! The tree of each construction: that of another spelling, one written out, or none.

use super::*;
use crate::node::Sign;
use crate::tests::{agree, budget, cases, read as strict};
use crate::units::Unit;

const STRICT: Spelling = Spelling::STRICT;
const WIDE: Spelling = Spelling::WIDE;

fn read(text: &str, spelling: Spelling) -> Result<Node, Reason> {
    parse(text, spelling, &mut budget()).map(|reading| reading.node)
}

fn wide(text: &str) -> Node {
    read(text, WIDE).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn n(value: i64) -> Node {
    Node::integer(value)
}

fn unit(value: Node, name: &str) -> Node {
    Node::Unit(Box::new(value), Unit::Measure(name.into()))
}

#[test]
fn trees_written_out() {
    let x = || Node::Symbol("x".into());
    let plus = |a: Node, b: Node| Node::Sum(vec![(Sign::Plus, a), (Sign::Plus, b)]);
    assert_eq!(strict("-x\\text{ cm}"), Node::Sum(vec![(Sign::Minus, unit(x(), "cm"))]));
    assert_eq!(strict("1\\text{ cm}+2\\text{ cm}"), plus(unit(n(1), "cm"), unit(n(2), "cm")));
    assert_eq!(strict("5''"), unit(n(5), "''"));
    assert_eq!(strict("5'"), unit(n(5), "'"));
    assert_eq!(strict("e_2"), Node::Symbol("e_2".into()));
    assert_eq!(strict("i_2"), Node::Symbol("i_2".into()));
    assert_eq!(strict("\\bar x"), Node::Symbol("bar x".into()));
    let equation = Node::Chain(Box::new(Node::Symbol("f''".into())), vec![(Relation::Equal, n(5))], true);
    assert_eq!(strict("f''=5"), equation);
    for power in ["\\mathbb{R}^{+1}", "\\mathbb{R}^{-1}", "\\mathbb{R}^2"] {
        assert!(matches!(strict(power), Node::Power(..)), "{power}");
    }
    assert!(matches!(strict("\\{x\\in\\mathbb{Z}\\mid x>2\\}"), Node::All(_)));
    assert!(matches!(&strict("2,2,\\ldots,5"), Node::List(items) if items.contains(&Node::Dots)));
    assert!(matches!(&strict("1,2,\\ldots,-3"), Node::List(items) if items.contains(&Node::Dots)));
}

#[test]
fn spellings_make_one_tree_or_none() {
    let all = cases(include_str!("cases.tsv"));
    assert_eq!(all.len(), 77);
    agree(all.iter().map(|(section, fields)| {
        let lenient = section.strip_prefix("lenient: ");
        let spelling = if lenient.is_some() { WIDE } else { STRICT };
        let (found, other) = (read(&fields[0], spelling), read(&fields[1], spelling));
        let agrees = match (lenient.unwrap_or(section), &found) {
            ("same", _) => found.is_ok() && found == other,
            (_, Err(reason)) => reason.to_string().contains(&fields[1]),
            _ => false,
        };
        (agrees, format!("{fields:?}: {found:?}, {other:?}"))
    }));
}

#[test]
fn the_lenient_rules_read_endings_and_units_in_words() {
    let ordinal = |value: i64| Node::Unit(Box::new(n(value)), Unit::Noun(String::new()));
    assert_eq!(wide("21^{\\text{st}}"), ordinal(21));
    assert_eq!(wide("x+21^{\\text{st}}"), Node::Unit(Box::new(strict("x+21")), Unit::Noun(String::new())));
    assert_eq!(wide("3^{rd}"), ordinal(3));
    for (text, spelling) in [("21^{\\text{st}}", STRICT), ("3^{rd}", STRICT), ("5^{\\text{ab}}", WIDE)] {
        assert!(matches!(read(text, spelling), Ok(Node::Power(..))), "{text}");
    }
    assert_eq!(wide("5\\text{ cm and m}"), unit(n(5), "cm m"));
    assert_eq!(strict("5\\text{ cm and m}"), Node::Unit(Box::new(n(5)), Unit::Noun("cm and m".into())));
    let time = wide("3 hours 20 minutes");
    assert!(matches!(&time, Node::Unit(sum, Unit::Measure(_)) if matches!(**sum, Node::Sum(_))), "{time:?}");
}

#[test]
fn numbers_have_a_value_places_and_a_largest_size() {
    let half = num_rational::BigRational::new((-5).into(), 2.into());
    assert_eq!(number::mixed(&(-2).into(), 1, 2), Node::exact(half));
    let places = |text: &str| match strict(text) {
        Node::Number(number) => number.places,
        other => panic!("{other:?}"),
    };
    let found = ["1.5", "1.5e2", "1.5e-2", "0.\\overline{3}"].map(places);
    assert_eq!(found, [Some(1), Some(-1), Some(3), None]);
    let long = |digits: usize| read(&"1".repeat(digits), STRICT);
    let power = |exponent: u32| read(&format!("1e{exponent}"), STRICT);
    let octal = |digits: usize| read(&format!("{}_8", "1".repeat(digits)), STRICT);
    assert!(long(2000).is_ok() && power(2000).is_ok() && octal(2000).is_ok());
    for over in [1, 2] {
        assert!(matches!(long(2000 + over), Err(Reason::TooLarge(_))));
        assert!(matches!(power(2000 + over as u32), Err(Reason::TooLarge(_))));
        assert!(matches!(octal(2000 + over), Err(Reason::TooLarge(_))));
    }
}

#[test]
fn depth_is_counted_and_length_is_not() {
    assert!(read(&format!("{}1", "x+".repeat(500)), STRICT).is_ok());
    let pile = |sign: &str, times: usize| read(&format!("x{}", sign.repeat(times)), STRICT);
    for sign in ["!", "\\%", "^\\circ"] {
        assert!(pile(sign, 8).is_ok(), "{sign}");
        assert!(pile(sign, 9).is_err() && pile(sign, 10).is_err(), "{sign}");
    }
    let tower = |open: &str, close: &str, times: usize| {
        read(&format!("{}1{}", open.repeat(times), close.repeat(times)), STRICT)
    };
    let highest =
        |open: &str, close: &str| (1..200).take_while(|times| tower(open, close, *times).is_ok()).count();
    // Each is four levels: a relation, a sum, a factor and its brackets.
    let most = DEPTH as usize / 4 - 1;
    for (open, close) in [("\\sqrt{", "}"), ("\\frac{", "}{2}"), ("(", ")")] {
        assert_eq!(highest(open, close), most, "{open}");
    }
}
