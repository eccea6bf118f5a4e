//! Training sees integers only; these are its rules.

use super::*;

fn verdict(response: &str, gold: &str) -> Verdict {
    let found = Gold::parse(gold).expect("an integer").grade(&Prediction::of(response));
    Verdict { extracted: None, ..found }
}

const EQUAL: Option<bool> = Some(true);
const DIFFERENT: Option<bool> = Some(false);

#[test]
fn the_last_balanced_box_is_the_answer() {
    assert_eq!(verdict(r"\boxed{3} no, \boxed{4}", "4").equal, EQUAL);
    assert_eq!(verdict(r"\boxed{3} no, \boxed{4}", "3").equal, DIFFERENT);
    assert_eq!(verdict(r"\boxed{5} and \boxed{4", "5").equal, EQUAL);
    assert_eq!(verdict(r"\boxed{5", "5"), Verdict::open(Reason::NoAnswer));
    assert_eq!(Prediction::of(r"\boxed{\{a\}}").answer(), Some(r"\{a\}"));
    assert_eq!(Prediction::of(r"\boxed{a{b}c}d}").answer(), Some("a{b}c"));
    assert_eq!(Prediction::of(r"\boxed{\boxed{2}}").answer(), Some("2"));
}

#[test]
fn integers_compare_by_value_whatever_their_size_or_spelling() {
    for spelling in ["12", " 12 ", "+12", "0012", "$12$"] {
        assert_eq!(verdict(&format!(r"\boxed{{{spelling}}}"), "12").equal, EQUAL, "{spelling}");
    }
    assert_eq!(verdict(r"\boxed{-0}", "0").equal, EQUAL);
    assert_eq!(verdict(r"\boxed{-12}", "12").equal, DIFFERENT);
    assert_eq!(verdict(r"\boxed{1,234,567}", "1234567").equal, EQUAL);
    let big = "9".repeat(60);
    assert_eq!(verdict(&format!(r"\boxed{{{big}}}"), &big).equal, EQUAL);
    assert_eq!(verdict(&format!(r"\boxed{{{big}1}}"), &big).equal, DIFFERENT);
    assert_eq!(Gold::from(i64::MIN).to_string(), i64::MIN.to_string());
}

#[test]
fn what_is_not_an_integer_is_neither_right_nor_wrong() {
    for text in ["1.0", "1/2", "x", "1 2", "--1", "1,23", ",1", "１２", "1e3", "-"] {
        let verdict = verdict(&format!(r"\boxed{{{text}}}"), "1");
        assert_eq!(verdict, Verdict::open(Reason::NotAnInteger(text.to_owned())));
        assert_eq!(verdict.reward(), None);
    }
    assert_eq!(verdict(r"\boxed{ }", "1").reward(), Some(0.0));
    assert!(Gold::parse("1.5").is_err());
}
