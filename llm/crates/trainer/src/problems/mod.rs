//! The problems of a run: those of the embedded task, or the rows of a data set.

mod dataset;

use dataset::{Dataset, LengthLimits, dataset};
use grpo_lambda::group::InputKind;
use grpo_lambda_grade::Extraction;

use crate::config::{Config, ModelSource};
use crate::input::data::{DataError, DataSet, Row, RowLocation};
use crate::input::prompt::PromptError;
use crate::input::task::{Problem, Split, Task, TaskSource};
use crate::input::tokens::{ModelTokenizer, TokenError};

/// The reason why there are no problems.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(
        "task.data = {data}: no row is left for the {split} split of {of}; give more rows, or held-out ones as task.test"
    )]
    NoRow { data: String, split: &'static str, of: usize },
    /// A row that exceeds the context, or has no place for the answer that a teacher reads, if such rows are not skipped.
    #[error("{place}: {problem}{}; leave such rows out with task.on_bad_row=skip",
        if *more == 0 { String::new() } else { format!(" (and {more} more such rows)") })]
    TooLong { place: RowLocation, problem: String, more: usize },
    /// A template that changes the problem's text, so that the answer for the teacher has no place.
    #[error(
        "task.template: the prompt does not hold the problem as its row has it, so the reference answer that the teacher of this method reads has no \
         place; choose another template, or a method without a teacher"
    )]
    NoPlaceForAnswer,
    #[error(
        "{place}: columns `{name}` and `row_{name}`: reward.command reads `{name}` of a row as `row_{name}`, so one of them would be lost; rename one"
    )]
    SameName { place: RowLocation, name: &'static str },
}

/// The training stage of a problem; the stages read the training split in different orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Sft,
    Rl,
}

/// First index for RL of an embedded task's problems, none of which supervised learning has seen, and of a data set's epochs, which have other
/// orders.
const RL_OFFSET: u64 = 1 << 40;

/// First round of a data set that only dynamic sampling asks for: its rows come from epochs far after those that the steps read in order.
const FURTHER_ROUNDS: u64 = 1 << 30;

/// Training prompts that a run is recognised by.
const RECOGNISED_BY: u64 = 8;

/// The problems of a run, open.
#[derive(Debug)]
pub struct Problems {
    seed: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Embedded(Task),
    Dataset(Box<Dataset>),
}

/// The longest rows that a run may meet in training, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxLengths {
    pub prompt: usize,
    /// Tokens of a prompt and its worked solution; 0 without supervised learning.
    pub example: usize,
}

/// True if the method has a teacher, which reads each problem of RL with its answer.
pub(crate) fn has_teacher(config: &Config) -> bool {
    config.rl.steps > 0 && config.configured().extra_inputs().contains(&InputKind::TeacherLogps)
}

/// Problems of an embedded task whose lengths are measured.
const LENGTH_SAMPLE: u64 = 1000;

impl Problems {
    /// Opens the problems of a configuration for a model with `limit` positions; `say` receives lines for the user.
    pub fn open(
        config: &Config,
        tokens: &ModelTokenizer,
        limit: usize,
        say: &mut dyn FnMut(&str),
    ) -> Result<Problems, TaskError> {
        let source = match &config.task {
            TaskSource::Embedded(task) => Source::Embedded(task.clone()),
            TaskSource::Dataset(task) => {
                let checkpoint = match &config.model {
                    ModelSource::Checkpoint(directory) => Some(directory.as_path()),
                    ModelSource::Random(_) => None,
                };
                let room = LengthLimits {
                    limit,
                    new: config.rl.max_new_tokens,
                    supervised: config.sft.steps > 0,
                    teacher: has_teacher(config),
                    filter: task.lengths,
                };
                Source::Dataset(Box::new(dataset(
                    task,
                    (config.seed, config.reward.reads_rows()),
                    checkpoint,
                    (tokens, room),
                    say,
                )?))
            }
        };
        Ok(Problems { seed: config.seed, source })
    }

    /// Problem `index` of a stage: a pure function of the run's seed, the stage and the index.
    pub fn problem(&self, stage: Stage, index: u64) -> Result<Problem, TaskError> {
        match &self.source {
            Source::Embedded(task) => {
                let first = if stage == Stage::Rl { RL_OFFSET } else { 0 };
                Ok(task.problem(self.seed, Split::Train, first + index))
            }
            Source::Dataset(d) => {
                let order = if stage == Stage::Rl { &d.reinforced } else { &d.supervised };
                let row = d.splits[0][order.at(index)];
                d.problem(&d.data.row(row as usize)?)
            }
        }
    }

    /// The number of a round of sampling among all rounds of as many problems: of the steps in order for the first round of each, so that every
    /// row of a data set comes once an epoch; of other epochs for the up to `most` - 1 further rounds of dynamic sampling. The problems of an
    /// embedded task never end, and every step has numbers for `most` rounds.
    pub(crate) fn round_number(&self, step: u64, round: u64, most: u64) -> u64 {
        match (&self.source, round) {
            (Source::Embedded(_), _) => step * most + round,
            (Source::Dataset(_), 0) => step,
            (Source::Dataset(_), _) => FURTHER_ROUNDS + step * (most - 1) + round - 1,
        }
    }

    /// Up to `n` different problems of a split. A data set's do not depend on the run's seed, so that all runs are measured on the same ones.
    pub fn distinct(&self, split: Split, n: usize) -> Result<Vec<Problem>, TaskError> {
        match &self.source {
            Source::Embedded(task) => Ok(task.distinct(self.seed, split, n)),
            Source::Dataset(d) => d.distinct(split, n)?.iter().map(|row| d.problem(row)).collect(),
        }
    }

    /// The rows of [`Problems::distinct`]; an embedded task has none.
    pub fn rows(&self, split: Split, n: usize) -> Result<Vec<Row>, TaskError> {
        match &self.source {
            Source::Embedded(_) => Ok(Vec::new()),
            Source::Dataset(d) => d.distinct(split, n),
        }
    }

    /// The problems of a data set that training meets; an embedded task has none.
    pub fn training(&self) -> Result<Vec<String>, TaskError> {
        let Source::Dataset(d) = &self.source else { return Ok(Vec::new()) };
        d.splits[Split::Train as usize].iter().map(|row| Ok(d.data.row(*row as usize)?.problem)).collect()
    }

    /// The longest rows of training: of all rows of a data set, or of many problems of an embedded task. With a teacher a prompt counts with the
    /// answer that the teacher reads in it.
    pub fn longest(&self, config: &Config, tokens: &ModelTokenizer) -> Result<MaxLengths, TaskError> {
        let mut longest = MaxLengths::default();
        let (supervised, teacher) = (config.sft.steps > 0, has_teacher(config));
        let mut look = |problem: Problem| {
            let prompt = problem.encode(tokens)?.ids().len();
            let answered = problem.answered().filter(|_| teacher);
            let answered = answered.map(|p| Ok::<_, TaskError>(p.encode(tokens)?.ids().len())).transpose()?;
            longest.prompt = longest.prompt.max(prompt).max(answered.unwrap_or(0));
            // A token is at least a byte, so most solutions need not be counted.
            if supervised && prompt + problem.solution.len() > longest.example {
                longest.example = longest.example.max(prompt + tokens.target(&problem.solution)?.ids().len());
            }
            Ok::<_, TaskError>(())
        };
        match &self.source {
            Source::Embedded(_) => (0..LENGTH_SAMPLE).try_for_each(|i| look(self.problem(Stage::Sft, i)?)),
            Source::Dataset(d) => {
                d.splits[0].iter().try_for_each(|row| look(d.problem(&d.data.row(*row as usize)?)?))
            }
        }?;
        Ok(longest)
    }

    /// Numbers of rows for training, validation and test; `None` for an embedded task.
    pub fn sizes(&self) -> Option<[usize; 3]> {
        let Source::Dataset(d) = &self.source else { return None };
        let [train, validation, test] = &d.splits;
        Some([train.len(), validation.len(), d.test.as_ref().map_or(test.len(), DataSet::len)])
    }

    /// The place of the answer in a response.
    pub fn extraction(&self) -> Extraction {
        match &self.source {
            Source::Embedded(_) => Extraction::Boxed,
            Source::Dataset(d) => d.grader.extraction,
        }
    }

    /// Texts that end a response besides the end tokens: the stop strings of a data set's template.
    pub fn stop(&self) -> &[String] {
        match &self.source {
            Source::Embedded(_) => &[],
            Source::Dataset(d) => d.template.stop(),
        }
    }

    /// The checksum of the first training prompts of a data set, as tokens: another template, tokenizer or order of rows changes it.
    pub fn prompts(&self, tokens: &ModelTokenizer) -> Result<Option<String>, TaskError> {
        let Source::Dataset(_) = &self.source else { return Ok(None) };
        let crc = (0..RECOGNISED_BY).try_fold(0, |crc, index| {
            let prompt = self.problem(Stage::Rl, index)?.encode(tokens)?;
            let next = |crc, id: &u32| crc32c::crc32c_append(crc, &id.to_le_bytes());
            Ok::<u32, TaskError>(prompt.ids().iter().fold(crc, next))
        })?;
        Ok(Some(format!("{crc:08x}")))
    }

    /// The checksum of a data set's rows: a run is not continued on others.
    pub fn fingerprint(&self) -> Option<String> {
        let Source::Dataset(d) = &self.source else { return None };
        let test = d.test.as_ref().map_or(String::new(), |t| format!("-{:08x}", t.fingerprint()));
        Some(format!("{:08x}{test}", d.data.fingerprint()))
    }
}
