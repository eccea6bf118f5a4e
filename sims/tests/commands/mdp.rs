//! `sim mdp` from a file to tables and a figure.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use assert_cmd::Command;
use grpo_lambda_stats::table::{Cell, Table};
use std::fs;

const ROADS: &str = r#"
name = "Two roads"
tokens = ["left", "right", "EOS"]
eos = "EOS"
horizon = 3

[[rewards]]
pattern = "left *"
reward = 1.0

[[illegal]]
prefix = ""
tokens = "EOS"

[[policy]]
prefix = ""
probabilities = { left = 0.25, right = 0.75 }
"#;

fn sim(dir: &std::path::Path, args: &[&str]) -> std::process::Output {
    Command::cargo_bin("grpo-sim").unwrap().current_dir(dir).args(args).output().unwrap()
}

#[test]
fn a_task_of_ones_own_is_analysed_and_unbiased_methods_are_recognised() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("roads.toml"), ROADS).unwrap();
    let done =
        sim(dir.path(), &["mdp", "roads.toml", "--method", "grpo_lambda", "lambda=0.9", "--out", "found"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(text.contains("J = 0.25 at the initial policy, J* = 1 at best"), "{text}");
    let table =
        Table::from_csv(&fs::read_to_string(dir.path().join("found/data/methods.csv")).unwrap()).unwrap();
    let of = |method: &str, column: &str| {
        let row = table.rows.iter().find(|r| r[0] == Cell::from(method)).unwrap();
        row[table.column(column).unwrap()].number().unwrap()
    };
    assert!((of("RLOO", "cosine") - 1.0).abs() < 1e-9 && (of("RLOO", "scale") - 1.0).abs() < 1e-9);
    assert!(of("GRPO-lambda", "bias") > 0.05, "the lengths differ, so the trace is biased here");
    for file in ["data/credit.csv", "figures/credit.svg", "figures/credit.png"] {
        assert!(dir.path().join("found").join(file).is_file(), "{file}");
    }
}

#[test]
fn a_name_and_tokens_of_a_file_command_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let named = ROADS.replace("Two roads", "\\u001b]0;owned\\u0007").replace("right", "r\\u001b[2Jight");
    fs::write(
        dir.path().join("roads.toml"),
        named.replace("{ left = 0.25, r", "{ left = 0.25, \"r").replace("ight = 0.75", "ight\" = 0.75"),
    )
    .unwrap();
    let done = sim(dir.path(), &["mdp", "roads.toml", "--method", "grpo", "--group", "2", "--out", "found"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(
        text.starts_with("\\u{1b}]0;owned\\u{7}: the true advantage of each token")
            && text.contains("r\\u{1b}[2Jight"),
        "{text}"
    );
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
}

#[test]
fn each_method_keeps_its_own_figures() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("roads.toml"), ROADS).unwrap();
    for (args, folder) in [
        (&["grpo"][..], "grpo"),
        (&["grpo_lambda", "style=both", "lambda=0.9"], "grpo_lambda-lambda=0.9-style=both"),
        (&["grpo", "--group", "4"], "grpo-group=4"),
    ] {
        let done = sim(dir.path(), &[&["mdp", "roads.toml", "--method"], args].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let figure = dir.path().join("runs/mdp/two_roads").join(folder).join("figures/credit.svg");
        assert!(figure.is_file(), "{}", figure.display());
    }
}

#[test]
fn a_wrong_file_is_refused_on_one_line_with_its_place_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (right, wrong, what) in [
        ("horizon = 3", "horizon = -1", "task.toml:5: "),
        (
            "horizon = 3",
            "horizon = 30\nmax_leaves = 1000000000000000000",
            "task.toml:6: max_leaves = 1000000000000000000: must be at most 20000000",
        ),
        (
            "horizon = 3",
            "horizon = 15",
            "98300 (prefix, token) pairs in groups of 8: their product must be at most 400000",
        ),
        ("horizon = 3", "horizon = 21", "task.toml:5: horizon = 21: 6.291e6 (prefix, token) pairs take 13."),
        (
            "horizon = 3",
            "horizon = 3\nreward_kind = \"real\"\ndefault_reward = -1e200",
            "task.toml:7: default_reward = -1e200: must be from -1e30 to 1e30",
        ),
        ("horizon = 3", "horizon = 3\ngamma = 1e-150", "the policy gradient has the squared length "),
    ] {
        fs::write(dir.path().join("task.toml"), ROADS.replacen(right, wrong, 1)).unwrap();
        let done = sim(dir.path(), &["mdp", "task.toml", "--method", "grpo", "--out", "found"]);
        let message = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{message}");
        assert!(message.contains(what) && message.trim_end().lines().count() == 1, "{what}: {message}");
        assert!(done.stdout.is_empty() && !dir.path().join("found").exists());
    }
    let missing = sim(dir.path(), &["mdp", "none.toml", "--method", "grpo"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_task_of_the_library_goes_by_its_name_and_a_file_by_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let first = |task: &str| {
        let done = sim(dir.path(), &["mdp", task, "--method", "grpo", "--group", "2"]);
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        (done.status.code(), said.lines().next().unwrap_or_default().to_owned())
    };
    let named = first("fork");
    assert!(named.0 == Some(0) && named.1.starts_with("fork: "), "{named:?}");
    let misspelt = first("pivt");
    let expected = "grpo-sim mdp: error: `pivt`: no task of this name (did you mean `pivot`?), and no such file; give a TOML file or one of pivot, ";
    assert!(misspelt.0 == Some(2) && misspelt.1.starts_with(expected), "{misspelt:?}");
    let absent = first("absent.toml");
    let expected = "grpo-sim mdp: error: `absent.toml`: no such file; give a TOML file or one of pivot, ";
    assert!(absent.0 == Some(2) && absent.1.starts_with(expected), "{absent:?}");
    fs::write(dir.path().join("own"), ROADS.replace("name = ", "# ")).unwrap();
    fs::write(dir.path().join("fork"), ROADS).unwrap();
    assert!(first("own").1.starts_with("own: "), "{:?}", first("own"));
    assert!(first("./fork").1.starts_with("Two roads: "), "{:?}", first("./fork"));
}

#[test]
fn a_sampled_row_says_so_and_how_much_bias_its_noise_makes() {
    let dir = tempfile::tempdir().unwrap();
    let done = sim(dir.path(), &["mdp", "parity", "--method", "prefix_rloo", "--out", "found"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found = dir.path().join("found");
    let methods = Table::from_csv(&fs::read_to_string(found.join("data/methods.csv")).unwrap()).unwrap();
    let cell = |row: &[Cell], column: &str| row[methods.column(column).unwrap()].clone();
    let how = |row: &[Cell]| cell(row, "how").format(3);
    for row in &methods.rows {
        let noise = cell(row, "bias noise").number();
        assert_eq!(how(row) == "exact", noise == Some(0.0), "{row:?}");
    }
    let row = &methods.rows[0];
    let [bias, noise] = ["bias", "bias noise"].map(|column| cell(row, column).number().unwrap());
    assert!(how(row).starts_with("sampled, ") && 0.0 < bias && bias < 3.0 * noise, "{bias} {noise}");
    let figure = fs::read_to_string(found.join("figures/credit.svg")).unwrap();
    assert!(figure.contains("sampled"), "the caption");
}

#[test]
fn a_gradient_that_only_rounding_makes_is_refused_and_a_small_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let code = |text: &str| {
        fs::write(dir.path().join("task.toml"), text).unwrap();
        let done =
            sim(dir.path(), &["mdp", "task.toml", "--method", "rloo", "--group", "2", "--out", "found"]);
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let same = "tokens = \"a b EOS\"\neos = \"EOS\"\nhorizon = 1\ndefault_reward = 0.9\n";
    let (refused, why) = code(same);
    assert!(refused == Some(2) && why.contains("the policy gradient has the squared length "), "{why}");
    assert_eq!(code(&ROADS.replace("horizon = 3", "horizon = 3\ngamma = 1e-30")).0, Some(0));
    assert_eq!(code(&ROADS.replace("0.25, right = 0.75", "1e-16, right = 1.0")).0, Some(0));
}

#[test]
fn a_matrix_that_is_smaller_than_a_response_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let done =
        sim(dir.path(), &["mdp", "copy", "--method", "grpo_lambda", "matrix=as_printed", "matrix_length=2"]);
    let line = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{line}");
    assert!(line.contains("matrix_length = 2: a response of this task has up to"), "{line}");
}
