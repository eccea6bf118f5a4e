//! Rewards of the user's own: a program and a regular expression, in whole runs.

use std::path::Path;

use grpo_lambda_trainer::run;

use crate::common::{Done, json_lines, rows, words};

const SETTINGS: &str = "task.kind=addition sft.steps=5 rl.steps=4 rl.prompts_per_step=2 rl.group_size=3 rl.max_new_tokens=8 eval.n=5 \
                        eval.every=0 checkpoint.every=50 reward.accuracy=0";

/// A run with these settings, which may have blanks in them.
fn train(run: &Path, more: &[&str]) -> Done {
    crate::common::train(run, &[&words(SETTINGS), more])
}

#[test]
fn a_program_rewards_what_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("asked.jsonl");
    // Half the number of tokens, and a record of the questions.
    let program = format!(
        "while read -r line; do printf '%s\\n' \"$line\" >> {}; n=$(printf '%s\\n' \"$line\" | sed 's/.*\"tokens\":\\([0-9]*\\).*/\\1/'); echo \"$n.5\"; done",
        log.display()
    );
    let run = dir.path().join("run");
    let command = format!("reward.command={program}");
    let done = train(&run, &[&command, "reward.command_weight=0.5"]);
    done.tells("reward.command starts the program \"while read -r line;");
    done.output();
    for row in rows(&run, "rl") {
        let length = row["length"].as_f64().unwrap();
        assert!((row["reward_command"].as_f64().unwrap() - (length + 0.5)).abs() < 1e-12, "{row}");
        assert!((row["reward"].as_f64().unwrap() - 0.5 * (length + 0.5)).abs() < 1e-12, "{row}");
    }
    let asked = json_lines(&log);
    // One right answer before the run, then every response.
    assert_eq!(asked.len(), 1 + 4 * 2 * 3);
    for question in asked {
        let ids = question["token_ids"].as_array().unwrap().len() as u64;
        assert_eq!(question["tokens"].as_u64(), Some(ids));
        assert!(question["prompt"].as_str().unwrap().contains('+'), "{question}");
        assert!(question["gold"].as_str().unwrap().parse::<u64>().is_ok(), "{question}");
        assert!(question["completion"].is_string());
    }
}

#[test]
fn rewards_that_are_none_leave_empty_columns_and_those_too_large_to_sum_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let answering = |answer: &str| format!("reward.command=while read -r line; do echo {answer}; done");
    let none = dir.path().join("none");
    train(&none, &[&answering("NaN")]).output();
    let of_rewards = ["reward", "reward_command"];
    assert!(rows(&none, "rl").iter().all(|row| of_rewards.iter().all(|name| row.get(name).is_none())));
    let table = std::fs::read_to_string(none.join("metrics.csv")).unwrap();
    let mut lines = table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(','));
    let header: Vec<&str> = lines.next().unwrap().collect();
    for cells in lines.map(Iterator::collect::<Vec<_>>).filter(|cells| cells[1] == "rl") {
        for name in of_rewards {
            assert_eq!(cells[header.iter().position(|column| *column == name).unwrap()], "");
        }
    }
    // Nor is a response compared by accuracy alone where others of its group have both.
    let both = dir.path().join("both");
    let settings = SETTINGS.replace("reward.accuracy=0", "reward.accuracy=1");
    crate::common::train(&both, &[&words(&settings), &[&answering("null")]]).output();
    assert!(rows(&both, "rl").iter().all(|row| row.get("reward").is_none()));
    for answer in ["1e308", "-1e200"] {
        let run = dir.path().join(answer);
        let expected = format!("RL step 0: reward.command = … {answer} … must be from -1e100 to 1e100");
        train(&run, &[&answering(answer)]).refused(1, &expected);
    }
}

#[test]
fn a_program_that_gives_up_costs_no_step_that_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let (run, count) = (dir.path().join("run"), dir.path().join("count"));
    // It answers two steps (12 responses and the first question), then dies with every line.
    let program = |limit: usize| {
        format!(
            "reward.command=while read -r line; do echo x >> {0}; [ $(wc -l < {0}) -gt {limit} ] && exit 7; echo 1; done",
            count.display()
        )
    };
    let (mortal, long) = (program(13), program(10_000));
    let done = train(&run, &[&mortal]);
    done.refused(1, "RL step 2: reward.command = … it ended (exit status: 7) … 2 times in a row");
    done.tells("it is started again and asked once more");
    let saved = run::latest(&run).unwrap().unwrap();
    assert_eq!(saved.step(), 5 + 2, "the two steps that were done are kept: {}", done.stderr);
    done.tells("saved the finished steps to");
    // Another program is another run; the same one, healed, goes on.
    train(&run, &[&long]).refused(2, "holds a run with other settings … reward.command");
}

/// A program that reads no further has no other sign that its trainer is gone.
#[test]
#[cfg(target_os = "linux")]
fn a_program_ends_with_its_trainer_however_that_ends() {
    use std::process::{Command, Stdio};
    let dir = tempfile::tempdir().unwrap();
    let (run, pids) = (dir.path().join("run"), dir.path().join("pids"));
    let started = || std::fs::read_to_string(&pids).unwrap_or_default().lines().count();
    let is_alive = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The state follows the name of the program, which stands in brackets.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, None | Some('Z'))
    };
    // One answer, which is that of the trial before the run, and silence.
    let program = format!("reward.command=echo $$ >> {}; read -r line; echo 1; sleep 600; :", pids.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train-tested"));
    command.args(["train", "--run", run.to_str().unwrap()]).args(words(SETTINGS)).arg(program);
    let mut trainer = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| started() == 2);
    trainer.kill().unwrap();
    trainer.wait().unwrap();
    let programs = std::fs::read_to_string(&pids).unwrap();
    wait_until(|| !programs.lines().any(is_alive));
}

/// Waits for up to a minute.
#[cfg(unix)]
fn wait_until(mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("not within a minute");
}

#[test]
fn a_program_that_cannot_work_is_refused_before_there_is_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    for (settings, expected) in [
        (
            &["reward.command=/no/such/program"][..],
            "reward.command = /no/such/program: it ended (exit status: 127)",
        ),
        (
            &["reward.command=sleep 20", "reward.command_timeout=0.3"],
            "0 of 1 answers came within 0.3 s (reward.command_timeout)",
        ),
        (&["reward.command=while read a; do echo ok; done"], "answered \"ok\"; must be a number"),
        (&["reward.regex=(a"], "reward.regex = (a: unclosed group; must be a regular expression"),
    ] {
        train(&run, settings).refused(2, expected);
        assert!(!run.exists(), "{settings:?}");
    }
}

#[test]
fn an_expression_rewards_the_responses_in_which_it_matches() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), &["reward.regex=[0-9]", "reward.regex_weight=2"]).output();
    let mut seen = [0, 0];
    for sample in json_lines(&dir.path().join("samples.jsonl")) {
        let matches = sample["response"].as_str().unwrap().contains(|c: char| c.is_ascii_digit());
        assert_eq!(sample["reward"].as_f64(), Some(if matches { 2.0 } else { 0.0 }), "{sample}");
        seen[usize::from(matches)] += 1;
    }
    assert!(seen[1] > 0, "{seen:?}");
}
