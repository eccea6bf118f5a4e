//! Problem, answers and solution in a row's text.

use std::fmt;

use grpo_lambda::settings::did_you_mean;
use grpo_lambda_grade::{Extraction, Prediction};
use serde_json::value::RawValue;

use super::cells::{Fields, is_on, scalar, short};
use super::turns::{self, is_conversation, turns};
use crate::input::json;
use crate::input::prompt::Message;

/// The columns of problem, answer and solution; `None` means that the column is found by name. A dot leads into an object:
/// `reward_model.ground_truth`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The problem: a text, or the turns of a conversation.
    pub problem: Option<String>,
    /// The answer: a text, a number, or a list of accepted ones.
    pub answer: Option<String>,
    /// The worked solution.
    pub solution: Option<String>,
}

/// The form of the answer in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// The whole column, or each element of its list.
    Whole,
    /// After the last `####`, up to the end of the line (GSM8K).
    Hashes,
    /// In the last `\boxed{}` (MATH).
    Boxed,
}

/// The place of a text in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TextSource {
    Column(String),
    /// Two columns that belong together, and what stands between their texts; the second one, or the first, may be empty.
    Pair(String, String, &'static str),
    /// In the conversation of a column: all turns up to the user's last for the problem, the assistant's last for the rest.
    Turn(String),
}

impl TextSource {
    fn column(&self) -> &str {
        match self {
            TextSource::Column(name) | TextSource::Turn(name) | TextSource::Pair(name, ..) => name,
        }
    }

    /// The columns of the row that it reads.
    fn reads(&self) -> impl Iterator<Item = &str> {
        let second = match self {
            TextSource::Pair(_, second, _) => Some(second.as_str()),
            TextSource::Column(_) | TextSource::Turn(_) => None,
        };
        [self.column()].into_iter().chain(second).map(|name| name.split('.').next().unwrap_or(name))
    }
}

/// The used columns of a data set.
///
/// Found by name in the first row that is an object (or a list of turns):
///
/// ```text
/// problem    problem, question, prompt, query, input, instruction, messages, conversations; with `input` after `instruction`, `Question` after
///            `Body`, `question` after `passage` or `context`
/// system     system, system_prompt
/// answer     answers, answer, final_answer, ground_truth, expected_answer, reward_model.ground_truth, gold, target;
///            else the \boxed{} of the solution; else what the assistant says; else output, response, completion
/// solution   solution, rationale; else the text that the answer was taken from; else what the assistant says after the problem
/// ```
/// Names are compared without regard to case where none is spelt exactly so.
///
/// A text with `####` answers what follows its last one, a text with `\boxed{}` what is in its last one, any other text answers itself. What
/// the first row has, every row must have: one without `####` in a data set of the GSM8K layout is a bad row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetLayout {
    problem: TextSource,
    answer: TextSource,
    form: AnswerForm,
    is_list: bool,
    solution: Option<TextSource>,
    /// The column with a system prompt of the row's own.
    system: Option<String>,
    mapped: bool,
    /// True if the user named the problem's column.
    is_named: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowContent {
    pub(super) problem: String,
    /// The turns before the problem.
    pub(super) before: Vec<Message>,
    pub(super) answers: Vec<String>,
    pub(super) solution: Option<String>,
}

impl RowContent {
    /// An unambiguous encoding as bytes, for checksums.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let texts = std::iter::once(&self.problem).chain(&self.answers).chain(&self.solution);
        out.extend((self.answers.len() as u64).to_le_bytes());
        for text in texts {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        }
        for text in self.before.iter().flat_map(|turn| [&turn.role, &turn.content]) {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        }
        out
    }
}

/// The problem with the columns of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnProblem {
    pub(super) text: String,
    /// `problem` or `answer`, where its column was not found and can be named.
    pub(super) missing: Option<&'static str>,
}

impl From<String> for ColumnProblem {
    fn from(text: String) -> Self {
        ColumnProblem { text, missing: None }
    }
}

/// The column of a row that is nothing but a list of turns.
const BARE: &str = "conversation";

const PROBLEMS: [&str; 9] =
    ["problem", "question", "prompt", "query", "input", "instruction", "messages", "conversations", BARE];
const ANSWERS: [&str; 9] = [
    "answers",
    "answer",
    "final_answer",
    "ground_truth",
    "expected_answer",
    "reward_model.ground_truth",
    "gold",
    "golds",
    "target",
];
const SOLUTIONS: [&str; 2] = ["solution", "rationale"];
/// Columns with the answer, or a text that ends in it, where there is neither an answer nor a solution.
const RESPONSES: [&str; 3] = ["output", "response", "completion"];
/// Most bytes of such a text that is the answer itself.
const LONGEST_BARE: usize = 60;
const SYSTEMS: [&str; 2] = ["system", "system_prompt"];
/// Two columns that belong together, in the order in which they are asked.
const PAIRS: [(&str, &str, &str); 4] = [
    ("instruction", "input", "\n"),
    ("body", "question", " "),
    ("passage", "question", "\n"),
    ("context", "question", "\n"),
];
/// Columns that belong to the problem and are not read.
const NOT_READ: [&str; 7] =
    ["choices", "options", "history", "tools", "chat_template_kwargs", "images", "image"];

/// The line of a file that is one JSON array under the name of JSON lines.
const ARRAY: &str = "the line begins a JSON array that is no list of turns; a file that is one array of rows must have a name that ends in .json";

/// A row's columns.
pub(super) fn parse(text: &[u8]) -> Result<Fields, String> {
    let text = std::str::from_utf8(text)
        .map_err(|e| format!("not UTF-8: byte {} of the row is no text", e.valid_up_to() + 1))?;
    // The parser counts lines within the row.
    let not_json = |e: serde_json::Error| {
        format!("not JSON: {}", e.to_string().replace(" at line 1 column ", " at column "))
    };
    match text.as_bytes().first() {
        Some(b'{') => {
            let mut fields = json::fields(text).map_err(not_json)?;
            // The hub shows a row that is a list of turns as columns 0 and 1.
            if let (2, Some(first), Some(second)) = (fields.len(), fields.get("0"), fields.get("1")) {
                let turns = format!("[{first},{second}]");
                fields = Fields::from([(BARE.to_owned(), RawValue::from_string(turns).map_err(not_json)?)]);
            }
            Ok(fields)
        }
        Some(b'[') => {
            let turns: Box<RawValue> = serde_json::from_str(text).map_err(|e| match text.trim() {
                "[" => ARRAY.to_owned(),
                _ => not_json(e),
            })?;
            if is_conversation(&turns) {
                Ok(Fields::from([(BARE.to_owned(), turns)]))
            } else {
                Err(ARRAY.to_owned())
            }
        }
        _ => {
            serde_json::from_str::<&RawValue>(text).map_err(not_json)?;
            Err(format!("found {}; a row is an object with columns, or a list of turns", short(text)))
        }
    }
}

/// The spelling of a name among the columns: exactly this one, or else one that differs in case.
fn spelt(fields: &Fields, name: &str) -> Option<String> {
    if column(fields, name).is_some() {
        return Some(name.to_owned());
    }
    fields.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned()
}

/// The value of a column; a dot leads into an object.
fn column(fields: &Fields, name: &str) -> Option<Box<RawValue>> {
    if let Some(value) = fields.get(name) {
        return Some(value.clone());
    }
    let (first, rest) = name.split_once('.')?;
    let inner: Fields = serde_json::from_str(fields.get(first)?.get()).ok()?;
    column(&inner, rest)
}

fn is_list(value: &RawValue) -> bool {
    value.get().starts_with('[')
}

/// The form of the answer in a text.
fn form_of(text: &str) -> AnswerForm {
    if text.contains("####") {
        AnswerForm::Hashes
    } else if Prediction::extract(text, Extraction::Boxed).answer().is_some() {
        AnswerForm::Boxed
    } else {
        AnswerForm::Whole
    }
}

impl DatasetLayout {
    /// The layout of a data set by its first row.
    pub(super) fn find(fields: &Fields, columns: &Columns) -> Result<DatasetLayout, ColumnProblem> {
        let known: Vec<&str> = fields.keys().map(String::as_str).collect();
        let listed = known.join(", ");
        let choose = |what: &str, given: &Option<String>, names: &[&str]| match given {
            Some(name) if column(fields, name).is_some() => Ok(Some(name.clone())),
            Some(name) => {
                let hint = did_you_mean(name, known.iter().copied());
                Err(format!("no column `{name}` for the {what}{hint}; the columns are {listed}"))
            }
            None => Ok(names.iter().find_map(|name| spelt(fields, name))),
        };
        let missing = |what: &'static str, names: &[&str]| {
            let names: Vec<&str> = names.iter().copied().filter(|n| *n != BARE).collect();
            let text = format!(
                "no column that looks like the {what} ({}); the columns are {listed}",
                names.join(", ")
            );
            ColumnProblem { text, missing: Some(what) }
        };
        let value = |name: &str| column(fields, name);
        let problem =
            choose("problem", &columns.problem, &PROBLEMS)?.ok_or_else(|| missing("problem", &PROBLEMS))?;
        let is_turns = value(&problem).is_some_and(|v| is_conversation(&v));
        let solution = choose("solution", &columns.solution, &SOLUTIONS)?.map(TextSource::Column);
        let answer = choose("answer", &columns.answer, &ANSWERS)?;
        // The assistant's turn after the problem, unless the column is a prompt alone.
        let said = is_turns.then(|| value(&problem).and_then(|v| turns(&v, &problem).ok())).flatten();
        let said = said.and_then(|turns| turns.last().map(turns::Turn::is_answer)).unwrap_or(false);
        // A long text without a mark of the answer is prose, which no answer can equal.
        let states = |name: &String| {
            let text = value(name).and_then(|v| scalar(&v));
            text.is_none_or(|text| form_of(&text) != AnswerForm::Whole || text.len() <= LONGEST_BARE)
        };
        let response = RESPONSES.iter().find_map(|name| spelt(fields, name)).filter(states);
        let chat = PROBLEMS.iter().find(|name| value(name).is_some_and(|v| is_conversation(&v)));
        let answer = match (answer, &solution, response) {
            (Some(name), ..) => TextSource::Column(name),
            (None, Some(solution), _) => solution.clone(),
            (None, None, Some(name)) if !said => match value(&name).is_some_and(|v| is_conversation(&v)) {
                true => TextSource::Turn(name),
                false => TextSource::Column(name),
            },
            // Many datasets have a column for the problem beside the conversation.
            (None, None, _) if is_turns => TextSource::Turn(problem.clone()),
            (None, None, _) => {
                TextSource::Turn((*chat.ok_or_else(|| missing("answer", &ANSWERS))?).to_owned())
            }
        };
        // A column that the user names as the answer is no solution, whatever its name.
        let is_named = columns.answer.is_some() && columns.solution.is_none();
        let solution = solution.filter(|solution| !(is_named && *solution == answer));
        let own = said && problem != "prompt" && matches!(answer, TextSource::Column(_));
        let solution = solution.or_else(|| own.then(|| TextSource::Turn(problem.clone())));
        let is_named = columns.problem.is_some();
        let problem = match is_turns {
            true => TextSource::Turn(problem),
            false => paired(fields, problem, is_named),
        };
        let is_text =
            |name: &String| value(name).is_some_and(|v| v.get().starts_with('"') || v.get() == "null");
        let system = SYSTEMS.iter().find_map(|name| spelt(fields, name)).filter(is_text);
        let (mapped, form) = (columns != &Columns::default(), AnswerForm::Whole);
        let mut layout =
            DatasetLayout { problem, answer, form, is_list: false, solution, system, mapped, is_named };
        let (texts, is_list) = layout.answer_texts(fields)?;
        layout.is_list = is_list;
        layout.form = texts.first().map_or(AnswerForm::Whole, |text| form_of(text));
        if layout.solution.as_ref() == Some(&layout.answer) && layout.form == AnswerForm::Whole {
            let text = format!(
                "{}: no \\boxed{{}} and no #### in it, and there is no column with the answer; the columns are {listed}",
                layout.answer.column()
            );
            return Err(ColumnProblem { text, missing: Some("answer") });
        }
        if layout.solution.is_none() && layout.form != AnswerForm::Whole {
            layout.solution = Some(layout.answer.clone());
        }
        Ok(layout)
    }

    /// The texts that the answers are taken from, and whether they are a list.
    fn answer_texts(&self, fields: &Fields) -> Result<(Vec<String>, bool), String> {
        let name = self.answer.column();
        let value = column(fields, name).ok_or_else(|| absent(fields, name))?;
        let value = match &self.answer {
            TextSource::Column(_) | TextSource::Pair(..) => value,
            TextSource::Turn(_) => turns::reference(&turns(&value, name)?, name)?,
        };
        let wrong = |value: &RawValue| {
            format!("{name} = {}: must be a text, a number, or a list of these", short(value.get()))
        };
        if !is_list(&value) {
            return Ok((vec![scalar(&value).ok_or_else(|| wrong(&value))?], false));
        }
        let list: Vec<Box<RawValue>> = serde_json::from_str(value.get()).map_err(|_| wrong(&value))?;
        if list.is_empty() {
            return Err(format!("{name} = []: must have at least one answer"));
        }
        let texts: Option<Vec<String>> = list.iter().map(|v| scalar(v)).collect();
        Ok((texts.ok_or_else(|| wrong(&value))?, true))
    }

    /// A row's content, or the fault in it.
    pub(super) fn read(&self, fields: &Fields) -> Result<RowContent, String> {
        let (before, problem) = self.question(fields)?;
        if problem.trim().is_empty() {
            return Err(format!("{}: empty; must be the problem", self.problem.column()));
        }
        let name = self.answer.column();
        let (texts, _) = self.answer_texts(fields)?;
        let answers = texts.iter().map(|text| self.answer(name, text)).collect::<Result<Vec<_>, _>>()?;
        let solution = match &self.solution {
            None => None,
            Some(part) => match self.text(part, fields) {
                Ok(text) => Some(text).filter(|text| !text.trim().is_empty()),
                // A missing solution does not make a row with an answer unusable.
                Err(_) if *part != self.answer => None,
                Err(reason) => return Err(reason),
            },
        };
        Ok(RowContent { problem, before, answers, solution })
    }

    /// The turns before the problem, and the problem.
    fn question(&self, fields: &Fields) -> Result<(Vec<Message>, String), String> {
        let beside = |name: &&&str| {
            spelt(fields, name).is_some_and(|name| fields.get(&name).is_some_and(|v| is_on(v)))
        };
        if let Some(name) = NOT_READ.iter().find(beside).filter(|_| !self.is_named) {
            return Err(format!(
                "{name}: belongs to the problem and is not read; write it into the text of the problem, or name the problem's column to ask \
                 without it (task.columns.problem, --column problem=NAME)"
            ));
        }
        let (mut before, problem) = match &self.problem {
            TextSource::Turn(name) => {
                let value = column(fields, name).ok_or_else(|| absent(fields, name))?;
                let is_read = [Some(&self.answer), self.solution.as_ref()].contains(&Some(&self.problem));
                turns::question(&turns(&value, name)?, name, is_read)?
            }
            other => (Vec::new(), self.text(other, fields)?),
        };
        let system = self.system.as_ref().and_then(|name| Some((name, column(fields, name)?)));
        if let Some((name, text)) =
            system.and_then(|(name, value)| Some((name, scalar(&value)?))).filter(|(_, t)| !t.is_empty())
        {
            match before.first().filter(|turn| turn.role == "system") {
                Some(turn) if turn.content != text => {
                    return Err(format!(
                        "{name}: another text than the system turn of `{}`; leave one of them out",
                        self.problem.column()
                    ));
                }
                Some(_) => {}
                None => before.insert(0, Message::new("system", &text)),
            }
        }
        Ok((before, problem))
    }

    /// The row's columns that are not asked and say something, with the solution and the answer counted as asked.
    pub(super) fn unused<'a>(
        &'a self,
        fields: &'a Fields,
    ) -> impl Iterator<Item = (&'a String, &'a RawValue)> {
        let parts = [Some(&self.problem), Some(&self.answer), self.solution.as_ref()];
        let used: Vec<&str> =
            parts.into_iter().flatten().flat_map(TextSource::reads).chain(self.system.as_deref()).collect();
        let others =
            fields.iter().filter(move |(name, value)| !used.contains(&name.as_str()) && is_on(value));
        others.map(|(name, value)| (name, value.as_ref()))
    }

    fn text(&self, part: &TextSource, fields: &Fields) -> Result<String, String> {
        let value = |name: &str| column(fields, name).ok_or_else(|| absent(fields, name));
        let text = |name: &str, value: &RawValue| {
            scalar(value).ok_or_else(|| format!("{name} = {}: must be a text", short(value.get())))
        };
        match part {
            TextSource::Column(name) => text(name, value(name)?.as_ref()),
            TextSource::Turn(name) => turns::last_text(value(name)?.as_ref(), name),
            TextSource::Pair(first, second, between) => {
                let half = |name: &str| match column(fields, name).filter(|v| is_on(v)) {
                    Some(value) => text(name, &value),
                    None => Ok(String::new()),
                };
                let halves = [half(first)?, half(second)?];
                Ok(halves
                    .into_iter()
                    .filter(|half| !half.trim().is_empty())
                    .collect::<Vec<_>>()
                    .join(between))
            }
        }
    }

    fn answer(&self, name: &str, text: &str) -> Result<String, String> {
        let end = |text: &str| {
            let from = text.char_indices().rev().nth(59).map_or(0, |(at, _)| at);
            format!("{}{:?}", if from > 0 { "..." } else { "" }, &text[from..])
        };
        let found = match (self.form, form_of(text)) {
            (AnswerForm::Hashes, AnswerForm::Whole | AnswerForm::Boxed) => {
                return Err(format!("{name}: no `####` before the answer in {}", end(text)));
            }
            (AnswerForm::Boxed, AnswerForm::Whole) => {
                return Err(format!("{name}: no complete \\boxed{{}} in {}", end(text)));
            }
            (AnswerForm::Hashes, _) | (_, AnswerForm::Hashes) => {
                let (_, after) = text.rsplit_once("####").unwrap_or(("", text));
                after.lines().next().unwrap_or("")
            }
            (_, AnswerForm::Boxed) => {
                let found = Prediction::extract(text, Extraction::Boxed);
                return nonempty(name, found.answer().unwrap_or(""), text, end);
            }
            (AnswerForm::Whole, AnswerForm::Whole) => text,
        };
        nonempty(name, found, text, end)
    }

    /// The name of the layout.
    pub fn name(&self) -> &'static str {
        match (&self.problem, &self.answer, self.form) {
            _ if self.mapped => "mapped columns",
            (TextSource::Turn(_), TextSource::Turn(_), _) => "conversations, as ORZ",
            (TextSource::Turn(_), ..) => "conversations",
            (_, _, AnswerForm::Hashes) => "GSM8K",
            (_, _, AnswerForm::Boxed) => "MATH",
            (_, _, AnswerForm::Whole) if self.is_list => "benchmark",
            (_, _, AnswerForm::Whole) => "problem and answer",
        }
    }

    /// The form of the answer in its column.
    pub fn form(&self) -> AnswerForm {
        self.form
    }

    pub fn has_solutions(&self) -> bool {
        self.solution.is_some()
    }
}

/// The column of the problem, with the one that belongs to it.
fn paired(fields: &Fields, name: String, is_named: bool) -> TextSource {
    let of_pair = |(first, second, between): &(&str, &str, &'static str)| {
        let names = [spelt(fields, first)?, spelt(fields, second)?];
        let texts = names
            .iter()
            .all(|n| column(fields, n).is_some_and(|v| scalar(&v).is_some() || v.get() == "null"));
        let [first, second] = names;
        (texts && [&first, &second].contains(&&name)).then_some(TextSource::Pair(first, second, between))
    };
    let pair = PAIRS.iter().find_map(of_pair).filter(|_| !is_named);
    pair.unwrap_or(TextSource::Column(name))
}

fn nonempty(name: &str, found: &str, text: &str, end: impl Fn(&str) -> String) -> Result<String, String> {
    match found.trim() {
        "" if text.trim().is_empty() => Err(format!("{name}: empty; must be the answer")),
        "" => Err(format!("{name}: the answer is empty in {}", end(text))),
        found => Ok(found.to_owned()),
    }
}

fn absent(fields: &Fields, name: &str) -> String {
    let known: Vec<&str> = fields.keys().map(String::as_str).collect();
    format!("no column `{name}`; the columns are {}", known.join(", "))
}

impl fmt::Display for DatasetLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: &TextSource, who: &str| match part {
            TextSource::Column(name) => format!("`{name}`"),
            TextSource::Pair(first, second, _) => format!("`{first}` and `{second}`"),
            TextSource::Turn(name) if name == BARE => format!("the {who}'s turn"),
            TextSource::Turn(name) => format!("the {who}'s turn of `{name}`"),
        };
        let form = match self.form {
            AnswerForm::Whole if self.is_list => "each of ",
            AnswerForm::Whole => "",
            AnswerForm::Hashes => "what follows the last #### of ",
            AnswerForm::Boxed => "the last \\boxed{} of ",
        };
        let answer = match &self.answer {
            TextSource::Turn(_) if self.solution.is_none() => {
                format!("ground_truth of {}", part(&self.answer, "assistant"))
            }
            other => part(other, "assistant"),
        };
        write!(f, "{}: problem {}, answer {form}{answer}", self.name(), part(&self.problem, "user"))?;
        if let Some(system) = &self.system {
            write!(f, ", system prompt `{system}`")?;
        }
        match &self.solution {
            Some(solution) => write!(f, ", solution {}", part(solution, "assistant")),
            None => write!(f, ", no solution"),
        }
    }
}
