//! Metrics of a benchmark from its graded responses.
//!
//! An ungradable response (its answer cannot be parsed, or its prompt fills the context) is left out of the accuracy by this project's
//! convention, and scored 0 by that of most leaderboards and of the paper's evaluation code. Both are reported; pass@k and maj@k use the second.
//!
//! All problems have equal weight. Samples of one problem are not independent, so with several samples intervals come from
//! resampling problems.

use std::collections::BTreeMap;

use grpo_lambda_grade::Extraction;
use grpo_lambda_stats::{Bootstrap, Interval, mean, pass_at_k, t_interval, wilson};

use super::CONFIDENCE_LEVEL;
use super::completion::{CompletionRecord, RecordedFinish, ResponseOutcome};
use super::vote::majority;

/// The samples of one problem, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    pub right: u64,
    /// Gradable samples: right or wrong.
    pub graded: u64,
    pub samples: u64,
}

impl Tally {
    pub fn new(samples: &[CompletionRecord]) -> Tally {
        let count = |f: fn(&CompletionRecord) -> bool| samples.iter().filter(|c| f(c)).count() as u64;
        Tally {
            right: count(|c| c.verdict == ResponseOutcome::Right),
            graded: count(|c| c.verdict.score().is_some()),
            samples: samples.len() as u64,
        }
    }

    /// Share of right samples among the gradable; `None` if there are none.
    pub fn score(&self) -> Option<f64> {
        (self.graded > 0).then(|| self.right as f64 / self.graded as f64)
    }

    /// Share of right samples among all.
    pub fn score_of_all(&self) -> f64 {
        self.right as f64 / self.samples as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassAtK {
    /// The number of attempts.
    pub k: usize,
    /// The mean over problems of the unbiased estimate.
    pub value: Interval,
}

/// maj@k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Majority {
    /// Share of problems whose most frequent answer is right.
    pub value: Interval,
    /// Problems where several answers were equally frequent; each counts with the share of those answers that is right.
    pub ties: usize,
}

/// Right answers from which a doubt is taken up by a line.
const RIGHT: usize = 5;

/// The numbers of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchmarkScores {
    pub name: String,
    pub problems: usize,
    /// Responses to each problem.
    pub samples: usize,
    /// Mean over problems of the share of right responses among the gradable; `None` if there are none.
    pub accuracy: Option<Interval>,
    /// Accuracy with ungradable responses scored 0.
    pub as_wrong: Interval,
    /// Number of responses by outcome, in the order of [`ResponseOutcome::ALL`].
    pub outcomes: [usize; 5],
    /// Responses that only a lenient rule of the grader makes right.
    pub lenient: usize,
    /// Problems with at least one gradable response.
    pub graded_problems: usize,
    /// Responses cut off at the length limit.
    pub cut_off: usize,
    /// Right responses that were cut off at the length limit.
    pub right_cut_off: usize,
    /// The four words with which most right responses begin, and how many do.
    pub opening: Option<(String, usize)>,
    /// Responses whose answer is a part of the problem; they count as wrong.
    pub restated: usize,
    /// Responses that were sampled: all but those whose prompt fills the context.
    pub responses: usize,
    /// Mean length of the sampled responses in tokens; `None` if there are none.
    pub mean_tokens: Option<f64>,
    /// Mean over problems of the length, with its 95 % interval (Student); `None` for fewer than two.
    pub tokens: Option<Interval>,
    /// pass@k for each k asked for.
    pub pass: Vec<PassAtK>,
    /// maj@k; with several samples.
    pub majority: Option<Majority>,
}

/// The numbers of a benchmark from the responses to each of its problems. `pass_at` holds numbers of attempts, none above the samples.
///
/// # Panics
/// When there is no problem, the problems have different numbers of samples, or an element of `pass_at` is 0 or above it.
pub fn scores(name: &str, completions: &[Vec<CompletionRecord>], pass_at: &[usize]) -> BenchmarkScores {
    let samples = completions.first().map_or(0, Vec::len);
    assert!(
        samples > 0 && completions.iter().all(|c| c.len() == samples),
        "as many samples of every problem"
    );
    let tallies: Vec<Tally> = completions.iter().map(|c| Tally::new(c)).collect();
    let all = || completions.iter().flatten();
    let right = || all().filter(|c| c.verdict == ResponseOutcome::Right);
    let lengths = |of: &[CompletionRecord]| -> Vec<f64> {
        of.iter().filter(|c| c.finish != RecordedFinish::NoRoom).map(|c| c.tokens as f64).collect()
    };
    let made: Vec<f64> = completions.iter().flat_map(|c| lengths(c)).collect();
    let of_problems: Vec<f64> = completions.iter().filter_map(|c| mean(&lengths(c))).collect();
    let each = |f: &dyn Fn(&Tally) -> f64| -> Vec<f64> { tallies.iter().map(f).collect() };
    let graded: Vec<f64> = tallies.iter().filter_map(Tally::score).collect();
    let pass = pass_at.iter().map(|&k| {
        let chance =
            |t: &Tally| pass_at_k(t.samples, t.right, k as u64).expect("no more attempts than samples");
        PassAtK { k, value: over_problems(&each(&chance)).expect("a problem") }
    });
    let votes: Vec<_> = completions.iter().map(|c| majority(c)).collect();
    let vote_scores: Vec<f64> = votes.iter().map(|v| v.score).collect();
    BenchmarkScores {
        name: name.to_owned(),
        problems: completions.len(),
        samples,
        accuracy: over_problems(&graded),
        as_wrong: over_problems(&each(&Tally::score_of_all)).expect("a problem"),
        outcomes: ResponseOutcome::ALL.map(|outcome| all().filter(|c| c.verdict == outcome).count()),
        lenient: all().filter(|c| c.lenient).count(),
        graded_problems: graded.len(),
        cut_off: all().filter(|c| c.finish == RecordedFinish::Length).count(),
        right_cut_off: right().filter(|c| c.finish == RecordedFinish::Length).count(),
        opening: opening(right().map(|c| c.text.as_str())),
        restated: all().filter(|c| c.reason.ends_with("stands in the problem")).count(),
        responses: made.len(),
        mean_tokens: mean(&made),
        tokens: t_interval(&of_problems, CONFIDENCE_LEVEL),
        pass: pass.collect(),
        majority: (samples > 1).then(|| Majority {
            value: over_problems(&vote_scores).expect("a problem"),
            ties: votes.iter().filter(|v| v.tie).count(),
        }),
    }
}

/// The first four words that most texts share, and how many do.
fn opening<'a>(texts: impl Iterator<Item = &'a str>) -> Option<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text.split_whitespace().take(4).collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count)
}

impl BenchmarkScores {
    /// Lines on what may be no answer although it is counted as one, and on a place of answers that no response has.
    pub fn doubts(&self, extract: Extraction) -> Vec<String> {
        let mut lines = Vec::new();
        let (right, missing) = (self.count(ResponseOutcome::Right), self.count(ResponseOutcome::NoAnswer));
        if right >= RIGHT && self.right_cut_off == right {
            let opening = self.opening.iter().map(|(words, n)| format!("; {n} of them begin with `{words}`"));
            lines.push(format!(
                "{}: all {right} right responses were cut off at the length limit, so none of them may have given its answer{}",
                self.name,
                opening.collect::<String>()
            ));
        }
        if self.restated > 0 {
            lines.push(format!(
                "{}: {} responses give a part of the problem for its answer; they count as wrong",
                self.name, self.restated
            ));
        }
        if self.responses >= 4 * RIGHT && 50 * (self.responses - missing) <= self.responses {
            lines.push(format!(
                "{}: {missing} of {} responses have no answer at the place that `{}` reads; ask for it in the prompt, or read another by --extract",
                self.name,
                self.responses,
                extract.name()
            ));
        }
        lines
    }

    /// Responses of this outcome.
    pub fn count(&self, outcome: ResponseOutcome) -> usize {
        let at = ResponseOutcome::ALL.iter().position(|o| *o == outcome);
        at.map_or(0, |at| self.outcomes[at])
    }

    /// Ungradable responses.
    pub fn uncounted(&self) -> usize {
        self.count(ResponseOutcome::Unreadable) + self.count(ResponseOutcome::NoRoom)
    }
}

/// The mean over problems of numbers in 0..=1 with its 95 % interval: Wilson's if every number is 0 or 1, else a percentile bootstrap over
/// problems. `None` without a problem.
///
/// All 0 or all 1 with several samples takes Wilson's too, since a bootstrap would have no width; any other number that all problems share has
/// Wilson's upper end of the share of problems that might differ, with none seen, on both sides. These intervals are those of one sample per problem,
/// and so rather wide.
///
/// # Panics
/// When a number is not in 0..=1.
pub fn over_problems(values: &[f64]) -> Option<Interval> {
    assert!(values.iter().all(|v| (0.0..=1.0).contains(v)), "shares of right answers");
    if values.iter().all(|v| *v == 0.0 || *v == 1.0) {
        let right = values.iter().filter(|v| **v == 1.0).count();
        return wilson(right as u64, values.len() as u64, CONFIDENCE_LEVEL);
    }
    if values.iter().all(|v| *v == values[0]) {
        let (mid, unseen) = (values[0], wilson(0, values.len() as u64, CONFIDENCE_LEVEL)?.high);
        let (low, high) = ((mid - unseen).max(0.0), (mid + unseen).min(1.0));
        return Some(Interval { low, mid, high, level: CONFIDENCE_LEVEL });
    }
    let bootstrap = Bootstrap { level: CONFIDENCE_LEVEL, ..Bootstrap::default() };
    let statistic = |strata: &[Vec<f64>]| mean(&strata[0]).unwrap_or(f64::NAN);
    bootstrap.interval(&[values.to_vec()], statistic)
}
