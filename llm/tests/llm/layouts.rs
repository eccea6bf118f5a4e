//! The layouts of data sets that are read: the prompts of three rows of each are those that transformers makes, and their answers are right.

use std::collections::BTreeMap;

use grpo_lambda_trainer::input::data::{Columns, OnBadRow, open};
use grpo_lambda_trainer::input::prompt::Template;

use crate::common::{assert_has, fixture, llm_train};
use crate::documents::page;

/// A layout: what its data sets are called, the file in `tests/fixtures/layouts`, its answers, and what becomes of its columns.
struct Layout {
    names: &'static str,
    file: &'static str,
    answers: [&'static str; 3],
    columns: &'static str,
}

const fn layout(
    names: &'static str,
    file: &'static str,
    answers: [&'static str; 3],
    columns: &'static str,
) -> Layout {
    Layout { names, file, answers, columns }
}

static LAYOUTS: [Layout; 13] = [
    layout(
        "GSM8K",
        "gsm8k.jsonl",
        ["7", "36", "15"],
        "`question` is asked; the answer is what follows the last `####` of `answer`, which is the solution, too",
    ),
    layout(
        "MATH",
        "math.jsonl",
        ["4", "9", "\\frac{1}{2}"],
        "`problem` is asked; the answer is the last `\\boxed{}` of `solution`",
    ),
    layout(
        "OpenR1-Math",
        "openr1.jsonl",
        ["2", "3", "4"],
        "`problem` is asked, with `answer` and `solution`; `messages` and the others are named",
    ),
    layout(
        "NuminaMath",
        "numinamath.jsonl",
        ["2", "3", "4"],
        "`problem` is asked; the answer is the last `\\boxed{}` of `solution`; `messages` is named",
    ),
    layout("Big-Math", "bigmath.jsonl", ["2", "3", "4"], "`problem` is asked, with `answer`"),
    layout(
        "DAPO-Math-17k",
        "dapo17k.jsonl",
        ["2", "3", "4"],
        "the turns of `prompt` are asked; the answer is `reward_model.ground_truth`",
    ),
    layout(
        "Open-Reasoner-Zero",
        "orz.json",
        ["2", "3", "4"],
        "a row is a list of turns, of which those up to the user's last are asked; the answer is the assistant's `ground_truth`",
    ),
    layout(
        "verl",
        "verl.jsonl",
        ["2", "3", "4"],
        "all turns of `prompt` are asked, system and earlier ones included; the answer is `reward_model.ground_truth`",
    ),
    layout(
        "TRL, prompts",
        "trl.jsonl",
        ["3", "4", "5"],
        "all turns of `prompt` are asked; the answer is the `\\boxed{}` of `solution`",
    ),
    layout(
        "TRL, prompts and completions",
        "trl_completion.jsonl",
        ["2", "3", "4"],
        "all turns of `prompt` are asked; the answer is taken from what the assistant says in `completion`",
    ),
    layout(
        "Alpaca",
        "alpaca.jsonl",
        ["2", "3", "4"],
        "`instruction` and, below it, `input` are asked after the system turn `system`; the answer is `output`",
    ),
    layout(
        "SVAMP",
        "svamp.jsonl",
        ["1.0", "5.0", "8.0"],
        "`Body` and `Question` are asked, one after the other; the answer is `Answer`",
    ),
    layout(
        "ShareGPT",
        "sharegpt.jsonl",
        ["2", "3", "4"],
        "the turns of `conversations` up to the user's last are asked; the answer is taken from what the assistant says then",
    ),
];

#[test]
fn prompts_of_published_layouts_are_those_of_transformers() {
    let expected = std::fs::read_to_string(fixture("layouts/expected.json")).unwrap();
    let expected: BTreeMap<String, Vec<String>> = serde_json::from_str(&expected).unwrap();
    let chatml = fixture("chat/chatml_math.jinja");
    let template = Template::load(chatml.to_str().unwrap(), None).unwrap();
    assert_eq!(expected.len(), LAYOUTS.len());
    for Layout { file, answers, .. } in &LAYOUTS {
        let path = fixture(&format!("layouts/{file}"));
        let data = open(path.to_str().unwrap(), &Columns::default(), OnBadRow::Refuse)
            .unwrap_or_else(|e| panic!("{file}: {e}"));
        let rows: Vec<_> = data.rows().map(Result::unwrap).collect();
        let prompts: Vec<String> =
            rows.iter().map(|row| template.asked(&row.before, &row.problem).unwrap().text).collect();
        assert_eq!(prompts, expected[*file], "{file}");
        let found: Vec<&str> = rows.iter().map(|row| row.answers[0].as_str()).collect();
        assert_eq!(found, answers, "{file}");
    }
}

#[test]
fn the_table_of_layouts_is_what_is_tested() {
    let row = |Layout { names, columns, .. }: &Layout| format!("| {names} | {columns} |\n");
    let rows: String = LAYOUTS.iter().map(row).collect();
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
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.jsonl");
    let data = |text: &str, args: &[&str]| {
        std::fs::write(&path, text).unwrap();
        llm_train(&[&["data", path.to_str().unwrap()], args].concat(), "")
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
    let prefix =
        r#"{"prompt":[{"role":"user","content":"q"},{"role":"assistant","content":"So"}],"answer":"1"}"#;
    refused(prefix, &chat, "ends in a turn of the assistant with text");
    for (row, expected) in [
        (
            r#"{"question":"q","choices":["1","2"],"answer":"1"}"#,
            "choices: belongs to the problem and is not read",
        ),
        (r#"{"problem":"q","tools":[{"name":"f"}],"answer":"1"}"#, "tools: belongs to the problem"),
        (
            r#"{"prompt":[{"role":"robot","content":"q"}],"answer":"1"}"#,
            "a turn of `robot`; the roles are system",
        ),
        (
            r#"{"prompt":[{"role":"assistant","content":"a","tool_calls":[1]},{"role":"user","content":"q"}],"answer":"1"}"#,
            "a turn has `tool_calls`, which is not read",
        ),
        (r#"{"problem":"q","problem":"r","answer":"1"}"#, "`problem` is given twice"),
        (r#"[{"problem":"a","answer":"1"}]"#, "a JSON array … must have a name that ends in .json"),
        ("[\n{\"problem\":\"a\",\"answer\":\"1\"}]", "a JSON array … must have a name that ends in .json"),
    ] {
        refused(row, &chat, expected);
    }
    // Half a problem, a list of turns that was written as a text, turns of two readings, answers that are none.
    for (row, expected) in [
        (r#"{"instruction":"q","context":"c","response":"3"}"#, "context: belongs to the problem"),
        (r#"{"question":"q","context":{"title":["t"]},"answer":"3"}"#, "context: belongs to the problem"),
        (r#"{"question":"q","instruction":"in base 2","answer":"3"}"#, "instruction: belongs to the problem"),
        (r#"{"question":"q","table":"1 | 2","answer":"3"}"#, "table: belongs to the problem"),
        (r#"{"Body":"b","Question":null,"input":"i","Answer":"3"}"#, "input: belongs to the problem"),
        (
            r#"{"prompt":"[{\"role\": \"user\", \"content\": \"q\"}]","answer":"1"}"#,
            "prompt: a text that spells out a list of turns",
        ),
        (
            r#"{"prompt":"[{'content': 'q', 'role': 'user'}]","answer":"1"}"#,
            "prompt: a text that spells out a list of turns",
        ),
        (
            r#"{"messages":[{"role":"user","content":"a","value":"b"}],"answer":"1"}"#,
            "messages: a turn has both `content` and `value`",
        ),
        (
            r#"{"messages":[{"role":"user","from":"system","content":"a"}],"answer":"1"}"#,
            "messages: a turn has both `role` and `from`",
        ),
        (
            r#"{"prompt":"q","reward_model":{"ground_truth":"1","ground_truth":"2"}}"#,
            "`ground_truth` is given twice",
        ),
        (r#"{"problem":"q","answer":"1","extra_info":[{"a":1,"a":2}]}"#, "`a` is given twice"),
        (
            r#"{"messages":[{"role":"user","role":"user","content":"q"}],"answer":"1"}"#,
            "`role` is given twice",
        ),
        (r#"{"prompt":"q","ground_truth":"{\"f\": 1}"}"#, "a text that holds a JSON object"),
        (
            r#"{"prompt":"q","completion":"3","label":false}"#,
            "label = false: says that `completion` is not right",
        ),
    ] {
        refused(row, &chat, expected);
    }
    let partial = dir.path().join("partial.jinja");
    let text = "{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.content }}\n{% endfor %}";
    std::fs::write(&partial, text).unwrap();
    let partial = ["--template", partial.to_str().unwrap()];
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
    let named = r#"{"messages":[{"role":"user","content":"q","name":"Ann","weight":0}],"answer":"1"}"#;
    data(named, &chat).says("not asked … messages[].name (1), messages[].weight (1)");
    let prose = "{\"question\":\"q\",\"answer\":\"then 4 people crossed the line\"}\n{\"question\":\"r\",\"answer\":\"1\"}";
    data(prose, &[])
        .says("answers   references that the grader cannot read … : 1; the first: … rows.jsonl:1");
    let mapped =
        data(r#"{"question":"q","choices":["1","2"],"answer":"1"}"#, &["--column", "problem=question"]);
    assert_has(mapped.output(), "not asked … choices (1)");
}
