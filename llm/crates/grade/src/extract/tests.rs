//! Each step of the extraction by hand.

use super::chain::formula;
use super::environments::environments;
use super::language::language;
use super::phrases::{PHRASES, announced};
use super::prose::{balanced, is_prose, runs};
use super::{Extraction, FoundBy, Prediction, free, statement};
use crate::tests::hold;

fn found(text: &str) -> Option<String> {
    free::answer(text).map(|found| found.answer)
}

/// The result of a step on a text, as `cases.tsv` writes it.
fn step(name: &str, text: &str) -> Vec<String> {
    let one = |found: Option<&str>| vec![found.unwrap_or("-").to_owned()];
    let several = |found: Vec<&str>| one(Some(found.join(" | ").as_str()).filter(|said| !said.is_empty()));
    match name {
        "runs" => several(runs(text).into_iter().map(|place| &text[place]).collect()),
        "prose" => vec![is_prose(text).to_string()],
        "lowered" => vec![super::clean::lowered(text)],
        "unmarked" => one(Some(free::unmarked(text))),
        "balanced" => one(Some(balanced(text))),
        "answer" => one(found(text).as_deref()),
        "choice" => one(free::choice(text)),
        "cleaned" => vec![super::clean::cleaned(text, 0).text],
        "environments" => several(environments(text).into_iter().map(|e| &text[e.inner]).collect()),
        "reference" => [Extraction::Free, Extraction::Auto].map(|way| way.reference(text)).into(),
        "joined" => one(super::boxes::last_box(text).as_deref()),
        "announced" => one(announced(text, &PHRASES.answer).map(|(_, at)| &text[at..])),
        "sentences" => {
            let places = statement::sentences(&statement::Prose::read(text));
            several(places.into_iter().map(|place| &text[place]).collect())
        }
        "formula" => {
            let said = formula(text, 0..text.len()).unwrap();
            let parts = [Some(said.answer), said.value, said.left];
            parts.into_iter().map(|part| part.unwrap_or("-".to_owned())).collect()
        }
        "role" => {
            let (word, said) = text.split_once(": ").unwrap();
            one(language(said).role(word).map(|role| format!("{role:?}")).as_deref())
        }
        "joins" => vec![statement::joins(text).to_string()],
        "formula kind" => vec![format!("{:?}", formula(text, 0..text.len()).unwrap().kind)],
        way => one(Prediction::extract(text, Extraction::find(way).unwrap()).answer()),
    }
}

#[test]
fn each_step_makes_of_a_text_what_the_table_says() {
    hold(include_str!("cases.tsv"), 199, |name, fields| {
        let found = step(name, &fields[0]);
        (found == fields[1..], format!("{found:?}"))
    });
}

#[test]
fn a_marked_answer_is_found_at_its_mark() {
    let words = "so it goes on and on ".repeat(100);
    let sum = "1 + ".repeat(60) + "1";
    for (response, wanted) in
        [(format!("The answer is 5.\n{words}"), "5"), (format!("The answer is 3.\n#### {sum}"), "3")]
    {
        assert_eq!(found(&response).as_deref(), Some(wanted), "{response}");
    }
}

#[test]
fn a_mark_is_looked_for_near_the_end_and_a_box_everywhere() {
    let words = "so it goes on and on\n".repeat(2000);
    assert_eq!(found(&format!("The answer is 5.\n{words}")), None);
    assert_eq!(found(&format!("It is \\boxed{{5}}.\n{words}")).as_deref(), Some("5"));
}

#[test]
fn an_answer_has_its_place_its_rule_and_its_value() {
    // After a word and many lines a sentence says the same.
    let far = format!("box{}", "\n".repeat(40_000));
    hold(include_str!("places.tsv"), 183, |rule, fields| {
        let text = fields[0].replace(['⟦', '⟧'], "");
        let field = |i: usize| fields.get(i).filter(|field| !field.is_empty()).cloned();
        let read = |ahead: &str| {
            let found = Prediction::extract(&format!("{ahead}{text}"), Extraction::Free).into_found();
            let Some(found) = found else { return (rule == "-", text.clone()) };
            let [start, end] = [found.span.start, found.span.end].map(|at| at - ahead.len());
            let marked = format!("{}⟦{}⟧{}", &text[..start], &text[start..end], &text[end..]);
            let answer = field(1).unwrap_or(text[start..end].to_owned());
            let agrees = (found.rule.name(), &marked, &found.answer) == (rule, &fields[0], &answer);
            (agrees && found.value == field(2), format!("{marked}: {found:?}"))
        };
        let near = matches!(rule, "whole" | "text" | "box");
        Some(read("")).filter(|found| near || !found.0).unwrap_or_else(|| read(&far))
    });
    assert_eq!(Prediction::extract("it is 12", Extraction::Any).found().unwrap().rule, FoundBy::LastNumber);
    assert!(
        FoundBy::ALL.iter().all(|rule| !rule.about().is_empty() && FoundBy::find(rule.name()) == Some(*rule))
    );
}
