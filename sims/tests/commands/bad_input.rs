//! Bad input to `sim`: one clear line on stderr, nothing on stdout, exit code 2, nothing written.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use assert_cmd::Command;
use grpo_lambda_claims::experiments::REGISTRY;

/// Arguments, standard input, what the line must contain.
type Case<'a> = (&'a [&'a str], &'a [u8], &'a [&'a str]);

fn sim(args: &[&str], stdin: &[u8]) -> std::process::Output {
    Command::cargo_bin("grpo-sim").unwrap().args(args).write_stdin(stdin).output().unwrap()
}

#[track_caller]
fn assert_refused(args: &[&str], stdin: &[u8], expected: &[&str]) {
    let output = sim(args, stdin);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let shown = format!("sim {}\n{}\n{stderr}", args.join(" "), String::from_utf8_lossy(stdin));
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(output.stdout.is_empty(), "{shown}");
    assert!(stderr.ends_with('\n') && stderr.lines().count() == 1, "one line expected: {shown}");
    assert!(stderr.starts_with("grpo-sim"), "{shown}");
    for part in expected {
        assert!(stderr.contains(part), "expected {part:?}: {shown}");
    }
}

#[test]
fn arguments() {
    let none: &[u8] = b"";
    let cases: &[Case] = &[
        (&["no_such_experiment"], none, &["grpo-sim: error: unknown experiment `no_such_experiment`", "grpo-sim --list"]),
        (&["estimat"], none, &["unknown experiment `estimat` (did you mean `estimate`?)"]),
        (
            &["estimat", "--method", "grpo"],
            none,
            &["unknown experiment `estimat` (did you mean `estimate`?)"],
        ),
        (&["a\nb"], none, &["unknown experiment `a\\nb`"]),
        (&["--sed", "3"], none, &["grpo-sim: error: unexpected argument '--sed'", "'--seed'", "see grpo-sim --help"]),
        (&["--seed", "x"], none, &["invalid value 'x' for '--seed <N>'"]),
        (&["--seed", "-1"], none, &["unexpected argument '-1'"]),
        (&["--seed", "18446744073709551616"], none, &["--seed", "18446744073709551616"]),
        (&["--list", "--out"], none, &["a value is required for '--out <DIR>'"]),
        (&["methods", "gro"], none, &["grpo-sim methods: error: unknown method `gro` (did you mean `grpo`?)"]),
        (&["estimate"], none, &["grpo-sim estimate: error: ", "--method <NAME>", "see grpo-sim estimate --help"]),
        (
            &["estimate", "--method", "grpo-lambda"],
            none,
            &["--method: unknown method `grpo-lambda` (did you mean `grpo_lambda`?)"],
        ),
        (
            &["estimate", "--explain", "--method", "grpo"],
            none,
            &["grpo-sim estimate: error: ", "--against <THEIRS.jsonl>"],
        ),
        (
            &["estimate", "--against", "/no/such.jsonl"],
            b"{\"rewards\":[1,0],\"logps\":[[-1],[-1]],\"old_logps\":[[-1],[-1]]}",
            &["grpo-sim estimate: error: /no/such.jsonl: ", "--against must name a readable text file"],
        ),
        (
            &["estimate", "--against", "x", "lambda=1"],
            none,
            &["`lambda=1`: without --method only beta=X, max_length=L and the settings of a correction are taken"],
        ),
        (
            &["estimate", "--against", "x", "--tolerance", "2"],
            none,
            &["--tolerance 2: must be a number above 0 and below 1"],
        ),
        (
            &["estimate", "--method", "grpo"],
            b"{\"rewards\":[1,0],\"logps\":[[-1],[-1]],\"old_logps\":[[-1],[-1]],\"completion_mask\":[[1],[1]]}",
            &["stdin:1: `completion_mask`: unknown field (here it is `mask`)"],
        ),
        (
            &["estimate", "--method", "grpo"],
            b"{\"logps\":[[-1],[-1]],\"old_logps\":[[-1],[-1]],\"advantages\":[[1,2],3]}",
            &["stdin:1: advantages[0] has 2 entries, logps[0] has 1"],
        ),
        (
            &["estimate", "--method", "GRPO"],
            none,
            &["--method: unknown method `GRPO` (did you mean `grpo`?)"],
        ),
        (
            &["estimate", "--method", "grpo", "lamda=0.9"],
            none,
            &["unknown key `lamda` for method grpo (`lambda` is a setting of grpo_lambda, "],
        ),
        (
            &["estimate", "--method", "grpo_lambda", "--lambda", "0.9"],
            none,
            &["'--lambda'", "key=value, as in lambda=0.9"],
        ),
        (
            &["estimate", "--method", "grpo", "--input", "/no/such.jsonl"],
            none,
            &["grpo-sim estimate: error: /no/such.jsonl: ", "--input must name a readable file"],
        ),
        (
            &["estimate", "--method", "grpo", "--input", "/dev/zero"],
            none,
            &["grpo-sim estimate: error: /dev/zero: a device; must be a file or a pipe; --input must name a readable file"],
        ),
        (
            &["estimate", "--against", "/dev/zero"],
            b"{\"rewards\":[1,0],\"logps\":[[-1],[-1]],\"old_logps\":[[-1],[-1]]}",
            &["grpo-sim estimate: error: /dev/zero: a device; must be a file or a pipe; --against must name a readable text file"],
        ),
        (&["mdp", ".", "--method", "grpo"], none, &["grpo-sim mdp: error: .: a directory; give a TOML file or the name of a task"]),
        (&["mdp", "/dev/zero", "--method", "grpo"], none, &["/dev/zero: cannot be read: a device; must be"]),
        (
            &["estimate", "--method", "grpo", "--input", "/"],
            none,
            &["grpo-sim estimate: error: /: ", "--input must name a readable file"],
        ),
        (
            &["estimate", "--method", "grpo", "Cargo.toml"],
            none,
            &["`Cargo.toml`: no setting", "write --input Cargo.toml"],
        ),
    ];
    for (args, stdin, expected) in cases {
        assert_refused(args, stdin, expected);
    }
}

#[test]
fn settings() {
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["lamda=0.9"],
            &[
                "unknown key `lamda` for method grpo_lambda (did you mean `lambda`?)",
                "its keys: lambda, gamma",
            ],
        ),
        (&["lambda=1.5"], &["lambda=1.5: must be a number from 0 to 1"]),
        (&["lambda=-0.1"], &["lambda=-0.1: must be a number from 0 to 1"]),
        (&["lambda=NaN"], &["lambda=NaN: must be a number from 0 to 1"]),
        (&["lambda=abc"], &["lambda=abc: must be a number from 0 to 1"]),
        (&["lambda="], &["lambda=: must be a number from 0 to 1"]),
        (&["beta=inf"], &["beta=inf: must be a number of at least 0"]),
        (&["beta=-0.04"], &["beta=-0.04: must be a number of at least 0"]),
        (&["style=recency"], &["style=recency: must be one of recent, both"]),
        (&["clamp=0.1"], &["clamp=0.1: must be none or a number of at most 0"]),
        (&["std_ddof=0.5"], &["std_ddof=0.5: must be one of none, 0, 1"]),
        (
            &["clip=two_sided", "epsilon_high=0.5", "clip_max=1.1"],
            &["clip_max=1.1: must be at least 1 + epsilon_high = 1.5"],
        ),
        (&["mask_truncated=yes"], &["mask_truncated=yes: must be true or false"]),
        (&["lambda=0.9", "lambda=0.8"], &["lambda is given twice: 0.9 and 0.8"]),
        (&["lambda", "0.9"], &["`lambda`, `0.9`: no setting; settings are written key=value"]),
        (&["style=both", "=3"], &["`=3`: no setting; settings are written key=value"]),
    ];
    for (settings, expected) in cases {
        let args = [&["estimate", "--method", "grpo_lambda"], *settings].concat();
        assert_refused(&args, GOOD.as_bytes(), &[&["grpo-sim estimate: error: "], *expected].concat());
    }
}

const GOOD: &str = "{\"rewards\":[1,0],\"logps\":[[-0.5,-0.25],[-1]],\"old_logps\":[[-0.5,-0.25],[-1]]}\n";

/// The good line with one thing changed.
fn spoilt(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

#[test]
fn groups() {
    let twice = |id: &str| GOOD.replacen('{', &format!("{{\"id\":{id},"), 1);
    let cases: &[(String, &str)] = &[
        // numbers
        (spoilt("-0.25", "NaN"), "stdin:1: logps[0][1] = NaN; must be a finite number"),
        (spoilt("-0.25", "Infinity"), "stdin:1: logps[0][1] = inf; must be a finite number"),
        (
            spoilt("\"old_logps\":[[-0.5", "\"old_logps\":[[-Infinity"),
            "stdin:1: old_logps[0][0] = -inf; must be a finite number",
        ),
        (spoilt("-0.25", "1e999"), "stdin:1: not JSON, column 37: number out of range; numbers must fit"),
        (spoilt("[1,0]", "[1,NaN]"), "stdin:1: rewards[1] = NaN; must be a finite number, or null when"),
        (
            spoilt("[1,0]", "[-Infinity,1]"),
            "stdin:1: rewards[0] = -inf; must be a finite number, or null when",
        ),
        (spoilt("[1,0]", "[1.7e308,1.6e308]"), "stdin:1: advantages[0][0] would be "),
        (
            spoilt("\"old_logps\":[[-0.5,-0.25],[-1]]", "\"old_logps\":[[-1e308,-0.25],[-1]],\"id\":\"x\"")
                .replacen("-0.5", "1e308", 1),
            "stdin:1: metrics.ratio_mean would be inf; ",
        ),
        // shapes
        (
            "{\"rewards\":[],\"logps\":[],\"old_logps\":[]}".into(),
            "stdin:1: rewards: the group has no responses; a group-relative baseline needs at least 2",
        ),
        (
            "{\"rewards\":[1],\"logps\":[[-1]],\"old_logps\":[[-1]]}".into(),
            "stdin:1: rewards: the group has one response; a group-relative baseline needs at least 2",
        ),
        (spoilt("[1,0]", "[1,0,1]"), "stdin:1: logps: 2 entries for 3 rewards; one per response is needed"),
        (
            spoilt("\"old_logps\":[[-0.5,-0.25],[-1]]", "\"old_logps\":[[-1]]"),
            "stdin:1: old_logps: 1 entries for 2 rewards; one per response is needed",
        ),
        (
            spoilt("\"logps\":[[-0.5,-0.25],[-1]]", "\"logps\":[[-0.5,-0.25],[]]"),
            "stdin:1: old_logps[1] has 1 entries, logps[1] has 0; one per token is needed",
        ),
        (
            spoilt("\"old_logps\":[[-0.5,-0.25],[-1]]", "\"old_logps\":[[-0.5,-0.25],[]]"),
            "stdin:1: old_logps[1] has 0 entries, logps[1] has 1; one per token is needed",
        ),
        (
            spoilt("\"old_logps\":[[-0.5,-0.25]", "\"old_logps\":[[-0.5]"),
            "stdin:1: old_logps[0] has 1 entries, logps[0] has 2; one per token is needed",
        ),
        (
            spoilt("{", "{\"ref_logps\":[[-1,-1],[-1,-1]],"),
            "stdin:1: ref_logps[1] has 2 entries, logps[1] has 1; one per token is needed",
        ),
        // fields
        (
            spoilt("old_logps", "old_logprobs"),
            "stdin:1: `old_logprobs`: unknown field (did you mean `old_logps`?); the fields are id, rewards",
        ),
        (
            spoilt("\"rewards\":[1,0],", ""),
            "stdin:1: rewards: missing; every line needs rewards, logps, old_logps",
        ),
        (
            spoilt("\"rewards\":[1,0]", "\"rewards\":[1,0],\"rewards\":[0,1]"),
            "stdin:1: rewards: given twice; each field may appear once",
        ),
        // JSON
        ("{\"rewards\":[1,0],".into(), "stdin:1: not JSON, column 17: EOF while parsing"),
        (
            "{'rewards':[1,0]}".into(),
            "stdin:1: not JSON, column 2: key must be a string; each line must be one whole JSON object",
        ),
        (GOOD.trim().repeat(2), "stdin:1: not JSON, column 78: trailing characters"),
        (
            format!("[{}]", GOOD.trim()),
            "stdin:1: the line is a list of 1; each line must be one whole JSON object",
        ),
        ("NaN".into(), "stdin:1: the line is NaN; each line must be one whole JSON object"),
        ("[".repeat(100_000), "stdin:1: not JSON, column 128: recursion limit exceeded"),
        // files
        (String::new(), "stdin: no groups; one JSON object per line is needed"),
        ("\n  \n\r\n".into(), "stdin: no groups; one JSON object per line is needed"),
        (format!("{GOOD}\n{GOOD}{}", spoilt("-0.25", "NaN")), "stdin:4: logps[0][1] = NaN"),
        (
            format!("{}\n{GOOD}{}", twice("\"a\""), twice("\"a\"")),
            "stdin:4: id = \"a\": also the id of line 1; ids must differ",
        ),
        (
            format!("{}{}{}", twice("1"), twice("\"1\""), twice("1")),
            "stdin:3: id = 1: also the id of line 1; ids must differ",
        ),
    ];
    for (stdin, expected) in cases {
        let expected = format!("grpo-sim estimate: error: {expected}");
        assert_refused(&["estimate", "--method", "grpo"], stdin.as_bytes(), &[&expected]);
    }
}

#[test]
fn the_first_wrong_line_is_named_however_many_threads_read_them() {
    let mut lines = vec![GOOD.to_owned(); 2000];
    for wrong in [1501, 37, 998] {
        lines[wrong - 1] = spoilt("-0.25", "NaN");
    }
    assert_refused(&["estimate", "--method", "grpo"], lines.concat().as_bytes(), &["stdin:37: "]);
}

#[test]
fn text_that_is_not_utf8() {
    let stdin = [GOOD.as_bytes(), b"{\"id\":\"\xff\"}"].concat();
    let expected = "grpo-sim estimate: error: stdin:2: byte 8 of the line is 0xff: not UTF-8; the input must be UTF-8 text";
    assert_refused(&["estimate", "--method", "grpo"], &stdin, &[expected]);
}

#[test]
fn inputs_the_settings_need() {
    let expected = "stdin:1: ref_logps: missing for response 0; beta is not 0";
    assert_refused(&["estimate", "--method", "grpo", "beta=0.04"], GOOD.as_bytes(), &[expected]);
    // Advantages that are given do not choose the tokens that count.
    let given =
        br#"{"rewards":[1,0],"advantages":[1,-1],"logps":[[-1.0],[-1.0]],"old_logps":[[-1.0],[-1.0]]}"#;
    for method in ["s_trace_reconstructed", "high_entropy"] {
        assert_refused(&["estimate", "--method", method], given, &["stdin:1: entropies: missing"]);
    }
}

#[test]
fn the_file_is_named_in_place_of_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.jsonl");
    std::fs::write(&path, spoilt("-0.25", "NaN")).unwrap();
    let path = path.to_str().unwrap();
    let expected = format!("grpo-sim estimate: error: {path}:1: logps[0][1] = NaN");
    assert_refused(&["estimate", "--method", "grpo", "--input", path], b"", &[&expected]);
}

#[test]
fn a_misspelt_experiment_gets_the_nearest_id() {
    for experiment in REGISTRY {
        let (misspelt, _) = experiment.id.split_at(experiment.id.len() - 1);
        if REGISTRY.iter().any(|e| e.id == misspelt) {
            continue;
        }
        assert_refused(&[misspelt], b"", &[&format!("unknown experiment `{misspelt}` (did you mean `")]);
    }
}

#[test]
fn an_output_folder_that_cannot_be_written() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let below = file.path().join("out");
    let below = below.to_str().unwrap();
    assert_refused(
        &["--out", below],
        b"",
        &[&format!("grpo-sim: error: --out: cannot write to {below}/data: "), "give a folder"],
    );
    assert_refused(&["--out", ""], b"", &["'--out <DIR>'"]);
    if cfg!(target_os = "linux") {
        // Not even root may create files there.
        assert_refused(
            &["--out", "/proc/sim"],
            b"",
            &["grpo-sim: error: --out: cannot write to /proc/sim/data: "],
        );
    }
}
