//! The tree of each construction: that of another spelling, one written out, or none.

use super::*;
use crate::node::Sign;
use crate::tests::{budget, read as strict};

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
    Node::Unit(Box::new(value), Some(name.into()))
}

#[test]
fn two_spellings_of_one_tree() {
    for (one, other) in [
        ("2|x|", "2 \\cdot |x|"),
        ("|x||y|", "|x| \\cdot |y|"),
        ("(2)\\frac12", "2 \\cdot \\frac12"),
        ("3\\frac22", "3 \\cdot \\frac22"),
        ("\\sin{x}y", "\\sin(x)y"),
        ("\\cos^{-1}x", "\\arccos x"),
        ("\\tan^{-1}x", "\\arctan x"),
        ("1,\\ldots,4", "1,2,3,4"),
        ("4,\\ldots,1", "4,3,2,1"),
        ("2,4,\\ldots,10", "2,4,6,8,10"),
        ("[0,1[", "[0,1)"),
        ("]0,1[", "(0,1)"),
        ("]0,1]\\cup]2,3[", "(0,1]\\cup(2,3)"),
        ("x^{\\prime}", "x'"),
        ("x+y^{''}", "x+y''"),
        ("90^\\circ 30^'", "90^\\circ 30'"),
        ("90^\\circ 30^{'}", "90^\\circ 30'"),
        ("5\\text{ kg}\\cdot\\text{m}", "5\\text{ kg m}"),
        ("\\begin{aligned}x&=2+3\\\\&=5\\end{aligned}", "x=2+3=5"),
        ("12\\circ", "12^\\circ"),
        ("90^\\circ x", "90^\\circ \\cdot x"),
        ("C_5^2", "\\binom52"),
        ("C_{12}^{3}", "\\binom{12}{3}"),
        ("\\mathbb{R}^+", "(0,\\infty)"),
        ("\\mathbb{R}^{+}", "(0,\\infty)"),
        ("\\mathbb{R}^-", "(-\\infty,0)"),
        ("\\mathbb{R}^{-}", "(-\\infty,0)"),
        ("\\{x\\in\\mathbb{R}\\mid x>2\\}", "\\{x\\mid x>2\\}"),
        ("5\\text{ cm}^1", "5\\text{ cm}"),
        ("5\\text{ kg}/m", "5\\text{ kg/m}"),
        ("\\begin{aligned}x&=5\\end{aligned}", "x=5"),
        ("\\begin{aligned}&=5\\end{aligned}", "5"),
        ("\\begin{cases}x>1\\\\x<3\\end{cases}", "x>1 \\text{ and } x<3"),
        ("\\begin{cases}x&=1\\\\y&=2\\end{cases}", "x=1,y=2"),
        ("\\begin{aligned}x+1&=3\\\\x&=2\\end{aligned}", "x=2"),
        ("\\begin{aligned}y+1&=3\\\\x&=2\\end{aligned}", "y+1=3,x=2"),
        ("\\begin{aligned}x&=1\\\\x&=2\\end{aligned}", "x=1,x=2"),
    ] {
        assert_eq!(strict(one), strict(other), "{one} and {other}");
    }
}

#[test]
fn trees_written_out() {
    let x = || Node::Symbol("x".into());
    let plus = |a: Node, b: Node| Node::Sum(vec![(Sign::Plus, a), (Sign::Plus, b)]);
    assert_eq!(strict("0 and 4"), Node::List(vec![n(0), n(4)]));
    assert_eq!(strict("2 + 3\\text{ cm}"), unit(plus(n(2), n(3)), "cm"));
    assert_eq!(strict("-x\\text{ cm}"), Node::Sum(vec![(Sign::Minus, unit(x(), "cm"))]));
    assert_eq!(strict("1\\text{ cm}+2\\text{ cm}"), plus(unit(n(1), "cm"), unit(n(2), "cm")));
    assert_eq!(strict("5''"), unit(n(5), "''"));
    assert_eq!(strict("5'"), unit(n(5), "'"));
    assert_eq!(strict("(5\\text{ cm})'"), unit(n(5), "cm"));
    assert_eq!(strict("5€"), unit(n(5), "euro"));
    assert_eq!(strict("20\\text{ degrees }C"), unit(n(20), "degree-C"));
    assert_eq!(strict("e_2"), Node::Symbol("e_2".into()));
    assert_eq!(strict("i_2"), Node::Symbol("i_2".into()));
    assert_eq!(strict("\\bar x"), Node::Symbol("bar x".into()));
    assert_eq!(strict("\\bar{5}"), n(5));
    let minutes = |value: i64, parts: i64| Node::Product(vec![(false, n(value)), (true, n(parts))]);
    let degrees = |parts: Vec<Node>| {
        Node::Degrees(Box::new(Node::Sum(parts.into_iter().map(|part| (Sign::Plus, part)).collect())))
    };
    assert_eq!(strict("90^\\circ 30'"), degrees(vec![n(90), minutes(30, 60)]));
    assert_eq!(strict("90^\\circ 30''"), degrees(vec![n(90), minutes(30, 3600)]));
    assert_eq!(strict("90^\\circ 30' 20''"), degrees(vec![n(90), minutes(30, 60), minutes(20, 3600)]));
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
fn what_cannot_be_read_is_named() {
    for (text, why) in [
        ("=", "a relation sign where a value should be"),
        ("\\%", "percent where a value should be"),
        (",", "nothing where a value should be"),
        (")", "nothing where a value should be"),
        ("]", "a bracket that is not closed"),
        ("5]", "a bracket `]` is not expected there"),
        ("1 3/2", "two numbers side by side"),
        ("x 1 1/2", "two numbers side by side"),
        ("1 1.5/2", "two numbers side by side"),
        ("x^{}", "empty braces"),
        ("[0,1,2[", "a bracket that is not closed"),
        ("\\lfloor 1,2\\rfloor", "brackets that do not match"),
        ("\\lceil 1,2\\rceil", "brackets that do not match"),
        ("(4]", "brackets that do not match"),
        ("()", "empty brackets"),
        ("\\sin(2,1)", "a function with the wrong number of arguments"),
        ("\\max()", "a function with the wrong number of arguments"),
        ("3x\\circ", "circ is not expected there"),
        ("12\\circ+1", "circ is not expected there"),
        ("\\hat{5}", "an accent over something that is not a symbol"),
        ("\\begin{aligned}\\end{aligned}", "an environment without rows"),
        ("\\begin{pmatrix}1&2\\\\3\\end{pmatrix}", "a matrix whose rows differ in length"),
        ("5\\text{ kg}/\\alpha", "a unit that breaks off"),
        ("3\\text{ hours }20\\text{ minutes}", "the number 20 is not expected there"),
        ("10^{}", "empty braces"),
    ] {
        let found = read(text, STRICT).expect_err(text).to_string();
        assert!(found.contains(why), "{text}: {found}");
    }
}

#[test]
fn the_lenient_rules_read_endings_and_units_in_words() {
    let ordinal = |value: i64| Node::Unit(Box::new(n(value)), None);
    assert_eq!(wide("21^{\\text{st}}"), ordinal(21));
    assert_eq!(wide("x+21^{\\text{st}}"), Node::Unit(Box::new(strict("x+21")), None));
    assert_eq!(wide("3^{rd}"), ordinal(3));
    for (text, spelling) in [("21^{\\text{st}}", STRICT), ("3^{rd}", STRICT), ("5^{\\text{ab}}", WIDE)] {
        assert!(matches!(read(text, spelling), Ok(Node::Power(..))), "{text}");
    }
    assert_eq!(wide("x+10^{}"), wide("x+10"));
    assert_eq!(wide("{2^{n}}"), wide("2^n"));
    assert!(read("2^}", WIDE).is_err());

    assert_eq!(wide("5\\text{ cm and m}"), unit(n(5), "cm m"));
    assert_eq!(strict("5\\text{ cm and m}"), Node::Unit(Box::new(n(5)), None));
    assert_eq!(wide("72\\text{ km per hour}"), wide("72\\text{ km/hour}"));
    let time = wide("3 hours 20 minutes");
    assert!(matches!(&time, Node::Unit(sum, Some(_)) if matches!(**sum, Node::Sum(_))), "{time:?}");
    assert_eq!(wide("3 hours and 20 minutes"), time);
    assert!(read("3 hours 4 hours", WIDE).is_err());
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
