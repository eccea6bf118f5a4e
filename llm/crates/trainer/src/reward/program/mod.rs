//! A reward function in the user's program, which runs as long as the training.
//!
//! ```text
//! to it     {"id": 7, "prompt": "..", "completion": "..", "gold": "4", "tokens": 12, "token_ids": [..], "step": 3, ..}     a line for each response of a group
//! from it   0.5    or    {"reward": 0.5}    or    {"id": 7, "reward": 0.5}    or    null                  a line for each, in that order
//! ```
//! After `step`, which counts from 0, stand the columns of the row that are not asked, by name; one named as a field here is `row_NAME`.
//!
//! `null`, NaN and infinities leave the response without a value of this component; the latter two are reported. An answer with an `id` must
//! repeat that of its question. A line that nobody asked for would shift every answer after it, so it ends the run; so does a line longer than
//! `LONGEST_ANSWER`. A program that ends, or does not answer in time, is restarted and asked once more; if it fails again, the run writes a
//! checkpoint and stops.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use crate::bounded::limits::{LONGEST_ANSWER, WAITING_ANSWERS};

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
    /// The step of RL, from 0.
    pub step: u64,
    /// The columns of the problem's row that are not asked, under their names: see [`Question::columns`].
    #[serde(flatten)]
    pub row: BTreeMap<String, Value>,
}

impl Question {
    /// The names that a question has of its own.
    const OWN: [&str; 7] = ["id", "prompt", "completion", "gold", "tokens", "token_ids", "step"];

    /// The columns of a row as a question has them: one with a name of the question's own is `row_NAME`.
    pub fn columns(row: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
        let named = |name: &String| {
            if Self::OWN.contains(&name.as_str()) { format!("row_{name}") } else { name.clone() }
        };
        row.iter().map(|(name, value)| (named(name), value.clone())).collect()
    }

    /// The first of its own names that a row has both plain and as `row_NAME`, which [`Question::columns`] cannot tell apart.
    pub fn collision(row: &BTreeMap<String, Value>) -> Option<&'static str> {
        Self::OWN.into_iter().find(|name| row.contains_key(*name) && row.contains_key(&format!("row_{name}")))
    }
}

/// A question with its number among all that the run asked.
#[derive(Serialize)]
struct Numbered<'a> {
    id: u64,
    #[serde(flatten)]
    question: &'a Question,
}

/// A program that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reward.command = {command}: {problem}")]
pub struct ProgramError {
    command: String,
    problem: String,
}

/// A failure to get the answers of a group.
enum Failure {
    /// The program may do better when it is started again.
    Passing(String),
    /// It would do the same again.
    Lasting(String),
}

/// A running reward program.
#[derive(Debug)]
pub struct RewardProgram {
    command: String,
    timeout: Duration,
    /// True once the run is asked to end.
    stopping: fn() -> bool,
    running: Option<Running>,
    /// Questions that were answered, and so the id of the next one.
    answered: u64,
    /// Answers so far that were no finite numbers; the first is reported.
    not_finite: u64,
}

/// A line that the program wrote, without blanks around it; `None` for one that is too long, after which nothing is read.
type Line = Option<String>;

#[derive(Debug)]
struct Running {
    child: Child,
    /// See [`watch`].
    watch: Option<Child>,
    /// Open as long as the program's input.
    questions: Option<Sender<String>>,
    lines: Receiver<Line>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // With its input the watch ends, and with it the group, of which one that does not read its own would wait for ever.
        if let Some(watch) = &mut self.watch {
            drop(watch.stdin.take());
            drop(watch.wait());
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Attempts per group before the program is given up.
const ATTEMPTS: usize = 2;

/// Time for what must follow at once: the end of a program whose input or output ended, an answer once the run is asked to end.
const MOMENT: Duration = Duration::from_secs(2);

/// Time between two looks at whether the run is asked to end.
const TICK: Duration = Duration::from_millis(50);

impl RewardProgram {
    /// The program of a command line for `sh`, started with the first question.
    pub fn new(command: &str, timeout: Duration) -> RewardProgram {
        let stopping = || false;
        RewardProgram {
            command: command.to_owned(),
            timeout,
            stopping,
            running: None,
            answered: 0,
            not_finite: 0,
        }
    }

    /// This program, waited for no longer than a moment once `stopping` says that the run is asked to end.
    #[must_use]
    pub fn heeding(self, stopping: fn() -> bool) -> RewardProgram {
        RewardProgram { stopping, ..self }
    }

    /// Asks about one response, closes the program's input and waits a moment for its end.
    ///
    /// # Errors
    /// The errors of [`RewardProgram::ask`], also for a line next to the answer.
    pub fn try_out(mut self, question: Question, say: &mut dyn FnMut(&str)) -> Result<(), ProgramError> {
        self.ask(&[question], say)?;
        let Some(running) = &mut self.running else { return Ok(()) };
        running.questions = None;
        let deadline = Instant::now() + self.timeout.min(MOMENT);
        // A program that goes on without input may do so.
        while let Ok(line) = running.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let Err(problem) = unasked(line) {
                return Err(self.failed(problem));
            }
        }
        Ok(())
    }

    /// The number of each response, in order; `say` receives lines for the user.
    ///
    /// # Errors
    /// [`ProgramError`] if it fails twice, or writes something other than a number for each response.
    pub fn ask(
        &mut self,
        questions: &[Question],
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Option<f64>>, ProgramError> {
        let mut last = String::new();
        for attempt in 1..=ATTEMPTS {
            match self.once(questions) {
                Ok(lines) => {
                    let asked = (self.answered..).zip(&lines);
                    let numbers = asked.map(|(id, line)| self.number(id, line, say)).collect();
                    self.answered += questions.len() as u64;
                    return numbers;
                }
                Err(Failure::Lasting(problem)) => return Err(self.failed(problem)),
                Err(Failure::Passing(problem)) if (self.stopping)() => return Err(self.failed(problem)),
                Err(Failure::Passing(problem)) => {
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
    fn once(&mut self, questions: &[Question]) -> Result<Vec<String>, Failure> {
        if self.running.is_none() {
            self.running = Some(start(&self.command).map_err(Failure::Passing)?);
        }
        let (timeout, stopping) = (self.timeout, self.stopping);
        let Some(running) = &mut self.running else {
            return Err(Failure::Passing("it could not be started".to_owned()));
        };
        // A program that has ended is noticed by its silence.
        while let Ok(line) = running.lines.try_recv() {
            unasked(line).map_err(Failure::Lasting)?;
        }
        let mut text = String::new();
        for (id, question) in (self.answered..).zip(questions) {
            let json = serde_json::to_string(&Numbered { id, question });
            text += &json.map_err(|e| Failure::Lasting(e.to_string()))?;
            text.push('\n');
        }
        running.questions.iter().for_each(|questions| drop(questions.send(text.clone())));
        let (begun, mut answers, mut heard) = (Instant::now(), Vec::new(), Instant::now());
        while answers.len() < questions.len() {
            let count = format!("{} of {} answers", answers.len(), questions.len());
            match running.lines.recv_timeout(TICK.min(timeout.saturating_sub(begun.elapsed()))) {
                Ok(Some(line)) if line.is_empty() => {}
                Ok(Some(line)) => {
                    heard = Instant::now();
                    answers.push(line);
                }
                Ok(None) => return Err(Failure::Lasting(too_long())),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() >= timeout => {
                    let seconds = timeout.as_secs_f64();
                    let problem = format!("{count} came within {seconds} s (reward.command_timeout)");
                    return Err(Failure::Passing(problem));
                }
                Err(RecvTimeoutError::Timeout) if stopping() && heard.elapsed() >= MOMENT.min(timeout) => {
                    return Err(Failure::Lasting(format!("{count} had come when the run was asked to end")));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let how = running.ended();
                    return Err(Failure::Passing(format!(
                        "{how} after {count}; it must read a line and answer a line until its input ends"
                    )));
                }
            }
        }
        Ok(answers)
    }

    /// The number in the answer to question `id`.
    fn number(
        &mut self,
        id: u64,
        line: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<f64>, ProgramError> {
        // Python writes NaN and Infinity, which are no JSON.
        static NOT_FINITE: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(r"(?i)[-+]?\b(nan|inf|infinity)\b").ok());
        let shown = || line.chars().take(80).collect::<String>();
        let wrong = || {
            let must = "must be a number, {\"reward\": a number} or null, alone on its line";
            self.failed(format!("answered {:?}; {must}", shown()))
        };
        let finite = NOT_FINITE.as_ref().map_or(line.into(), |words| words.replace_all(line, "null"));
        let value: Value = serde_json::from_str(&finite).map_err(|_| wrong())?;
        if let Some(theirs) = value.get("id").filter(|theirs| theirs.as_u64() != Some(id)) {
            let problem = format!(
                "answered {:?}, to id {theirs}, where the answer to id {id} is due; must answer in the order of the questions",
                shown()
            );
            return Err(self.failed(problem));
        }
        match value.get("reward").unwrap_or(&value) {
            Value::Null if finite != line => {
                self.not_finite += 1;
                if self.not_finite == 1 {
                    say(&format!(
                        "warning: reward.command answered {}; such a response has no value of this component, and it is not said again",
                        shown()
                    ));
                }
                Ok(None)
            }
            Value::Null => Ok(None),
            Value::Number(number) => number.as_f64().filter(|x| x.is_finite()).map(Some).ok_or_else(wrong),
            Value::Bool(flag) => Ok(Some(f64::from(u8::from(*flag)))),
            _ => Err(wrong()),
        }
    }
}

/// Refuses a line that no question asked for.
fn unasked(line: Line) -> Result<(), String> {
    match line {
        None => Err(too_long()),
        Some(line) if line.is_empty() => Ok(()),
        Some(line) => {
            let shown: String = line.chars().take(80).collect();
            Err(format!(
                "wrote the line {shown:?}, which answers no question and would be taken for the answer to the next; \
                 must write a line for each line that it reads, and anything else to its standard error"
            ))
        }
    }
}

fn too_long() -> String {
    format!("wrote a line of more than {LONGEST_ANSWER} bytes; must be a number alone on its line")
}

impl Running {
    /// The end of a program whose output has ended, in words.
    fn ended(&mut self) -> String {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("it ended ({status})"),
                Ok(None) if begun.elapsed() < MOMENT => thread::sleep(Duration::from_millis(5)),
                Ok(None) => return "it closed its output and goes on".to_owned(),
                Err(e) => return e.to_string(),
            }
        }
    }
}

/// Starts the program, with threads that write its input and read its output: one that neither reads nor writes cannot hold up the run.
fn start(command: &str) -> Result<Running, String> {
    let mut process = Command::new("sh");
    process.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Ctrl-C asks the run to end, not the program, which is still needed for the step under way.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut process, 0);
    let mut child = process.spawn().map_err(|e| format!("sh cannot be started: {e}"))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let ((questions, asked), (send, lines)) = (channel(), sync_channel(WAITING_ANSWERS));
    // From here on the program is killed where something fails.
    let mut running = Running { child, watch: None, questions: Some(questions), lines };
    #[cfg(unix)]
    running
        .watch
        .replace(watch(running.child.id()).map_err(|e| format!("its watch cannot be started: {e}"))?);
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err("its input and output are not there".to_owned());
    };
    let no_thread = |e| format!("no thread for its input and output: {e}");
    thread::Builder::new().spawn(move || write(stdin, &asked)).map_err(no_thread)?;
    thread::Builder::new().spawn(move || read(stdout, &send)).map_err(no_thread)?;
    Ok(running)
}

/// A process that kills all processes of a group once this one has ended, by whatever signal: its input ends then.
#[cfg(unix)]
fn watch(group: u32) -> std::io::Result<Child> {
    let mut process = Command::new("sh");
    process.arg("-c").arg(format!("read -r _; kill -s KILL -- -{group}"));
    process.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // A signal to the group of this process is not for it.
    std::os::unix::process::CommandExt::process_group(&mut process, 0).spawn()
}

fn write(mut stdin: ChildStdin, asked: &Receiver<String>) {
    for text in asked {
        if stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            break;
        }
    }
}

fn read(stdout: ChildStdout, lines: &SyncSender<Line>) {
    let mut output = BufReader::new(stdout);
    let mut bytes = Vec::new();
    while let Ok(1..) = output.by_ref().take(LONGEST_ANSWER as u64 + 1).read_until(b'\n', &mut bytes) {
        let fits = bytes.len() <= LONGEST_ANSWER;
        let line = fits.then(|| String::from_utf8_lossy(&bytes).trim().to_owned());
        if lines.send(line).is_err() || !fits {
            break;
        }
        bytes.clear();
    }
}
