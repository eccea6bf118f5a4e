//! Properties: rewriting keeps the verdict, a changed digit turns it, and no input is too much.

use std::time::Duration;

use cpu_time::ThreadTime;
use grpo_lambda_grade::{Extraction, Grader, Prediction, Rule, Rules};
use proptest::prelude::*;

use crate::data::{here, text};

/// A value in LaTeX, and a copy with one number changed.
fn value() -> impl Strategy<Value = (String, String)> {
    (2i64..90, 2i64..90, 2i64..30, 0usize..8).prop_map(|(a, b, c, form)| {
        let write = |a: i64| match form {
            0 => format!("{a}"),
            1 => format!("\\frac{{{a}}}{{{}}}", 91 * c + 1),
            2 => format!("{a}\\sqrt{{{}}}", c * c + 1),
            3 => format!("({a}, {b})"),
            4 => format!("{a}x^2+{b}x-{c}"),
            5 => format!("\\left[{a},{}\\right)", a + b),
            6 => format!("\\{{{a}, {}, {}\\}}", 100 + b, 200 + c),
            _ => format!("\\frac{{{a}\\pi}}{{{}}}", 97 * c + 2),
        };
        (write(a), write(a + 1))
    })
}

/// Texts that say that the value is the answer.
const SAYINGS: [&str; 16] = [
    "@",
    "\\boxed{@}",
    "$@$",
    "The answer is $@$.",
    "**Final answer:** $@$",
    "First $1+1=2$. Hence $\\boxed{@}$.",
    "<think>99</think> <answer>$@$</answer>",
    "#### @",
    "最终答案是 $@$。",
    "Ответ: $@$.",
    "La réponse est $@$.",
    "La respuesta final es \\(@\\).",
    "Die Antwort lautet \\[@\\]",
    "الإجابة هي $@$",
    "उत्तर: $@$",
    "答えは $@$ です。",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn how_the_answer_is_said_changes_nothing_and_a_changed_number_does((text, other) in value()) {
        for saying in SAYINGS {
            let said = saying.replace('@', &text);
            let (same, different) = (Grader::free().grade_text(&text, &said), Grader::free().grade_text(&other, &said));
            prop_assert_eq!(same.equal, Some(true), "{} for {}", said, text);
            prop_assert_ne!(different.equal, Some(true), "{} for {}", said, other);
        }
    }

    #[test]
    fn an_identity_keeps_the_verdict(a in 2i64..60, b in 2i64..60, c in 2i64..20) {
        let gold = format!("\\frac{{{a}x+{b}}}{{{c}}}");
        for same in [
            format!("\\frac{{{b}+{a}x}}{{{c}}}"),
            format!("({a}x+{b})/{c}"),
            format!("\\dfrac{{{}x+{}}}{{{}}}", 2 * a, 2 * b, 2 * c),
            format!("\\frac{{{a}}}{{{c}}}x+\\frac{{{b}}}{{{c}}}"),
            format!("-\\frac{{-{a}x-{b}}}{{{c}}}"),
            format!("y = \\left(\\frac{{{a}x+{b}}}{{{c}}}\\right)"),
        ] {
            prop_assert_eq!(Grader::free().grade_text(&gold, &same).equal, Some(true), "{} {}", gold, same);
            prop_assert_eq!(Grader::default().grade_text(&gold, &same).equal, Some(true), "{} {}", gold, same);
        }
        let other = format!("\\frac{{{a}x+{b}}}{{{}}}", c + 1);
        prop_assert_eq!(Grader::free().grade_text(&gold, &other).equal, Some(false), "{} {}", gold, other);
    }

    #[test]
    fn units_convert_by_their_factors_only_where_that_is_on(n in 1i64..5000) {
        let gold = format!("{n} \\text{{ cm}}");
        let metres = format!("\\frac{{{n}}}{{100}} \\text{{ m}}");
        let off = Grader { rules: Rules::LENIENT.without(Rule::UnitConverted), ..Grader::free() };
        prop_assert_eq!(Grader::free().grade_text(&gold, &metres).equal, Some(true));
        prop_assert_eq!(off.grade_text(&gold, &metres).equal, Some(false));
        prop_assert_eq!(Grader::default().grade_text(&gold, &metres).equal, Some(false));
    }

    #[test]
    fn any_text_is_graded_soon_by_every_rule(text in any::<String>(), cut in 0usize..200, from in 0usize..16) {
        let said = SAYINGS[from].replace('@', &text);
        let torn: String = said.chars().skip(cut % 7).take(cut).collect();
        let start = ThreadTime::now();
        for response in [&text, &said, &torn] {
            let verdict = Grader::free().grade_text("\\frac{1}{2}, 3", response);
            prop_assert!(verdict.equal != Some(true) || !response.is_empty());
            Prediction::extract(response, Extraction::Free);
        }
        prop_assert!(start.elapsed() < Duration::from_secs(2), "{said}");
    }
}

#[test]
fn a_rule_that_is_off_is_not_used() {
    let table = text(&here("rules.tsv"));
    assert_eq!(table.lines().count(), Rule::ALL.len());
    for line in table.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let (rule, gold, answer) = (Rule::find(fields[0]).unwrap(), fields[1], fields[2]);
        let on = Grader { rules: Rules::LENIENT.with(rule), ..Grader::default() }.grade_text(gold, answer);
        assert!(on.is_equal() && on.rules.has(rule), "{}: {gold} and {answer}: {on}", rule.name());
        let off =
            Grader { rules: Rules::LENIENT.without(rule), ..Grader::default() }.grade_text(gold, answer);
        assert!(!off.is_equal() || !off.rules.has(rule), "{}: {gold} and {answer}: {off}", rule.name());
        assert_eq!(Rules::parse(&on.rules.spelled()), Ok(on.rules));
    }
}

#[test]
fn long_and_hostile_responses_take_bounded_time() {
    let hostile = text(&here("hostile.txt")).replace('⏎', "\n");
    for piece in hostile.split_terminator("·\n") {
        let text = &piece.repeat(200_000 / piece.len());
        for (gold, response) in [("42", text.as_str()), (text, "42")] {
            let start = ThreadTime::now();
            let verdict = Grader::free().grade_text(gold, response);
            let spent = start.elapsed();
            assert!(!verdict.is_equal() && spent < Duration::from_secs(2), "{spent:?}: {}", &text[..12]);
        }
    }
}
