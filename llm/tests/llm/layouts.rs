//! The layouts of data sets that are read: the prompts of three rows of each are those that transformers makes, and their answers are right.

use std::collections::BTreeMap;

use grpo_lambda_trainer::input::data::{Columns, OnBadRow, open};
use grpo_lambda_trainer::input::prompt::Template;

use crate::common::{Place, assert_has, cases, fixture, llm_train};
use crate::documents::page;

/// An entry of `tests/fixtures/layouts/layouts.toml`.
#[derive(serde::Deserialize)]
struct Layout {
    names: String,
    file: String,
    answers: Vec<String>,
    asked: String,
}

fn layouts() -> Vec<Layout> {
    let text = std::fs::read_to_string(fixture("layouts/layouts.toml")).unwrap();
    toml::from_str::<BTreeMap<String, Vec<Layout>>>(&text).unwrap().remove("layouts").unwrap()
}

#[test]
fn prompts_of_published_layouts_are_those_of_transformers() {
    let expected = std::fs::read_to_string(fixture("layouts/expected.json")).unwrap();
    let expected: BTreeMap<String, Vec<String>> = serde_json::from_str(&expected).unwrap();
    let chatml = fixture("chat/chatml_math.jinja");
    let template = Template::load(chatml.to_str().unwrap(), None).unwrap();
    assert_eq!(expected.len(), layouts().len());
    for Layout { file, answers, .. } in layouts() {
        let path = fixture(&format!("layouts/{file}"));
        let data = open(path.to_str().unwrap(), &Columns::default(), OnBadRow::Refuse)
            .unwrap_or_else(|e| panic!("{file}: {e}"));
        let rows: Vec<_> = data.rows().map(Result::unwrap).collect();
        let prompts: Vec<String> =
            rows.iter().map(|row| template.asked(&row.before, &row.problem).unwrap().text).collect();
        assert_eq!(prompts, expected[&file], "{file}");
        let found: Vec<&str> = rows.iter().map(|row| row.answers[0].as_str()).collect();
        assert_eq!(found, answers, "{file}");
    }
}

#[test]
fn the_table_of_layouts_is_what_is_tested() {
    let row = |Layout { names, asked, .. }| format!("| {names} | {asked} |\n");
    let rows: String = layouts().into_iter().map(row).collect();
    page::hold(
        "fine-tune.md",
        "layouts",
        &format!("| layout | what is asked, and what the answer is |\n| --- | --- |\n{rows}"),
    );
}

/// JSON lines leave out what a row does not have: the first row does not say what the others do.
#[test]
fn columns_that_only_later_rows_have_are_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.jsonl");
    let rows = [
        r#"{"instruction":"Add 1 and 2.","output":"3"}"#,
        r#"{"instruction":"Double it.","input":"4","output":"8"}"#,
        r#"{"instruction":"Halve it.","input":"8","system":"Be brief.","output":"4"}"#,
    ];
    std::fs::write(&path, rows.join("\n")).unwrap();
    let data = open(path.to_str().unwrap(), &Columns::default(), OnBadRow::Refuse).unwrap();
    let rows: Vec<_> = data.rows().map(Result::unwrap).collect();
    let problems: Vec<&str> = rows.iter().map(|row| row.problem.as_str()).collect();
    assert_eq!(problems, ["Add 1 and 2.", "Double it.\n4", "Halve it.\n8"]);
    let systems: Vec<usize> = rows.iter().map(|row| row.before.len()).collect();
    assert_eq!((systems, rows[2].before[0].content.as_str()), (vec![0, 0, 1], "Be brief."));
    assert!(data.counts().unused.is_empty());
    assert_eq!(data.counts().system, 1);
    assert!(
        data.layout()
            .to_string()
            .contains("problem `instruction` and `input`, answer `output`, system prompt `system`")
    );
    // A body without its question is no problem.
    std::fs::write(
        &path,
        "{\"Body\":\"b\",\"Question\":\"q\",\"Answer\":\"1\"}\n{\"Body\":\"b\",\"Answer\":\"1\"}",
    )
    .unwrap();
    llm_train(&["data", path.to_str().unwrap()], "").refused(2, "rows.jsonl:2: no column `Question`");
}

/// Columns and turns that nobody asks are named or refused.
#[test]
fn what_is_not_asked_is_named_and_what_belongs_to_the_problem_is_not_left_out() {
    let place = Place::new();
    let data = |text: &str, args: &[&str]| {
        place.write("rows.jsonl", text);
        place.run_with("data rows.jsonl", args, "")
    };
    let chat = fixture("chat/chatml_math.jinja");
    let chat = ["--template", chat.to_str().unwrap()];
    let openr1 = llm_train(&["data", fixture("layouts/openr1.jsonl").to_str().unwrap()], "");
    openr1
        .says("not asked … correctness_math_verify (3), generations (3), messages (3), source (3), uuid (3)");
    llm_train(&["data", fixture("layouts/sharegpt.jsonl").to_str().unwrap(), chat[0], chat[1]], "")
        .says("rows with a system turn: 1; with other turns before the problem: 1");
    let refused = |text: &str, args: &[&str], expected: &str| data(text, args).refused(2, expected);
    let turns = r#"{"prompt":[{"role":"system","content":"s"},{"role":"user","content":"q"}],"answer":"1"}"#;
    refused(turns, &[], "template `line`: takes one problem, and the row has 2 turns");
    refused(turns, &[&chat[..], &["--system", "other"]].concat(), "has a system prompt, and the row another");
    let array = "[\n{\"problem\":\"a\",\"answer\":\"1\"}]";
    refused(array, &chat, "a JSON array … must have a name that ends in .json");
    place.refuses_each(include_str!("refused/layouts.txt"), |row, _| data(row, &chat));
    let text = "{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.content }}\n{% endfor %}";
    place.write("partial.jinja", text);
    let partial = ["--template", "partial.jinja"];
    for role in ["system", "developer", "tool"] {
        let row = format!(
            r#"{{"prompt":[{{"role":"{role}","content":"in base 2"}},{{"role":"user","content":"q"}}],"answer":"1"}}"#
        );
        refused(&row, &partial, &format!("leaves out the turn of the {role}"));
    }
    refused(
        r#"{"prompt":"q","answer":"1"}"#,
        &[&partial[..], &["--system", "in base 2"]].concat(),
        "has no place for a system prompt",
    );
    for (row, _, answer) in cases(include_str!("../fixtures/layouts/answers.txt")) {
        data(row, &[&chat[..], &["--show", "1"]].concat()).says(&format!("--- answer: {answer}"));
    }
    let first = r#"{"question":"q","solution":["so \\boxed{5}","or"],"final_answer":["5"]}"#;
    data(first, &[]).says("solutions 1, of which 1 answer what the answer says");
    let reported = r#"{"system_message":"be brief","problem":"q","answer":"1"}"#;
    data(reported, &chat).says("rows with a system turn: 1");
    let chosen = r#"{"question":"q","prompt":"Solve: q","answer":"1"}"#;
    data(chosen, &["--column", "problem=prompt", "--show", "1"]).says("not asked … question (1) … Solve: q");
    let named = r#"{"messages":[{"role":"user","content":"q","name":"Ann","weight":0}],"answer":"1"}"#;
    data(named, &chat).says("not asked … messages[].name (1), messages[].weight (1)");
    let prose = "{\"question\":\"q\",\"answer\":\"then 4 people crossed the line\"}\n{\"question\":\"r\",\"answer\":\"1\"}";
    data(prose, &[])
        .says("answers   references that the grader cannot read … : 1; the first: … rows.jsonl:1");
    let mapped =
        data(r#"{"question":"q","choices":["1","2"],"answer":"1"}"#, &["--column", "problem=question"]);
    assert_has(mapped.output(), "not asked … choices (1)");
}
