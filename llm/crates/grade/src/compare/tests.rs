//! Verdicts on pairs, with the rules that they rest on.

use super::*;
use crate::answer::Answer;
use crate::rules::Rules;
use crate::tests::{budget, hold, read, said};

#[test]
fn pairs_are_judged_by_their_rules() {
    hold(include_str!("verdicts.tsv"), 237, |name, fields| {
        let rules = match name {
            "strict" => Rules::STRICT,
            "lenient" => Rules::LENIENT,
            _ => Rules::NONE,
        };
        let [own, other] = [&fields[0], &fields[1]].map(|text| Answer::read_by(text, rules));
        let found = own.compare(&other).to_string();
        (found == fields[2], found)
    });
}

/// The words of a step on a text, as `names.tsv` writes them.
fn step(name: &str, text: &Node, other: Option<&Node>) -> String {
    match (name, other) {
        ("point name", _) => said(Ok(crate::kind::named_point(text).map(|(name, _)| name))),
        ("combinations", _) => names::combinations(text).is_some().to_string(),
        ("names a value", _) => names::names_a_value(text).to_string(),
        ("quantity", _) => names::is_quantity(text, &mut budget()).unwrap_or(false).to_string(),
        ("coordinates", _) => names::has_coordinates(text).to_string(),
        ("one name", Some(other)) => names::one_name(text, other).to_string(),
        ("solutions", Some(other)) => said(same(text, other, &mut budget()).map(Some)),
        ("without numbers", _) => names::without_numbers(text).is_some().to_string(),
        ("parameter", _) => said(Ok(names::parameter(text).map(|(name, _)| name))),
        ("tuples", _) => said(Ok(names::tuples(text).map(|rows| rows.children().len()))),
        _ => {
            let names = |all: Vec<(String, Node)>| all.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
            said(Ok(names::assignments(text).map(|all| names(all).join(" "))))
        }
    }
}

#[test]
fn names_and_what_carries_them_are_reported_as_the_table_says() {
    hold(include_str!("names.tsv"), 76, |name, fields| {
        let (texts, said) = fields.split_at(fields.len() - 1);
        let nodes: Vec<Node> = texts.iter().map(|text| read(text)).collect();
        let found = step(name, &nodes[0], nodes.get(1));
        (found == said[0], found)
    });
}
