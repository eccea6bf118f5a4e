//! The problems of a run: those of the embedded task, or the rows of a data set.

use std::collections::HashSet;
use std::path::Path;

use grpo_lambda_grade::Extraction;

use crate::config::{Config, ModelSource};
use crate::input::data::{DataError, DataSet, OnBadRow, Place, Row, Shuffled, open};
use crate::input::prompt::{PromptError, Template};
use crate::input::task::{DatasetTask, Problem, Split, Task, TaskSource};
use crate::input::tokens::{TokenError, Tokens};

/// Why there are no problems.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The data set.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The template.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The tokenizer.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A split has no row.
    #[error(
        "task.data = {data}: no row is left for the {split} split of {of}; give more rows, or held-out ones as task.test"
    )]
    NoRow {
        /// The data set.
        data: String,
        /// The split.
        split: &'static str,
        /// How many rows there are.
        of: usize,
    },
    /// A row that the model has no room for, where such rows are not skipped.
    #[error("{place}: {problem}{}; leave such rows out with task.on_bad_row=skip",
        if *more == 0 { String::new() } else { format!(" (and {more} more such rows)") })]
    TooLong {
        /// The first.
        place: Place,
        /// What is too long.
        problem: String,
        /// How many others.
        more: usize,
    },
}

/// Which stage a problem is for; the stages read the training split in different orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Supervised learning.
    Supervised,
    /// Reinforcement learning.
    Reinforced,
}

/// Problems of the embedded task are numbered from here for RL, so that it meets problems that supervised learning did not. Epochs of a data set
/// likewise, so that it meets the same ones in another order.
const REINFORCED: u64 = 1 << 40;

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

#[derive(Debug)]
struct Dataset {
    template: Template,
    data: DataSet,
    /// The held-out rows, where they are a data set of their own.
    test: Option<DataSet>,
    /// Numbers of rows by split, in the order of [`Split::ALL`].
    splits: [Vec<u32>; 3],
    supervised: Shuffled,
    reinforced: Shuffled,
}

/// How much room a model has.
#[derive(Clone, Copy, Debug)]
struct Room {
    limit: usize,
    /// Tokens of a response that is sampled.
    new: usize,
    /// Whether there is supervised learning, which needs room for worked solutions.
    supervised: bool,
}

/// The longest rows that a run may meet in training, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// Of a prompt.
    pub prompt: usize,
    /// Of a prompt and its worked solution; 0 without supervised learning.
    pub example: usize,
}

/// Problems of an embedded task that are looked at for their lengths.
const LOOKED_AT: u64 = 1000;

impl Problems {
    /// Opens the problems of a configuration for a model with `limit` positions; `say` is told what was found.
    ///
    /// # Errors
    /// [`TaskError`].
    pub fn open(
        config: &Config,
        tokens: &Tokens,
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
                let room = Room { limit, new: config.rl.max_new_tokens, supervised: config.sft.steps > 0 };
                Source::Dataset(Box::new(dataset(task, config.seed, checkpoint, (tokens, room), say)?))
            }
        };
        Ok(Problems { seed: config.seed, source })
    }

    /// Problem `index` of a stage: a pure function of the run's seed, the stage and the index.
    ///
    /// # Errors
    /// When its row cannot be read any more.
    pub fn problem(&self, stage: Stage, index: u64) -> Result<Problem, TaskError> {
        match &self.source {
            Source::Embedded(task) => {
                let first = if stage == Stage::Reinforced { REINFORCED } else { 0 };
                Ok(task.problem(self.seed, Split::Train, first + index))
            }
            Source::Dataset(d) => {
                let order = if stage == Stage::Reinforced { &d.reinforced } else { &d.supervised };
                let row = d.splits[0][order.at(index)];
                d.problem(&d.data.row(row as usize)?)
            }
        }
    }

    /// Up to `n` problems of a split of which no two are alike. Those of a data set do not depend on the run's seed, so that runs are measured on the same.
    ///
    /// # Errors
    /// When a row cannot be read any more.
    pub fn distinct(&self, split: Split, n: usize) -> Result<Vec<Problem>, TaskError> {
        match &self.source {
            Source::Embedded(task) => Ok(task.distinct(self.seed, split, n)),
            Source::Dataset(d) => d.distinct(split, n)?.iter().map(|row| d.problem(row)).collect(),
        }
    }

    /// The rows of [`Problems::distinct`]; an embedded task has none.
    ///
    /// # Errors
    /// When a row cannot be read any more.
    pub fn rows(&self, split: Split, n: usize) -> Result<Vec<Row>, TaskError> {
        match &self.source {
            Source::Embedded(_) => Ok(Vec::new()),
            Source::Dataset(d) => d.distinct(split, n),
        }
    }

    /// The longest rows of training: of all rows of a data set, or of many problems of an embedded task.
    ///
    /// # Errors
    /// When a row cannot be read any more.
    pub fn longest(&self, tokens: &Tokens, supervised: bool) -> Result<Longest, TaskError> {
        let mut longest = Longest::default();
        let mut look = |problem: Problem| {
            let prompt = problem.encode(tokens)?.ids().len();
            longest.prompt = longest.prompt.max(prompt);
            // A token is at least a byte, so most solutions need not be counted.
            if supervised && prompt + problem.solution.len() > longest.example {
                longest.example = longest.example.max(prompt + tokens.target(&problem.solution)?.ids().len());
            }
            Ok::<_, TaskError>(())
        };
        match &self.source {
            Source::Embedded(_) => (0..LOOKED_AT).try_for_each(|i| look(self.problem(Stage::Supervised, i)?)),
            Source::Dataset(d) => {
                d.splits[0].iter().try_for_each(|row| look(d.problem(&d.data.row(*row as usize)?)?))
            }
        }?;
        Ok(longest)
    }

    /// Where the answer stands in a response.
    pub fn extraction(&self) -> Extraction {
        match &self.source {
            Source::Embedded(_) => Extraction::Boxed,
            Source::Dataset(d) => d.template.extraction(),
        }
    }

    /// What identifies the rows of a data set: a run is not continued on others.
    pub fn fingerprint(&self) -> Option<String> {
        let Source::Dataset(d) = &self.source else { return None };
        let test = d.test.as_ref().map_or(String::new(), |t| format!("-{:08x}", t.fingerprint()));
        Some(format!("{:08x}{test}", d.data.fingerprint()))
    }
}

impl Dataset {
    fn problem(&self, row: &Row) -> Result<Problem, TaskError> {
        problem(&self.template, row)
    }

    /// Up to `n` rows of a split of which no two have the same problem.
    fn distinct(&self, split: Split, n: usize) -> Result<Vec<Row>, TaskError> {
        let (data, rows) = match (&self.test, split) {
            (Some(test), Split::Test) => (test, None),
            _ => (&self.data, Some(&self.splits[split as usize])),
        };
        let count = rows.map_or(data.len(), Vec::len);
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        for at in crate::input::data::permutation(0, 0, count as u32) {
            if found.len() == n {
                break;
            }
            let row = data.row(rows.map_or(at, |rows| rows[at as usize]) as usize)?;
            if seen.insert(row.problem.clone()) {
                found.push(row);
            }
        }
        Ok(found)
    }
}

fn problem(template: &Template, row: &Row) -> Result<Problem, TaskError> {
    let prompt = template.prompt(&row.problem)?;
    let answer = row.answers.first().map_or("", String::as_str);
    Ok(Problem {
        prompt: prompt.text,
        special_tokens: prompt.special_tokens,
        solution: template.target(row.solution.as_deref().unwrap_or(""), answer),
        direct: template.direct(answer),
        gold: row.gold.clone(),
        extraction: template.extraction(),
        expression: None,
        canonical: row.problem.clone(),
    })
}

fn opened(at: &str, task: &DatasetTask, say: &mut dyn FnMut(&str)) -> Result<DataSet, TaskError> {
    let data = open(at, &task.columns, task.on_bad_row)?;
    let bad = match data.bad_count() {
        0 => String::new(),
        n => format!("; {n} bad rows left out, the first: {}", data.bad_rows()[0]),
    };
    let split = data.located().split.as_ref().map_or(String::new(), |s| format!(", split {s}"));
    say(&format!("{at}: {} rows{split}; layout {}{bad}", data.len(), data.layout()));
    Ok(data)
}

/// Opens data and template, divides the rows, and leaves out or refuses those that do not fit.
fn dataset(
    task: &DatasetTask,
    seed: u64,
    checkpoint: Option<&Path>,
    (tokens, room): (&Tokens, Room),
    say: &mut dyn FnMut(&str),
) -> Result<Dataset, TaskError> {
    let mut template = Template::load(&task.template, checkpoint)?;
    if let Some(system) = &task.system {
        template = template.with_system(system)?;
    }
    let data = opened(&task.data, task, say)?;
    let test = task.test.as_ref().map(|at| opened(at, task, say)).transpose()?;
    let mut held_out = HashSet::new();
    for row in test.iter().flat_map(DataSet::rows) {
        held_out.insert(row?.problem);
    }
    let mut splits = [const { Vec::new() }; 3];
    let (mut contaminated, mut long, mut unknown, mut all) = (0usize, Vec::new(), 0usize, 0usize);
    let unk = tokens.id(crate::input::tokens::UNKNOWN);
    for row in data.rows() {
        let row = row?;
        let split = match &test {
            // What is held out is not trained on, whatever file it stands in.
            Some(_) if held_out.contains(&row.problem) => {
                contaminated += 1;
                continue;
            }
            Some(_) => Split::Train,
            None => Split::of(&row.problem),
        };
        let problem = problem(&template, &row)?;
        let prompt = problem.encode(tokens)?;
        all += prompt.ids().len();
        unknown += prompt.ids().iter().filter(|id| Some(**id) == unk).count();
        match too_long(&problem, prompt.ids().len(), (tokens, room), split)? {
            Some(why) => {
                long.push((
                    Place { file: row.file, line: row.line, is_row: data.counts_rows(row.index) },
                    why,
                ));
            }
            None => splits[split as usize].push(row.index as u32),
        }
    }
    if let Some((place, problem)) = long.first() {
        if task.on_bad_row == OnBadRow::Refuse {
            let (place, problem) = (place.clone(), problem.clone());
            return Err(TaskError::TooLong { place, problem, more: long.len() - 1 });
        }
        say(&format!(
            "{}: {} rows left out for their length, the first: {place}: {problem}",
            task.data,
            long.len()
        ));
    }
    if contaminated > 0 {
        say(&format!("{}: {contaminated} rows are held-out problems and are not trained on", task.data));
    }
    if unknown > 0 {
        say(&format!("warning: {unknown} of the prompts' {all} tokens are unknown to the tokenizer"));
    }
    let no_row =
        |split: Split| TaskError::NoRow { data: task.data.clone(), split: split.name(), of: data.len() };
    if splits[Split::Train as usize].is_empty() {
        return Err(no_row(Split::Train));
    }
    if test.is_none() && splits[Split::Test as usize].is_empty() {
        return Err(no_row(Split::Test));
    }
    let rows = splits[0].len() as u32;
    let (supervised, reinforced) = (Shuffled::new(seed, rows, 0), Shuffled::new(seed, rows, REINFORCED));
    Ok(Dataset { template, data, test, splits, supervised, reinforced })
}

/// What of a problem does not fit into the model, if anything.
fn too_long(
    problem: &Problem,
    prompt: usize,
    (tokens, room): (&Tokens, Room),
    split: Split,
) -> Result<Option<String>, TokenError> {
    let Room { limit, new, supervised } = room;
    if prompt.saturating_add(new) > limit {
        return Ok(Some(format!(
            "the prompt has {prompt} tokens; with {new} new ones it exceeds the model's limit of {limit}"
        )));
    }
    // A token is at least a byte, so most need not be counted.
    if !supervised || split != Split::Train || prompt + problem.solution.len() < limit {
        return Ok(None);
    }
    let solution = tokens.target(&problem.solution)?.ids().len();
    Ok((prompt + solution > limit).then(|| {
        format!(
            "prompt and solution have {prompt} and {solution} tokens, more than the model's limit of {limit}"
        )
    }))
}
