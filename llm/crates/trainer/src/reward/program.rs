//! A reward function in the user's program, which runs as long as the training.
//!
//! ```text
//! to it     {"prompt": "..", "completion": "..", "gold": "4", "tokens": 12, "token_ids": [..]}     a line for each response of a group
//! from it   0.5    or    {"reward": 0.5}    or    null                                             a line for each, in that order
//! ```
//! `null`, NaN and infinities leave the response without a value of this component; the latter two are reported. A program that ends, or does not
//! answer in time, is restarted and asked once more; if it fails again, the run writes a checkpoint and stops.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

/// The program's input about a response.
#[derive(Clone, Debug, Serialize)]
pub struct Question {
    /// The prompt's text, without special tokens.
    pub prompt: String,
    /// The response's text, without special tokens.
    pub completion: String,
    /// The reference answer; several accepted ones are joined by ` or `.
    pub gold: String,
    /// Tokens of the response, its end token included.
    pub tokens: usize,
    pub token_ids: Vec<u32>,
}

/// A program that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reward.command = {command}: {problem}")]
pub struct ProgramError {
    command: String,
    problem: String,
}

/// A running reward program.
#[derive(Debug)]
pub struct RewardProgram {
    command: String,
    timeout: Duration,
    running: Option<Running>,
    /// Answers so far that were no finite numbers; the first is reported.
    not_finite: u64,
}

#[derive(Debug)]
struct Running {
    child: Child,
    questions: Sender<String>,
    lines: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The shell's children too: one that does not read its input would wait for ever.
        let group = format!("-{}", self.child.id());
        drop(Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Attempts per group before the program is given up.
const ATTEMPTS: usize = 2;

impl RewardProgram {
    /// The program of a command line for `sh`, started with the first question.
    pub fn new(command: &str, timeout: Duration) -> RewardProgram {
        RewardProgram { command: command.to_owned(), timeout, running: None, not_finite: 0 }
    }

    /// The number of each response, in order; `say` receives lines for the user.
    ///
    /// # Errors
    /// [`ProgramError`] if it fails twice, or answers something other than a number.
    pub fn ask(
        &mut self,
        questions: &[Question],
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Option<f64>>, ProgramError> {
        let mut last = String::new();
        for attempt in 1..=ATTEMPTS {
            match self.once(questions) {
                Ok(lines) => return lines.iter().map(|line| self.number(line, say)).collect(),
                Err(problem) => {
                    self.running = None;
                    if attempt < ATTEMPTS {
                        say(&format!(
                            "warning: reward.command: {problem}; it is started again and asked once more"
                        ));
                    }
                    last = problem;
                }
            }
        }
        Err(self.failed(format!("{last}, {ATTEMPTS} times in a row")))
    }

    fn failed(&self, problem: String) -> ProgramError {
        ProgramError { command: self.command.clone(), problem }
    }

    /// Writes the questions and reads as many lines.
    fn once(&mut self, questions: &[Question]) -> Result<Vec<String>, String> {
        if self.running.is_none() {
            self.running = Some(start(&self.command)?);
        }
        let timeout = self.timeout;
        let Some(running) = &mut self.running else { return Err("it could not be started".to_owned()) };
        let mut text = String::new();
        for question in questions {
            text += &serde_json::to_string(question).map_err(|e| e.to_string())?;
            text.push('\n');
        }
        // A program that has ended is noticed by its silence.
        drop(running.questions.send(text));
        let deadline = Instant::now() + timeout;
        let mut answers = Vec::new();
        while answers.len() < questions.len() {
            match running.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => answers.push(line),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!(
                        "{} of {} answers came within {} s (reward.command_timeout)",
                        answers.len(),
                        questions.len(),
                        timeout.as_secs_f64()
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status =
                        running.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
                    return Err(format!(
                        "it ended ({status}) after {} of {} answers; it must read a line and answer a line until its input ends",
                        answers.len(),
                        questions.len()
                    ));
                }
            }
        }
        Ok(answers)
    }

    /// The number in a line.
    fn number(&mut self, line: &str, say: &mut dyn FnMut(&str)) -> Result<Option<f64>, ProgramError> {
        const NOT_FINITE: [&str; 3] = ["nan", "infinity", "inf"];
        let wrong = || {
            let shown: String = line.chars().take(80).collect();
            self.failed(format!(
                "answered {shown:?}; must be a number, {{\"reward\": a number}} or null, alone on its line"
            ))
        };
        let word = line.trim().to_lowercase();
        // Python writes NaN and Infinity, which are no JSON.
        let bare = word.rsplit([':', ' ', '{']).next().unwrap_or(&word);
        let bare = bare.trim_end_matches('}').trim().trim_start_matches(['-', '+']);
        if NOT_FINITE.contains(&bare) {
            self.not_finite += 1;
            if self.not_finite == 1 {
                say(&format!(
                    "warning: reward.command answered {}; such a response has no value of this component, and it is not said again",
                    line.trim()
                ));
            }
            return Ok(None);
        }
        let value: Value = serde_json::from_str(line.trim()).map_err(|_| wrong())?;
        match value.get("reward").unwrap_or(&value) {
            Value::Null => Ok(None),
            Value::Number(number) => number.as_f64().filter(|x| x.is_finite()).map(Some).ok_or_else(wrong),
            Value::Bool(flag) => Ok(Some(f64::from(u8::from(*flag)))),
            _ => Err(wrong()),
        }
    }
}

/// Starts the program, with a thread that reads what it writes.
fn start(command: &str) -> Result<Running, String> {
    let mut process = Command::new("sh");
    process.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Ctrl-C asks the run to end, not the program, which is still needed for the step under way.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut process, 0);
    let mut child = process.spawn().map_err(|e| format!("sh cannot be started: {e}"))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("its input and output are not there".to_owned());
    };
    // Threads, so that a program that neither reads nor writes cannot hold up the run beyond its time.
    let (questions, asked) = channel::<String>();
    std::thread::spawn(move || {
        for text in asked {
            if stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).is_err() {
                break;
            }
        }
    });
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    Ok(Running { child, questions, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions(n: usize) -> Vec<Question> {
        let one = |i: usize| Question {
            prompt: "2+2?".to_owned(),
            completion: "x".repeat(i),
            gold: "4".to_owned(),
            tokens: i,
            token_ids: vec![7; i],
        };
        (0..n).map(one).collect()
    }

    /// Asks a shell program, with a second to answer; the answers and what was said.
    fn ask(command: &str, n: usize) -> (Result<Vec<Option<f64>>, String>, String) {
        let mut said = String::new();
        let mut program = RewardProgram::new(command, Duration::from_secs(1));
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

    #[test]
    fn numbers_that_are_none_are_left_out_and_told_of_once() {
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
        let dies_once = format!(
            "if [ ! -e {0} ]; then touch {0}; exit 3; fi; while read a; do echo 1; done",
            once.display()
        );
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
    fn a_program_that_says_nothing_in_time_or_no_number_is_an_error() {
        let (answers, said) = ask("sleep 30", 1);
        let error = answers.expect_err("silent");
        assert!(error.contains("0 of 1 answers came within 1 s (reward.command_timeout)"), "{error}");
        assert!(said.contains("asked once more"), "{said}");
        let error = ask("while read a; do echo good; done", 1).0.expect_err("no number");
        assert!(error.contains("answered \"good\"; must be a number"), "{error}");
    }
}
