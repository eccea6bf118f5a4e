//! Integers as training sees them, references, verdicts and sets of rules; helpers of all tests.

use super::budget::Budget;
use super::lex::Spelling;
use super::node::Node;
use super::*;

pub(super) fn budget() -> Budget {
    Budget::new(Rules::LENIENT)
}

/// The tree of a text by the strict rules.
pub(super) fn read(text: &str) -> Node {
    parse::parse(text, Spelling::STRICT, &mut budget()).unwrap_or_else(|e| panic!("{text}: {e}")).node
}

/// The lines of a table: the title of their section, after `## `, and their fields; `⏎` is a line break.
pub(super) fn cases(table: &str) -> Vec<(&str, Vec<String>)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in table.lines() {
        match line.strip_prefix("## ") {
            Some(title) => section = title,
            None if line.starts_with("# ") => {}
            None => found.push((section, line.split('\t').map(|field| field.replace('⏎', "\n")).collect())),
        }
    }
    found
}

/// Fails with every line of a table that does not hold: `row` takes the title of its section, the first word of it up to
/// a colon, and its fields, and gives what was found.
pub(super) fn hold(table: &str, count: usize, row: impl Fn(&str, &[String]) -> (bool, String)) {
    let all = cases(table);
    assert_eq!(all.len(), count);
    let wrong = all.iter().filter_map(|(section, fields)| {
        let (holds, found) = row(section.split(':').next().unwrap_or(""), fields);
        (!holds).then(|| format!("{section}: {fields:?}: {found}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

/// A finding as the tables write it.
pub(super) fn said(found: Result<Option<impl ToString>, Reason>) -> String {
    match found {
        Ok(found) => found.map_or("-".to_owned(), |found| found.to_string()),
        Err(reason) => reason.to_string(),
    }
}

/// The result of a step, as `cases.tsv` writes it.
fn step(name: &str, texts: &[String]) -> String {
    let text = texts[0].as_str();
    let other = texts.last().map_or("", String::as_str);
    match name {
        "folded" => fold::folded(text).into_owned(),
        "number word" => said(Ok(words::number_word(text))),
        "has value" => words::has_value(text).to_string(),
        "hedge" => words::is_hedge(text).to_string(),
        "percent" => units::is_percent(text).to_string(),
        "counted" => units::may_be_counted(text).to_string(),
        "about" => said(scalar::rounded(&read(text), &read(other), &mut budget()).map(Some)),
        "multiple, positive" => [false, true]
            .map(|positive| scalar::proportional(&read(text), &read(other), positive, &mut budget()))
            .map(|found| said(found.map(Some)))
            .join(" "),
        "less" => [(text, other), (other, text)]
            .map(|(a, b)| scalar::less(&read(a), &read(b), &mut budget()).unwrap().to_string())
            .join(" "),
        "tidy" => answer::tidy(text),
        "letter" => said(Ok(answer::choice(text, &[]).map(|choice| choice.letter))),
        "spelled" => Answer::read(text).is_spelled(other).to_string(),
        "strict" => Answer::read(text).compare(&Answer::read(other)).to_string(),
        "boxed" => verdict(text, other).to_string(),
        "named" => {
            let verdict = Grader::free().grade_text(text, other);
            format!("{}: {verdict}", verdict.name())
        }
        "symbols" => read(text).symbols().join(" "),
        "with 5 for x" => (read(text).with("x", &Node::integer(5)) == read(other)).to_string(),
        "whole" => said(Ok(read(text).as_integer())),
        "size" => matrix::size(&read(text)).to_string(),
        "value" => {
            let found = numeric::EvaluationPoint::constant(256).value(&read(text), &mut budget()).unwrap();
            let other = ball::Ball::float(other.parse().unwrap(), 256);
            let difference = found.minus(&other, 256).unwrap();
            (difference.size() < found.size() - 46).to_string()
        }
        "rational" => said(exact::rational(&read(text), &mut budget())),
        "scalar" => {
            let same = |a: &str, b: &str| scalar::same(&read(a), &read(b), &mut budget());
            assert_eq!(same(text, other), same(other, text), "{text} {other}");
            said(same(text, other).map(Some))
        }
        _ => said(interval::same(&read(text), &read(other), &mut budget())),
    }
}

#[test]
fn each_step_makes_of_a_text_what_the_table_says() {
    hold(include_str!("cases.tsv"), 304, |name, fields| {
        let (texts, said) = fields.split_at(fields.len() - 1);
        let found = step(name, texts);
        (found == said[0], found)
    });
}

fn verdict(response: &str, gold: &str) -> Verdict {
    let found = Gold::integer(gold).expect("an integer").grade(&Prediction::boxed(response));
    Verdict { extracted: None, ..found }
}

const EQUAL: Option<bool> = Some(true);
const DIFFERENT: Option<bool> = Some(false);

#[test]
fn integers_compare_by_value_whatever_their_size() {
    let big = "9".repeat(60);
    assert_eq!(verdict(&format!(r"\boxed{{{big}}}"), &big).equal, EQUAL);
    assert_eq!(verdict(&format!(r"\boxed{{{big}1}}"), &big).equal, DIFFERENT);
    assert_eq!(Gold::from(i64::MIN).to_string(), i64::MIN.to_string());
    assert_eq!((Gold::integer("0"), Gold::integer("100,000")), (Ok(Gold::from(0)), Ok(Gold::from(100_000))));
    assert_eq!(Gold::integer("1000,000"), Err(GoldError::NotAnInteger("1000,000".into())));
    assert_eq!(
        (verdict(r"\boxed{1.0}", "1").reward(), verdict(r"\boxed{ }", "1").reward()),
        (None, Some(0.0))
    );
    assert_eq!(verdict(r"\boxed{5", "5"), Verdict::open(Reason::NoAnswer));
    assert!(Gold::integer("1.5").is_err());
}

#[test]
fn references_are_the_same_where_text_and_rules_are() {
    let gold = |text| Gold::math(text).expect("not empty");
    let by = |rules, gold: &Gold| Grader { rules, ..Grader::default() }.reference(gold);
    let lenient = by(Rules::LENIENT, &gold("5"));
    assert_eq!((Gold::from(5), gold("5")), (Gold::from(5), gold("5")));
    assert_ne!(Gold::from(5), Gold::from(6));
    assert_ne!(gold("5"), gold("6"));
    assert_ne!(gold("5"), Gold::from(5));
    assert_ne!(gold("5"), lenient);
    assert_eq!(by(Rules::STRICT, &lenient), gold("5"));
    assert_eq!(Grader::free().reference(&gold("$5$")).to_string(), "5");
    assert_eq!(Grader::default().reference(&gold("$5$")).to_string(), "$5$");
}

#[test]
fn a_reference_without_a_value_leaves_the_verdict_open() {
    let gold = Gold::any_of([r"\frac{1}{0}", "5"]).expect("two references");
    let grade = |text: &str| gold.grade(&Prediction::extract(text, Extraction::Auto)).equal;
    assert_eq!((grade("5"), grade("6")), (EQUAL, None));
}

#[test]
fn a_short_text_that_is_the_reference_is_what_was_extracted() {
    let verdict = Grader::free().grade_text(r"\text{July 4}", "July 4 ");
    assert_eq!((verdict.equal, verdict.extracted.as_deref()), (EQUAL, Some("July 4")));
}

#[test]
fn sets_of_rules_are_spelled_and_joined() {
    let ratio = Rules::NONE.with(Rule::Ratio);
    let lenient = |gold: &str, answer: &str| Grader::free().grade_text(gold, answer).lenient_rules();
    assert_eq!((lenient("3:4", "3/4"), lenient("5", "x = 5")), (ratio, Rules::NONE));
    assert_eq!(Rules::STRICT.and(Rules::STRICT), Rules::STRICT);
    assert_eq!(ratio.and(Rules::STRICT), Rules::STRICT.with(Rule::Ratio));
    assert_eq!((Rules::STRICT.spelled(), Rules::LENIENT.spelled()), ("strict".into(), "lenient".into()));
    assert_eq!(Rules::STRICT.with(Rule::Ratio).spelled(), "strict,+ratio");
    assert_eq!(Rules::LENIENT.without(Rule::Ratio).spelled(), "lenient,-ratio");
    assert_eq!(format!("{:?}", ratio.with(Rule::Choice)), "Rules(choice, ratio)");
}
