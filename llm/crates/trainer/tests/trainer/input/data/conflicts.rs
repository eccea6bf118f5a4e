use grpo_lambda_grade::Gold;
use grpo_lambda_trainer::input::data::{Conflicts, Row};

#[test]
fn another_answer_to_the_same_problem_is_counted_with_its_place() {
    let mut found = Conflicts::default();
    for (line, problem, answer) in
        [(1, "2+2?", "4"), (2, "3+3?", "3 4 5"), (3, "2+2?", "4"), (4, " 2+2?\n", "5")]
    {
        let row = Row {
            index: 0,
            file: "a.jsonl".into(),
            line,
            problem: problem.to_owned(),
            answers: vec![answer.to_owned()],
            gold: Gold::math(answer).expect("an answer"),
            solution: None,
            before: Vec::new(),
            others: Default::default(),
        };
        assert_eq!(found.line(), None);
        let gold = row.gold.clone();
        found.note(&row, &gold);
    }
    let line = found.line().expect("one conflict");
    assert!(
        line.starts_with("1 row has the problem of an earlier row") && line.ends_with("a.jsonl:4"),
        "{line}"
    );
    let line = found.unreadable_line().expect("one answer is three numbers");
    assert!(line.ends_with(": 1; the first: a.jsonl:2"), "{line}");
}
