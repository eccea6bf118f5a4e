use grpo_lambda_trainer::reward::program::{Question, RewardProgram};
use std::thread;
use std::time::{Duration, Instant};

fn questions(n: usize) -> Vec<Question> {
    let one = |i: usize| Question {
        step: 0,
        row: Default::default(),
        prompt: "2+2?".to_owned(),
        completion: "x".repeat(i),
        gold: "4".to_owned(),
        tokens: i,
        token_ids: vec![7; i],
    };
    (0..n).map(one).collect()
}

/// Time for what a program does at once, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks a shell program; the answers and what was said.
fn ask(command: &str, n: usize) -> (Result<Vec<Option<f64>>, String>, String) {
    let mut said = String::new();
    let mut program = RewardProgram::new(command, PATIENCE);
    let answers = program.ask(&questions(n), &mut |line| said += line);
    (answers.map_err(|e| e.to_string()), said)
}

#[test]
fn every_response_gets_the_number_of_its_line() {
    // A line is answered with the number of its tokens.
    let count = r#"while read -r line; do echo "$line" | sed 's/.*"tokens":\([0-9]*\).*/\1/'; done"#;
    assert_eq!(ask(count, 3), (Ok(vec![Some(0.0), Some(1.0), Some(2.0)]), String::new()));
    let forms =
        "read a; echo '{\"reward\": -0.5}'; read a; echo null; read a; echo true; read a; echo 1e-3; cat";
    assert_eq!(ask(forms, 4).0, Ok(vec![Some(-0.5), None, Some(1.0), Some(0.001)]));
}

/// Answers the questions with their ids, after the lines of `first`.
fn with_ids(first: &str) -> String {
    let id = r#"sed 's/.*"id":\([0-9]*\).*/\1/'"#;
    format!(
        "{first}while read -r line; do echo \"{{\\\"reward\\\": 1, \\\"id\\\": $(echo \"$line\" | {id})}}\"; done"
    )
}

#[test]
fn an_answer_with_an_id_answers_its_question() {
    assert_eq!(ask(&with_ids(""), 3).0, Ok(vec![Some(1.0); 3]));
    let twice = "read -r line; for i in 1 2; do echo '{\"reward\": 1, \"id\": 0}'; done; ";
    let error = ask(&with_ids(twice), 3).0.expect_err("one too many");
    assert!(error.contains("to id 0, where the answer to id 1 is due"), "{error}");
    assert_eq!(ask("read a; echo '{\"reward\": NaN, \"id\": 0}'; cat", 1).0, Ok(vec![None]));
}

#[test]
fn a_line_that_nobody_asked_for_is_refused_by_name() {
    let tried = |command: &str| {
        let program = RewardProgram::new(command, PATIENCE);
        program.try_out(questions(1).remove(0), &mut |_| ()).map_err(|e| e.to_string())
    };
    let count = "while read -r line; do echo 7; done";
    assert_eq!(tried(count), Ok(()));
    // It needs a while before it answers, and goes on when its input ends.
    assert_eq!(tried("read a; sleep 0.3; echo 1; sleep 60"), Ok(()));
    let refuses = |line: &str, error: String| {
        assert!(error.contains(&format!("wrote the line {line:?}, which answers no question")), "{error}");
    };
    refuses("good bye", tried(&format!("{count}; echo good bye")).expect_err("a line after the last"));
    refuses("1", tried("yes 1").expect_err("lines without end"));
    // One that stands there before a question is refused whenever it comes: a group of none waits for no answer.
    for (command, asked, line) in [
        ("echo 0; cat", 0, "0"),
        ("read a; echo 1; echo 2; cat", 1, "2"),
        ("read a; echo 1; sleep 0.3; echo 2; cat", 1, "2"),
    ] {
        let mut program = RewardProgram::new(command, PATIENCE);
        let until = Instant::now() + PATIENCE;
        let mut ask = |n: usize| program.ask(&questions(n), &mut |_| ());
        if asked > 0 {
            ask(asked).expect("answered");
        }
        let error = loop {
            assert!(Instant::now() < until, "{command}: no line came");
            match ask(0) {
                Ok(_) => thread::sleep(Duration::from_millis(5)),
                Err(error) => break error,
            }
        };
        refuses(line, error.to_string());
    }
}

#[test]
fn output_without_end_is_no_burden_and_output_that_ended_no_wait() {
    let error = ask("cat /dev/zero", 1).0.expect_err("a line without end");
    assert!(error.contains("wrote a line of more than 65536 bytes"), "{error}");
    let (answers, said) = ask("exec 1>&-; exec sleep 300", 1);
    let error = answers.expect_err("closed");
    assert!(error.contains("it closed its output and goes on after 0 of 1 answers"), "{error}");
    assert!(said.contains("asked once more"), "{said}");
}

#[test]
fn a_run_that_is_asked_to_end_waits_a_moment_only() {
    let mut program = RewardProgram::new("sleep 600", Duration::from_secs(500)).heeding(|| true);
    let began = Instant::now();
    let error = program.ask(&questions(2), &mut |_| ()).expect_err("silent").to_string();
    assert!(error.contains("0 of 2 answers had come when the run was asked to end"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(100));
}

#[test]
fn numbers_that_are_none_are_left_out_and_reported_once() {
    let (answers, said) =
        ask("read a; echo NaN; read a; echo '{\"reward\": -Infinity}'; read a; echo 2; cat", 3);
    assert_eq!(answers, Ok(vec![None, None, Some(2.0)]));
    assert_eq!(said.matches("warning: reward.command answered NaN").count(), 1, "{said}");
    assert_eq!(said.matches("warning").count(), 1, "{said}");
}

#[test]
fn a_program_that_dies_is_asked_again_and_given_up_when_it_dies_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let once = dir.path().join("once");
    let dies_once =
        format!("if [ ! -e {0} ]; then touch {0}; exit 3; fi; while read a; do echo 1; done", once.display());
    let (answers, said) = ask(&dies_once, 2);
    assert_eq!(answers, Ok(vec![Some(1.0), Some(1.0)]));
    assert!(said.contains("it ended (exit status: 3) after 0 of 2 answers"), "{said}");
    let error = ask("read a; echo 1", 2).0.expect_err("dies twice");
    assert!(error.contains("after 1 of 2 answers") && error.contains("2 times in a row"), "{error}");
}

/// More than a pipe holds, to a program that does not read: its time ends all the same.
#[test]
fn a_program_that_does_not_read_is_given_up_in_time() {
    let mut program = RewardProgram::new("sleep 60", Duration::from_millis(300));
    let mut questions = questions(1);
    questions[0].completion = "x".repeat(1 << 20);
    let began = Instant::now();
    program.ask(&questions, &mut |_| ()).expect_err("silent");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_column_of_a_questions_name_gets_another_unless_the_row_has_that_too() {
    let row = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), (*name).into())).collect();
    let renamed = Question::columns(&row(&["id", "level", "row_step"]));
    assert_eq!(renamed.into_keys().collect::<Vec<_>>(), ["level", "row_id", "row_step"]);
    assert_eq!(Question::collision(&row(&["id", "level", "row_step"])), None);
    assert_eq!(Question::collision(&row(&["level", "row_step", "step"])), Some("step"));
}
