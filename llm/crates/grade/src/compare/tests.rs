//! Verdicts on pairs, with the rules that they rest on.

use super::*;
use crate::answer::Answer;
use crate::rules::Rules;
use crate::tests::{budget, cases, read};

#[test]
fn pairs_are_judged_by_their_rules() {
    let all = cases(include_str!("verdicts.tsv"));
    assert_eq!(all.len(), 160);
    for (section, fields) in all {
        let rules = match section.split(':').next() {
            Some("strict") => Rules::STRICT,
            Some("lenient") => Rules::LENIENT,
            _ => Rules::NONE,
        };
        let [own, other] = [&fields[0], &fields[1]].map(|text| Answer::read_by(text, rules));
        assert_eq!(own.compare(&other).to_string(), fields[2], "{section}: {fields:?}");
    }
}

/// The comparison alone; an answer as a whole may set its open verdicts aside.
#[test]
fn an_equation_has_no_more_solutions_or_is_undecided() {
    let decided = |own: &str, other: &str| same(&read(own), &read(other), &mut budget());
    let undecided = Err(Reason::Undecided("whether an equation has more solutions than those given".into()));
    assert_eq!(decided("3^x=27", "3"), undecided);
    assert_eq!(decided("3^x=27", "2"), Ok(false));
    // From 0 upwards this is a square.
    assert_eq!(decided("x|x|=4", "2"), undecided);
    assert_eq!(decided("x^2=4", "(1,2),3"), Ok(false));
    assert_eq!(decided(r"x^2=\{1,2\}", "1"), Ok(false));
}
