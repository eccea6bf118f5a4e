//! Training sees integers only; these are its rules.

use super::*;

fn verdict(response: &str, gold: &str) -> Verdict {
    grade(&Prediction::of(response), &Gold::parse(gold).expect("an integer"))
}

#[test]
fn the_last_balanced_box_is_the_answer() {
    assert_eq!(verdict(r"\boxed{3} no, \boxed{4}", "4"), Verdict::Equal);
    assert_eq!(verdict(r"\boxed{3} no, \boxed{4}", "3"), Verdict::Different);
    assert_eq!(verdict(r"\boxed{5} and \boxed{4", "5"), Verdict::Equal);
    assert_eq!(verdict(r"\boxed{5", "5"), Verdict::Ungradable(Reason::NoAnswer));
    assert_eq!(Prediction::of(r"\boxed{\{a\}}").answer(), Some(r"\{a\}"));
    assert_eq!(Prediction::of(r"\boxed{a{b}c}d}").answer(), Some("a{b}c"));
    assert_eq!(Prediction::of(r"\boxed{\boxed{2}}").answer(), Some("2"));
}

#[test]
fn integers_compare_by_value_whatever_their_size_or_spelling() {
    for spelling in ["12", " 12 ", "+12", "0012", "$12$"] {
        assert_eq!(verdict(&format!(r"\boxed{{{spelling}}}"), "12"), Verdict::Equal, "{spelling}");
    }
    assert_eq!(verdict(r"\boxed{-0}", "0"), Verdict::Equal);
    assert_eq!(verdict(r"\boxed{-12}", "12"), Verdict::Different);
    assert_eq!(verdict(r"\boxed{1,234,567}", "1234567"), Verdict::Equal);
    let big = "9".repeat(60);
    assert_eq!(verdict(&format!(r"\boxed{{{big}}}"), &big), Verdict::Equal);
    assert_eq!(verdict(&format!(r"\boxed{{{big}1}}"), &big), Verdict::Different);
    assert_eq!(Gold::from(i64::MIN).to_string(), i64::MIN.to_string());
}

#[test]
fn what_is_not_an_integer_is_neither_right_nor_wrong() {
    for text in ["1.0", "1/2", "x", "1 2", "--1", "1,23", ",1", "１２", "1e3", "-"] {
        let verdict = verdict(&format!(r"\boxed{{{text}}}"), "1");
        assert_eq!(verdict, Verdict::Ungradable(Reason::NotAnInteger(text.to_owned())));
        assert_eq!(verdict.reward(), None);
    }
    assert_eq!(verdict(r"\boxed{ }", "1").reward(), Some(0.0));
    assert!(Gold::parse("1.5").is_err());
}
