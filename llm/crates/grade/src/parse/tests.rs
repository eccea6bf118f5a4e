//! The tree of each construction: that of another spelling, one written out, or none.

use super::*;
use crate::tests::{budget, hold, read as strict};

const STRICT: Spelling = Spelling::STRICT;
const WIDE: Spelling = Spelling::WIDE;

fn read(text: &str, spelling: Spelling) -> Result<Node, Reason> {
    parse(text, spelling, &mut budget()).map(|reading| reading.node)
}

#[test]
fn spellings_make_one_tree_or_none() {
    hold(include_str!("cases.tsv"), 96, |section, fields| {
        let (section, spelling) = match section.strip_prefix("lenient ") {
            Some(section) => (section, WIDE),
            None => (section, STRICT),
        };
        let (found, other) = (read(&fields[0], spelling), read(&fields[1], spelling));
        let agrees = match (section, &found) {
            ("tree", Ok(node)) => format!("{node:?}").contains(&fields[1]),
            ("same", _) => found.is_ok() && found == other,
            (_, Err(reason)) => reason.to_string().contains(&fields[1]),
            _ => false,
        };
        (agrees, format!("{found:?}, {other:?}"))
    });
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
