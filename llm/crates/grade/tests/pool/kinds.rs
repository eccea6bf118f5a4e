//! Kinds of answers: what training pays for, and that a rule changes no verdict on the kinds on which it does not work.

use std::collections::BTreeMap;

use grpo_lambda_grade::{Extraction, Grader, Kind, Response, Rule, Rules, Verdict};
use rayon::prelude::*;

use super::{here, text};

const TRAINING: Grader = Grader { extraction: Extraction::Boxed, rules: Rules::STRICT };

#[test]
fn training_pays_for_no_other_thing_of_the_same_kind() {
    let table = text(&here("kinds.tsv"));
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [kind, gold, answer, label] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let verdict = TRAINING.grade_text(gold, answer);
        counts.entry(kind).or_default()[usize::from(label == "=")] += 1;
        if verdict.is_equal() != (label == "=") {
            wrong.push(format!("{kind}: {gold} and {answer}: {verdict}"));
        }
    }
    assert!(counts.values().all(|count| count.iter().sum::<usize>() >= 6), "{counts:?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Arithmetic that is still to be done is an answer by a lenient rule alone, and not even by that one where it stands
/// in the problem, unless the reference is spelled so.
#[test]
fn a_restated_question_is_no_answer() {
    for line in text(&here("restated.tsv")).lines().skip(1) {
        let [rules, gold, problem, answer, label] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let problem = Some(problem).filter(|problem| !problem.is_empty());
        for (name, grader) in [("training", TRAINING), ("free", Grader::free())] {
            let found = grader.grade_text(gold, Response { problem, ..Response::from(answer) });
            let other = rules != "both" && rules != name;
            assert!(other || found.is_equal() == (label == "="), "{name}: {line}: {found}");
        }
    }
    assert_eq!(Grader::free().grade_text("21", r"\boxed{18+3}").to_string(), "equal by evaluated");
}

#[test]
fn a_response_that_was_cut_off_counts_a_marked_answer_alone() {
    for (text, counts) in [
        ("He saves 2", false),
        ("so that is 2 + 2 = 4", false),
        ("The answer is 10,", false),
        ("The answer is 10. I will now check", true),
        ("#### 10\nNext", true),
        (r"so \boxed{10} and then", true),
    ] {
        for gold in ["2", "4", "10"] {
            let ended = Grader::free().grade_text(gold, text).is_equal();
            let cut = Grader::free().grade_text(gold, Response { cut_off: true, ..Response::from(text) });
            assert_eq!(cut.is_equal(), ended && counts, "{text} for {gold}: {cut}");
        }
    }
}

/// Templates of answers of each kind, with two numbers in them.
const SAMPLES: &str = r"@·\frac{@}{#}·@.5·@\sqrt{#}·@+#·0.333333·@\text{ cm}·@\text{ apples}·@\%·@^\circ·\$@·@:30·
    @:15\text{ p.m.}·\text{March @}·\text{@ March}·@:#·\text{East}·east·\text{no solution}·five·LISTEN·\angle ABC·
    \overline{AB}·AB·A(@,#)·p\land q·q\to p·f(@x)·\frac{dy}{dx}·\sum_{k=1}^{n}@k·@x·x+#·\{@,#\}·\emptyset·@,#·(@,#)·
    (@,#,1)·@\text{ cats}, #\text{ dogs}·a) @; b) #·[@,\infty)·x=@·y=@x·x\ge @·AB\parallel CD·
    \begin{pmatrix}@\\#\end{pmatrix}·(B) @·@\pmod 7·@_8·@.33...·1.234.567·3,5·x=\pm @·2x=@·\approx @.1";

/// The kinds of an answer and of the numbers and symbols in it; words that name no number hold none.
fn within(kind: Kind, text: &str) -> [Kind; 4] {
    match kind {
        Kind::Word | Kind::Date if text != "five" => [kind; 4],
        Kind::Counts => [kind, Kind::Number, Kind::Expression, Kind::Quantity],
        _ => [kind, Kind::Number, Kind::Expression, kind],
    }
}

fn verdict(gold: &str, answer: &str, rules: Rules) -> Verdict {
    Grader { rules, ..Grader::default() }.grade_text(gold, answer)
}

/// Every pair of samples with other numbers in each of three rounds, and for each rule those that it does not work on.
#[test]
fn a_rule_changes_no_verdict_on_kinds_on_which_it_does_not_work() {
    let samples: Vec<&str> = SAMPLES.split('·').map(str::trim).collect();
    let all = Rules::LENIENT.with(Rule::WrittenPrecision);
    let count = |pair: usize| -> Vec<Rule> {
        let write = |at: usize, k: usize| {
            let number = |k: usize| ((pair * 7 + k * 3) % 5 + 1).to_string();
            samples[at % samples.len()].replace('@', &number(k)).replace('#', &number(k + 1))
        };
        let (gold, answer) = (write(pair, 0), write(pair / samples.len(), 2));
        let on = verdict(&gold, &answer, all);
        let Some((a, b)) = on.kinds else { return Vec::new() };
        let works = |rule: &Rule| {
            within(a, &gold).iter().any(|x| within(b, &answer).iter().any(|y| rule.works_on(*x, *y)))
        };
        let idle: Vec<Rule> = Rule::ALL.iter().copied().filter(|rule| !works(rule)).collect();
        for rule in &idle {
            let off = verdict(&gold, &answer, all.without(*rule));
            assert_eq!(off.equal, on.equal, "{} on {gold} and {answer}", rule.name());
            assert!(!on.rules.has(*rule), "{} on {gold} and {answer}", rule.name());
        }
        // Answers of two kinds are equal by a rule that works on both, or by the arithmetic of values.
        if on.is_equal() && a != b && !(a.is_value() && b.is_value()) {
            let named = on.rules.iter().any(|rule| rule.works_on(a, b));
            assert!(named, "{gold} ({}) and {answer} ({}): {on}", a.name(), b.name());
        }
        idle
    };
    let idle: Vec<Rule> = (0..3 * samples.len().pow(2)).into_par_iter().flat_map_iter(count).collect();
    for rule in Rule::ALL {
        let pairs = idle.iter().filter(|other| *other == rule).count();
        println!("{}: {pairs} pairs", rule.name());
        assert!(pairs >= 300, "{} was left out on {pairs} pairs", rule.name());
    }
}
