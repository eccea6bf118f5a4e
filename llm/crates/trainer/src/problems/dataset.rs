//! A data set as the problems of a run: its rows that fit, divided into splits.

use std::collections::HashSet;
use std::path::Path;

use grpo_lambda_grade::Grader;

use super::{RL_OFFSET, TaskError};
use crate::input::around::surroundings;
use crate::input::data::{Conflicts, DataSet, OnBadRow, Row, RowLocation, Shuffled, open, permutation};
use crate::input::prompt::Template;
use crate::input::task::{DatasetTask, LengthFilter, Problem, Split};
use crate::input::tokens::{ModelTokenizer, TokenError, UNKNOWN};
use crate::reward::program::Question;

#[derive(Debug)]
pub(super) struct Dataset {
    pub(super) template: Template,
    /// Reads and compares answers.
    pub(super) grader: Grader,
    pub(super) data: DataSet,
    /// The held-out rows, if they are a data set of their own.
    pub(super) test: Option<DataSet>,
    /// Numbers of rows by split, in the order of [`Split::ALL`].
    pub(super) splits: [Vec<u32>; 3],
    pub(super) supervised: Shuffled,
    pub(super) reinforced: Shuffled,
}

/// Length limits of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct LengthLimits {
    pub(super) limit: usize,
    /// Tokens of a response that is sampled.
    pub(super) new: usize,
    /// True with supervised learning, which needs room for worked solutions.
    pub(super) supervised: bool,
    /// True with a teacher, which reads the answer below the problem.
    pub(super) teacher: bool,
    /// The limits of the configuration.
    pub(super) filter: LengthFilter,
}

impl LengthFilter {
    /// True if a row is longer than the configuration allows.
    fn leaves_out(
        self,
        problem: &Problem,
        prompt: usize,
        tokens: &ModelTokenizer,
    ) -> Result<bool, TokenError> {
        let above = |length: usize, most: Option<usize>| most.is_some_and(|most| length > most);
        if above(prompt, self.prompt) {
            return Ok(true);
        }
        // A token is at least a byte, so most need not be counted.
        if !above(problem.solution.len(), self.solution) {
            return Ok(false);
        }
        match tokens.target(&problem.solution) {
            Err(TokenError::TooLong { .. }) => Ok(true),
            solution => Ok(above(solution?.ids().len(), self.solution)),
        }
    }
}

/// The rows of a data set by use.
#[derive(Default)]
struct Division {
    /// Numbers of rows by split, in the order of [`Split::ALL`].
    splits: [Vec<u32>; 3],
    /// Rows that are held-out problems.
    contaminated: usize,
    /// Problems that occur with several answers, and the first of them.
    conflicts: Conflicts,
    /// Rows left out for their length, which `task.max_*` set.
    filtered: usize,
    /// Rows that do not fit into the model, and why.
    long: Vec<(RowLocation, String)>,
    /// Tokens of the prompts, and those among them that are unknown to the tokenizer.
    tokens: usize,
    unknown: usize,
}

/// Opens data and template, divides the rows, and leaves out or refuses those that do not fit.
pub(super) fn dataset(
    task: &DatasetTask,
    (seed, others): (u64, bool),
    checkpoint: Option<&Path>,
    (tokens, limits): (&ModelTokenizer, LengthLimits),
    say: &mut dyn FnMut(&str),
) -> Result<Dataset, TaskError> {
    let template = Template::of_form(task.form(), checkpoint)?;
    surroundings(&template, tokens).iter().for_each(|line| say(&format!("prompts: {line}")));
    let data = opened(&task.data, task, say)?.with_others(others);
    let test = task.test.as_ref().map(|at| opened(at, task, say)).transpose()?;
    let grader = task.reading.grader(template.extraction());
    let division = divided((&data, test.as_ref()), (&template, grader), (tokens, limits))?;
    division.tell(task, say)?;
    let splits = division.splits;
    let no_row =
        |split: Split| TaskError::NoRow { data: task.data.clone(), split: split.name(), of: data.len() };
    if splits[Split::Train as usize].is_empty() {
        return Err(no_row(Split::Train));
    }
    if test.is_none() && splits[Split::Test as usize].is_empty() {
        return Err(no_row(Split::Test));
    }
    let rows = splits[0].len() as u32;
    let (supervised, reinforced) = (Shuffled::new(seed, rows, 0), Shuffled::new(seed, rows, RL_OFFSET));
    Ok(Dataset { template, grader, data, test, splits, supervised, reinforced })
}

/// Divides the rows of `data`; if `test` holds the held-out problems, all others are for training.
fn divided(
    (data, test): (&DataSet, Option<&DataSet>),
    asked: (&Template, Grader),
    (tokens, limits): (&ModelTokenizer, LengthLimits),
) -> Result<Division, TaskError> {
    let mut found = Division::default();
    let held_out = test.into_iter().flat_map(DataSet::rows).map(|row| Ok(row?.key()));
    let held_out = held_out.collect::<Result<HashSet<_>, TaskError>>()?;
    let unk = tokens.id(UNKNOWN);
    let place = |row: &Row| {
        let is_row = data.counts_rows(row.index);
        RowLocation { file: row.file.clone(), line: row.line, is_row }
    };
    for row in data.rows() {
        let row = row?;
        if let Some(name) = Question::collision(&row.others) {
            return Err(TaskError::SameName { place: place(&row), name });
        }
        let key = row.key();
        // A held-out problem is not trained on, whatever its file.
        if held_out.contains(&key) {
            found.contaminated += 1;
            continue;
        }
        let split = if test.is_some() { Split::Train } else { Split::from_canonical(&key) };
        let problem = problem(asked, &row)?;
        found.conflicts.note(&row, &problem.gold);
        let prompt = match problem.encode(tokens) {
            Err(TokenError::TooLong { .. }) if limits.filter.prompt.is_some() => {
                found.filtered += 1;
                continue;
            }
            Err(error @ TokenError::TooLong { .. }) => {
                found.long.push((place(&row), error.to_string()));
                continue;
            }
            prompt => prompt?,
        };
        if limits.filter.leaves_out(&problem, prompt.ids().len(), tokens)? {
            found.filtered += 1;
            continue;
        }
        found.tokens += prompt.ids().len();
        found.unknown += prompt.ids().iter().filter(|id| Some(**id) == unk).count();
        match too_long(&problem, prompt.ids().len(), (tokens, limits), split)? {
            Some(why) => found.long.push((place(&row), why)),
            None => found.splits[split as usize].push(row.index as u32),
        }
    }
    Ok(found)
}

impl Division {
    /// Reports the rows left out, or refuses them.
    fn tell(&self, task: &DatasetTask, say: &mut dyn FnMut(&str)) -> Result<(), TaskError> {
        let Division { contaminated, long, tokens, unknown, conflicts, filtered, .. } = self;
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
        if *filtered > 0 {
            say(&format!(
                "{}: {filtered} rows left out, longer than task.max_prompt_tokens or task.max_solution_tokens allow",
                task.data
            ));
        }
        for line in [conflicts.line(), conflicts.unreadable_line()].into_iter().flatten() {
            say(&format!("warning: {}: {line}", task.data));
        }
        if *contaminated > 0 {
            say(&format!("{}: {contaminated} rows are held-out problems and are not trained on", task.data));
        }
        if *unknown > 0 {
            say(&format!("warning: {unknown} of the prompts' {tokens} tokens are unknown to the tokenizer"));
        }
        Ok(())
    }
}

fn opened(at: &str, task: &DatasetTask, say: &mut dyn FnMut(&str)) -> Result<DataSet, TaskError> {
    let data = open(at, &task.columns, task.on_bad_row)?;
    let bad = match data.bad_count() {
        0 => String::new(),
        n => format!("; {n} bad rows left out, the first: {}", data.bad_rows()[0]),
    };
    let split = data.located().split.as_ref().map_or(String::new(), |s| format!(", split {s}"));
    say(&format!("{at}: {} rows{split}; layout {}{bad}", data.len(), data.layout()));
    if let Some(columns) = data.counts().unused_line() {
        say(&format!("{at}: columns that are not asked, with the rows that have them: {columns}"));
    }
    Ok(data)
}

impl Dataset {
    /// Up to `n` rows of a split, each with another problem.
    pub(super) fn distinct(&self, split: Split, n: usize) -> Result<Vec<Row>, TaskError> {
        let (data, rows) = match (&self.test, split) {
            (Some(test), Split::Test) => (test, None),
            _ => (&self.data, Some(&self.splits[split as usize])),
        };
        let count = rows.map_or(data.len(), Vec::len);
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        for at in permutation(0, 0, count as u32) {
            if found.len() == n {
                break;
            }
            let row = data.row(rows.map_or(at, |rows| rows[at as usize]) as usize)?;
            if seen.insert(row.key()) {
                found.push(row);
            }
        }
        Ok(found)
    }

    /// The problem of a row.
    pub(super) fn problem(&self, row: &Row) -> Result<Problem, TaskError> {
        problem((&self.template, self.grader), row)
    }
}

fn problem((template, grader): (&Template, Grader), row: &Row) -> Result<Problem, TaskError> {
    let prompt = template.asked(&row.before, &row.problem)?;
    let answer = row.answers.first().map_or("", String::as_str);
    Ok(Problem {
        prompt: prompt.text,
        special_tokens: prompt.special_tokens,
        solution: template.target(row.solution.as_deref().unwrap_or(""), answer),
        answer_only: template.answer_only(answer),
        gold: grader.reference(&row.gold),
        extraction: grader.extraction,
        expression: None,
        canonical: row.problem.clone(),
        others: row.others.clone(),
    })
}

/// The part of a problem that does not fit into the model, if any.
fn too_long(
    problem: &Problem,
    prompt: usize,
    (tokens, limits): (&ModelTokenizer, LengthLimits),
    split: Split,
) -> Result<Option<String>, TokenError> {
    let LengthLimits { limit, new, supervised, teacher, .. } = limits;
    if prompt.saturating_add(new) > limit {
        return Ok(Some(format!(
            "the prompt has {prompt} tokens; with {new} new ones it exceeds the model's limit of {limit}"
        )));
    }
    if teacher && split == Split::Train {
        let Some(answered) = problem.answered() else {
            return Ok(Some(TaskError::NoPlaceForAnswer.to_string()));
        };
        let answered = match answered.encode(tokens) {
            Err(error @ TokenError::TooLong { .. }) => return Ok(Some(error.to_string())),
            answered => answered?.ids().len(),
        };
        if answered.saturating_add(new) > limit {
            return Ok(Some(format!(
                "the prompt with the answer, which the teacher reads, has {answered} tokens; with {new} new ones it exceeds the model's limit \
                 of {limit}"
            )));
        }
    }
    // A token is at least a byte, so most need not be counted.
    if !supervised || split != Split::Train || prompt + problem.solution.len() < limit {
        return Ok(None);
    }
    let solution = match tokens.target(&problem.solution) {
        Err(error @ TokenError::TooLong { .. }) => return Ok(Some(error.to_string())),
        solution => solution?.ids().len(),
    };
    Ok((prompt + solution > limit).then(|| {
        format!(
            "prompt and solution have {prompt} and {solution} tokens, more than the model's limit of {limit}"
        )
    }))
}
