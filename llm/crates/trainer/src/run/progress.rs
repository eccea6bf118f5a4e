//! The progress line: step, metrics, tokens per second and remaining time.
//!
//! On a terminal it is one line that moves; elsewhere (a log file, a pipe) it is a plain line every few seconds.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grpo_lambda_decoder::generate::SamplingProgress;
use grpo_lambda_stats::hanging;
use grpo_lambda_stats::table::significant;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Steps over which speed is averaged.
const WINDOW: usize = 20;
/// Minimum time between two plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// Minimum time between two plain lines within a step.
const PHASE_EVERY: Duration = Duration::from_secs(30);

/// Speed over the last steps of this process; steps done before a resume do not count.
#[derive(Debug)]
pub struct Speed {
    total: u64,
    /// For each of the last steps: when it ended, its number, and the tokens processed until then.
    seen: VecDeque<(Duration, u64, u64)>,
    tokens: u64,
}

impl Speed {
    pub fn new(done: u64, total: u64) -> Speed {
        Speed { total, seen: VecDeque::from([(Duration::ZERO, done, 0)]), tokens: 0 }
    }

    pub fn step(&mut self, at: Duration, step: u64, tokens: u64) {
        self.tokens += tokens;
        self.seen.push_back((at, step, self.tokens));
        if self.seen.len() > WINDOW + 1 {
            self.seen.pop_front();
        }
    }

    /// When the last step ended.
    fn ended(&self) -> Duration {
        self.seen.back().map_or(Duration::ZERO, |last| last.0)
    }

    /// Time since the last step.
    fn since_last(&self, at: Duration) -> Duration {
        at.saturating_sub(self.ended())
    }

    /// Seconds, steps and tokens between the ends of the window.
    fn window(&self) -> (f64, u64, u64) {
        match (self.seen.front(), self.seen.back()) {
            (Some(a), Some(b)) => ((b.0 - a.0).as_secs_f64(), b.1.saturating_sub(a.1), b.2 - a.2),
            _ => (0.0, 0, 0),
        }
    }

    /// The mean time of a step.
    fn step_time(&self) -> Option<Duration> {
        let (seconds, steps, _) = self.window();
        (steps > 0).then(|| Duration::from_secs_f64(seconds / steps as f64))
    }

    pub fn tokens_per_second(&self) -> Option<f64> {
        let (seconds, _, tokens) = self.window();
        (seconds > 0.0 && tokens > 0).then(|| tokens as f64 / seconds)
    }

    pub fn left(&self) -> Option<Duration> {
        let step = self.seen.back()?.1;
        self.step_time().map(|time| time.mul_f64(self.total.saturating_sub(step) as f64))
    }
}

/// True if only warnings and errors are printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Prints nothing but warnings and errors from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// True if a line is left out because of [`be_quiet`].
fn is_left_out(line: &str) -> bool {
    QUIET.load(Ordering::Relaxed) && !(line.starts_with("warning") || line.starts_with("llm-train:"))
}

/// Prints a line on standard error; a closed pipe does not end the run.
pub fn say(line: &str) {
    if is_left_out(line) {
        return;
    }
    let width = console::Term::stderr().size_checked().map(|(_, columns)| columns);
    let shown = width.map_or_else(|| line.to_owned(), |width| wrapped(line, usize::from(width)));
    drop(writeln!(std::io::stderr(), "{shown}"));
}

/// A text in lines of at most `width` characters, broken between words; a longer word has a line of its own.
pub fn wrapped(text: &str, width: usize) -> String {
    text.lines().map(|line| hanging("", line, width)).collect::<Vec<_>>().join("\n")
}

/// `41s`, `3m07s`, `2h05m`.
///
/// ```
/// use std::time::Duration;
/// use grpo_lambda_trainer::run::progress::format_duration;
/// assert_eq!([41, 187, 7500].map(|s| format_duration(Duration::from_secs(s))), ["41s", "3m07s", "2h05m"]);
/// ```
pub fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

enum Display {
    Bar(ProgressBar),
    Plain { out: Box<dyn Write + Send>, last: Option<Duration> },
    Quiet,
}

/// Progress of one stage.
pub struct Progress {
    stage: String,
    started: Instant,
    speed: Speed,
    display: Display,
    /// The line of the last step.
    line: String,
    /// The time that follows the stage, where it is known, and what follows in words.
    then: (Duration, String),
}

impl Progress {
    /// Progress of `stage` on standard error, from `done` steps of `total`.
    pub fn new(stage: &str, done: u64, total: u64) -> Progress {
        if QUIET.load(Ordering::Relaxed) {
            return Progress::with(stage, done, total, Display::Quiet);
        }
        if !std::io::stderr().is_terminal() {
            return Progress::plain(stage, done, total, Box::new(std::io::stderr()));
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{prefix} {bar:20} {msg}").expect("a valid template");
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(stage.to_owned());
        bar.set_position(done);
        Progress::with(stage, done, total, Display::Bar(bar))
    }

    /// Progress as plain lines to `out`.
    pub fn plain(stage: &str, done: u64, total: u64, out: Box<dyn Write + Send>) -> Progress {
        Progress::with(stage, done, total, Display::Plain { out, last: None })
    }

    fn with(stage: &str, done: u64, total: u64, display: Display) -> Progress {
        let (line, then) = (format!("{done}/{total}"), (Duration::ZERO, String::new()));
        let speed = Speed::new(done, total);
        Progress { stage: stage.to_owned(), started: Instant::now(), speed, display, line, then }
    }

    /// With what follows this stage, for the remaining time of the whole run: a time, or words where it is not known.
    pub fn followed_by(self, time: Duration, words: &str) -> Progress {
        Progress { then: (time, words.to_owned()), ..self }
    }

    /// For several threads.
    pub fn shared(self) -> SharedProgress {
        SharedProgress(Mutex::new(self))
    }

    /// The mean time of the last steps.
    pub fn step_time(&self) -> Option<Duration> {
        self.speed.step_time()
    }

    /// Shows what a step is doing, after the line of the last step.
    pub fn phase(&mut self, word: &str) {
        self.phase_at(self.started.elapsed(), word);
    }

    pub fn phase_at(&mut self, at: Duration, word: &str) {
        let since = self.last_plain().unwrap_or_default().max(self.speed.ended());
        let line = format!("{}  ({word})", self.line);
        self.show(at, line, at >= since + PHASE_EVERY);
    }

    /// Shows that `step` steps are done, with figures such as reward and KL, and the tokens this step processed.
    pub fn step(&mut self, step: u64, figures: &[(&str, f64)], tokens: u64) {
        self.step_at(self.started.elapsed(), step, figures, tokens);
    }

    pub fn step_at(&mut self, at: Duration, step: u64, figures: &[(&str, f64)], tokens: u64) {
        self.speed.step(at, step, tokens);
        let line = self.line(step, figures);
        self.line.clone_from(&line);
        if let Display::Bar(bar) = &self.display {
            bar.set_position(step);
        }
        let due = self.last_plain().is_none_or(|last| at >= last + PLAIN_EVERY);
        self.show(at, line, due || step >= self.speed.total);
    }

    /// When a plain line was shown last.
    fn last_plain(&self) -> Option<Duration> {
        match &self.display {
            Display::Plain { last, .. } => *last,
            _ => None,
        }
    }

    /// Shows a line; a plain one only when it is `due`.
    fn show(&mut self, at: Duration, line: String, due: bool) {
        match &mut self.display {
            Display::Bar(bar) => bar.set_message(line),
            Display::Quiet => {}
            Display::Plain { out, last } => {
                if due {
                    *last = Some(at);
                    // A closed pipe must not end a run.
                    drop(writeln!(out, "{} {line}", self.stage));
                }
            }
        }
    }

    /// Shows where an evaluation is: `done` problems of `samples` responses each, and how far the responses are that are sampled together. Without
    /// these, the problems are a step.
    pub fn evaluated(&mut self, done: u64, samples: u64, under_way: Option<SamplingProgress>) {
        let at = self.started.elapsed();
        match under_way {
            Some(within) => self.within_at(at, done, samples, within),
            None => self.step_at(at, done, &[], 0),
        }
    }

    pub fn within_at(&mut self, at: Duration, step: u64, samples: u64, within: SamplingProgress) {
        let since = self.speed.since_last(at).as_secs_f64();
        let problems = within.responses as f64 / samples.max(1) as f64;
        let to_do = self.speed.total.saturating_sub(step) as f64 / problems;
        let SamplingProgress { tokens, ended, responses, .. } = within;
        let mut line =
            format!("{step}/{}  {ended} of the next {responses} responses ended", self.speed.total);
        if since > 0.0 && tokens > 0 {
            let left = since * (to_do / within.share() - 1.0).max(0.0);
            let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
            // Before a response ended, each is taken to run to its limit.
            let most = if ended == 0 { " at most" } else { "" };
            line += &format!("  {:.0} tok/s  ETA{most} {}", tokens as f64 / since, format_duration(left));
        }
        let due = at >= self.last_plain().unwrap_or_default() + PLAIN_EVERY;
        self.show(at, line, due);
    }

    fn line(&self, step: u64, figures: &[(&str, f64)]) -> String {
        let mut line = format!("{step}/{}", self.speed.total);
        for (name, x) in figures {
            line += &format!("  {name} {}", significant(*x, 3));
        }
        if let Some(rate) = self.speed.tokens_per_second() {
            line += &format!("  {rate:.0} tok/s");
        }
        if step < self.speed.total
            && let Some(left) = self.speed.left()
        {
            line += &format!("  ETA {}", format_duration(left + self.then.0));
            line += &self.then.1;
        }
        line
    }

    /// Prints a line of its own, above the moving one: warnings, evaluations.
    pub fn note(&mut self, text: &str) {
        match &mut self.display {
            Display::Quiet => say(text),
            Display::Bar(bar) => bar.println(text),
            Display::Plain { out, .. } => drop(writeln!(out, "{text}")),
        }
    }

    /// Leaves the last line where it is.
    pub fn finish(self) {
        if let Display::Bar(bar) = self.display {
            bar.abandon();
        }
    }
}

/// A display that several threads write to.
pub struct SharedProgress(Mutex<Progress>);

impl SharedProgress {
    /// Shares the display that [`Progress::new`] makes.
    pub fn new(name: &str, done: u64, total: u64) -> SharedProgress {
        Progress::new(name, done, total).shared()
    }

    /// The display, for one thread at a time.
    pub fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the last line where it is, as [`Progress::finish`] does.
    pub fn finish(self) {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
    }
}
