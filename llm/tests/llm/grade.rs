//! `llm-train grade` as a user runs it.

use crate::common::{Place, llm_train};

#[test]
fn the_command_grades_line_by_line_and_refuses_what_it_cannot_use() {
    let cases = r#"{"gold": "\\frac{1}{2}", "answer": "so \\boxed{0.5}"}

{"gold": ["1", "2"], "answer": "2"}
{"gold": "1", "answer": "2"}
{"answer": "1/0", "gold": "1"}
"#;
    let output = llm_train(&["grade"], cases);
    assert_eq!(
        output.output(),
        "{\"equal\":true,\"reason\":\"equal\"}\n{\"equal\":true,\"reason\":\"equal\"}\n\
         {\"equal\":false,\"reason\":\"different\"}\n{\"equal\":null,\"reason\":\"undefined: a division by zero\"}\n"
    );
    let boxed = llm_train(&["grade", "--extract", "boxed"], r#"{"gold":"1","answer":"1"}"#);
    boxed.says("\"equal\":null");
    let place = Place::new();
    place.refuses_each(include_str!("refused/grade.txt"), |line, stdin| {
        place.run_with(line, &[], &format!("\n{stdin}"))
    });
}

#[test]
fn further_fields_come_back_and_what_a_line_knows_counts() {
    let cases = r#"{"id": 7, "gold": "21", "answer": "18 + 3 is a sum", "problem": "What is 18 + 3?"}
{"id": "b", "gold": "21", "answer": "18 + 3 = 21", "problem": "What is 18 + 3?", "equal": "mine"}
{"gold": "21", "answer": "so she has 21", "finish": "length"}
{"gold": "1:15", "answer": "2:30"}
"#;
    let lines = llm_train(&["grade", "--extract", "free", "--explain"], cases).json();
    let field = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("id"), [7.into(), "b".into(), serde_json::Value::Null, serde_json::Value::Null]);
    assert_eq!(field("equal"), [false.into(), true.into(), serde_json::Value::Null, false.into()]);
    assert_eq!(lines[0]["reason"], "`18 + 3` stands in the problem");
    assert_eq!(lines[3]["found"]["kinds"], serde_json::json!(["time", "time"]));
}

/// Systems write an accent with its letter or after it.
#[test]
fn a_reference_of_either_normal_form_is_found() {
    let (composed, parted) = ("caf\u{e9}", "cafe\u{301}");
    for (gold, answer) in [(composed, parted), (parted, composed), (parted, parted)] {
        let case = serde_json::json!({"gold": gold, "answer": format!("\\boxed{{\\text{{{answer}}}}}")});
        let line = llm_train(&["grade"], &case.to_string()).json().remove(0);
        assert_eq!(line["equal"], true, "{gold} {answer}: {line}");
    }
}

#[test]
fn a_bad_line_loses_no_verdict_of_the_others() {
    let cases = "{\"gold\": \"1\", \"answer\": \"1\"}\n{\"gold\": \"1\"}\nnot json\n{\"gold\": \"2\", \"answer\": \"3\"}\n";
    let output = llm_train(&["grade", "--json"], cases);
    assert_eq!(output.code, Some(2));
    output.tells("stdin:2: answer: missing … 2 of 4 lines");
    let lines: Vec<serde_json::Value> =
        output.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let equal: Vec<Option<bool>> = lines.iter().map(|l| l["equal"].as_bool()).collect();
    assert_eq!(equal, [Some(true), None, None, Some(false)]);
    let errors: Vec<bool> = lines.iter().map(|l| l["error"].is_string()).collect();
    assert_eq!(errors, [false, true, true, false]);
    assert_eq!(lines.iter().map(|l| l["line"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // Without --json, too, the verdicts of the others are printed.
    let output = llm_train(&["grade"], cases);
    assert_eq!((output.code, output.stdout.lines().count()), (Some(2), 4));
}

#[test]
fn the_rules_are_chosen_by_name_and_reported() {
    let case = r#"{"gold": "12345", "answer": "so it is 12 345"}"#;
    let free = llm_train(&["grade", "--extract", "free", "--json"], case).json().remove(0);
    assert_eq!((&free["equal"], &free["reason"]), (&true.into(), &"equal by thousands".into()));
    assert_eq!((&free["rules"], &free["extracted"]), (&serde_json::json!(["thousands"]), &"12 345".into()));
    let without = llm_train(&["grade", "--extract", "free", "--rules", "lenient,-thousands"], case);
    assert!(!without.output().contains("true"), "{}", without.stdout);
    // The strict extraction says what it does not see.
    let strict = llm_train(&["grade", "--extract", "boxed", "--json"], case).json().remove(0);
    assert!(strict["reason"].as_str().unwrap().contains("--extract free would read `12 345`"), "{strict}");
    let third = r#"{"gold": "1/3", "answer": "0.33"}"#;
    assert!(llm_train(&["grade"], third).output().contains("false"));
    assert!(llm_train(&["grade", "--rules", "+written_precision"], third).output().contains("true"));
    assert!(llm_train(&["grade", "--list-rules"], "").output().contains("unit_converted"));
}

#[test]
fn what_was_found_where_and_by_which_rule_is_explained() {
    for (answer, found, rule) in [
        ("so \\\\boxed{19}", "19", "box"),
        ("The answer is 19.", "19", "marker"),
        ("He works 5 x 8 = 40 hours in 5 days.", "40 hours", "statement"),
        ("So B is the correct answer.", "B", "choice"),
        ("```\\n19\\n```", "19", "code"),
        (r#"{\"answer\": 19}"#, "19", "json"),
    ] {
        let case = format!("{{\"gold\": \"19\", \"answer\": \"{answer}\"}}");
        let line = llm_train(&["grade", "--extract", "free", "--explain"], &case).json().remove(0);
        let text: serde_json::Value = serde_json::from_str(&case).unwrap();
        let place = |i: usize| line["found"]["span"][i].as_u64().unwrap() as usize;
        assert_eq!(
            (&line["found"]["found"], &line["found"]["rule"]),
            (&found.into(), &rule.into()),
            "{line}"
        );
        assert_eq!(&text["answer"].as_str().unwrap()[place(0)..place(1)], found);
    }
    let plain = llm_train(&["grade"], r#"{"gold": "19", "answer": "19"}"#).json().remove(0);
    assert!(plain["found"].is_null());
}
