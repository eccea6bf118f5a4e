//! `llm-train data`.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use grpo_lambda::settings::did_you_mean;
use grpo_lambda_grade::{Grader, Prediction, Rules};

use super::{Command, Failure, Result, checkpoint, print, quantile, whole};
use grpo_lambda_stats::visible;
use grpo_lambda_studies::terminal;
use grpo_lambda_trainer::input::around::surroundings;
use grpo_lambda_trainer::input::data::{Columns, Conflicts, DataOptions, DataSet, OnBadRow, open};
use grpo_lambda_trainer::input::prompt::{PromptForm, RenderedPrompt, Template};
use grpo_lambda_trainer::input::tokens::{ModelTokenizer, TokenError};

/// Arguments of `data`.
#[derive(Clone, Debug, clap::Args)]
pub struct DataArgs {
    /// A file, a directory, owner/name in the Hugging Face cache, or tiny:sums; :SPLIT or :SUBSET/SPLIT after it chooses one
    #[arg(value_name = "PATH|OWNER/NAME")]
    pub data: String,
    /// problem=NAME, answer=NAME or solution=NAME; found by its name when not given
    #[arg(long, value_name = "WHAT=NAME")]
    pub column: Vec<String>,
    /// Leave bad rows out instead of refusing the data set
    #[arg(long)]
    pub skip_bad_rows: bool,
    /// Number of rows to show, as the model would see them
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub show: usize,
    /// Template of their prompts: a name, `chat` for the one of --model, a Jinja file or a directory with one
    #[arg(long, value_name = "NAME|FILE|DIR", default_value = "line")]
    pub template: String,
    /// The system prompt; the template's own when not given
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Arguments of a chat template as a JSON object, as in {"enable_thinking": false}; the template's defaults when not given
    #[arg(long, value_name = "JSON")]
    pub template_args: Option<String>,
    /// A checkpoint directory: its chat template, and lengths in its tokens
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
}

impl Command for DataArgs {
    /// Says what a data set holds.
    fn run(&self) -> Result<()> {
        let columns = columns(&self.column)?;
        let on_bad_row = if self.skip_bad_rows { OnBadRow::Skip } else { OnBadRow::Refuse };
        let model = self.model.as_deref().map(checkpoint).transpose()?;
        let tokens = model.as_deref().map(ModelTokenizer::load).transpose().map_err(Failure::refused)?;
        let (system, args) = (self.system.as_deref(), self.template_args.as_deref());
        let form = PromptForm { template: &self.template, system, args };
        let template = Template::of_form(form, model.as_deref()).map_err(Failure::refused)?;
        let data = open(&self.data, &columns, on_bad_row)
            .map_err(|e| Failure::refused(e.for_options(DataOptions::ColumnsAndRows)))?;
        let found = DataSummary::new(&data, &template, tokens.as_ref())?;
        let lines = head(&data).into_iter().chain(found.lines(&template, tokens.as_ref()));
        let mut text: String = lines.map(|(name, line)| format!("{name:<10}{line}\n")).collect();
        text += &found.table(if tokens.is_some() { "tokens" } else { "characters" });
        for index in 0..self.show.min(data.len()) {
            text += &shown(&data, &template, index)?;
        }
        // Whoever wrote the data set does not command the terminal of who looks at it.
        print(&visible(&text))
    }
}

fn columns(given: &[String]) -> Result<Columns> {
    let mut columns = Columns::default();
    for word in given {
        const KNOWN: [&str; 3] = ["problem", "answer", "solution"];
        let right = "must be problem=NAME, answer=NAME or solution=NAME";
        let (what, name) = word.split_once('=').unwrap_or((word, ""));
        let place = match what {
            "problem" => &mut columns.problem,
            "answer" => &mut columns.answer,
            "solution" => &mut columns.solution,
            _ => {
                return Err(Failure::refused(format!(
                    "--column {word}: {right}{}",
                    did_you_mean(what, KNOWN)
                )));
            }
        };
        if name.is_empty() || place.replace(name.to_owned()).is_some() {
            let problem = if name.is_empty() { right } else { "given twice" };
            return Err(Failure::refused(format!("--column {word}: {problem}")));
        }
    }
    Ok(columns)
}

/// A line of the report: what it is about, and what there is to say.
type Line = (&'static str, String);

fn head(data: &DataSet) -> Vec<Line> {
    let located = data.located();
    let files: Vec<String> = located.files.iter().map(|f| f.display().to_string()).collect();
    let more = match files.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let others = match located.others {
        0 => String::new(),
        n => format!(" (of other splits, or none: {n})"),
    };
    let named = files.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    let mut lines = vec![("layout", data.layout().to_string()), ("files", format!("{named}{more}{others}"))];
    lines.extend(located.subset.clone().map(|subset| ("subset", subset)));
    lines.extend(located.split.clone().map(|split| ("split", split)));
    lines.push(("rows", format!("{} (checksum {:08x})", data.len(), data.fingerprint())));
    let counts = data.counts();
    if counts.system + counts.turns > 0 {
        let (system, turns) = (counts.system, counts.turns);
        let text = format!("rows with a system turn: {system}; with other turns before the problem: {turns}");
        lines.push(("turns", text));
    }
    let unused = counts.unused_line();
    lines
        .extend(unused.map(|names| ("not asked", format!("columns, with the rows that have them: {names}"))));
    if data.bad_count() > 0 {
        lines.push(("bad rows", format!("{} left out", data.bad_count())));
        lines.extend(data.bad_rows().iter().take(5).map(|row| ("", row.to_string())));
    }
    lines
}

/// Statistics over all rows.
#[derive(Default)]
struct DataSummary {
    repeated: usize,
    /// Problems that occur with several answers.
    conflicts: Conflicts,
    solutions: usize,
    /// Number of worked solutions whose templated response does not grade as equal to the answer, and the first such row.
    disagree: usize,
    /// Solutions among them that the lenient rules accept.
    lenient: usize,
    /// References that a lenient rule reads otherwise, by rule.
    leniencies: BTreeMap<&'static str, usize>,
    first: Option<String>,
    prompts: Vec<usize>,
    targets: Vec<usize>,
}

impl DataSummary {
    fn new(data: &DataSet, template: &Template, tokens: Option<&ModelTokenizer>) -> Result<DataSummary> {
        let length = |text: &RenderedPrompt| -> Result<usize, TokenError> {
            tokens.map_or(Ok(text.text.chars().count()), |t| Ok(t.rendered(text)?.ids().len()))
        };
        let mut found = DataSummary::default();
        let mut seen = HashSet::new();
        let lenient = Grader { extraction: template.extraction(), rules: Rules::LENIENT };
        for row in data.rows() {
            let row = row.map_err(Failure::refused)?;
            let prompt = template.asked(&row.before, &row.problem).map_err(Failure::refused)?;
            found.prompts.push(length(&prompt).map_err(Failure::refused)?);
            for rule in row.gold.leniencies().iter() {
                *found.leniencies.entry(rule.name()).or_default() += 1;
            }
            if let Some(solution) = &row.solution {
                found.solutions += 1;
                let answer = row.answers.first().map_or("", String::as_str);
                let target = template.target(solution, answer);
                let verdict = row.gold.grade(&Prediction::extract(&target, template.extraction()));
                if !verdict.is_equal() {
                    found.disagree += 1;
                    let gold = lenient.reference(&row.gold);
                    found.lenient += usize::from(lenient.grade(&gold, &target).is_equal());
                    found
                        .first
                        .get_or_insert_with(|| format!("{}:{}: {verdict}", row.file.display(), row.line));
                }
                let target = RenderedPrompt { text: target, special_tokens: false };
                found.targets.push(length(&target).map_err(Failure::refused)?);
            }
            found.conflicts.note(&row, &lenient.reference(&row.gold));
            found.repeated += usize::from(!seen.insert(row.key()));
        }
        found.prompts.sort_unstable();
        found.targets.sort_unstable();
        Ok(found)
    }

    fn lines(&self, template: &Template, tokens: Option<&ModelTokenizer>) -> Vec<Line> {
        let repeated = format!("rows that repeat the problem of an earlier row: {}", self.repeated);
        let mut lines = vec![("repeated", repeated)];
        lines.extend(self.conflicts.line().map(|line| ("conflicts", line)));
        lines.extend(self.conflicts.unreadable_line().map(|line| ("answers", line)));
        let solutions = match (self.solutions, &self.first) {
            (0, _) => "none: supervised learning would imitate the answer alone".to_owned(),
            (n, first) => {
                let first = first.as_ref().map(|first| format!("; the first that does not: {first}"));
                let right = n - self.disagree;
                format!("{n}, of which {right} answer what the answer says{}", first.unwrap_or_default())
            }
        };
        lines.push(("solutions", solutions));
        let read: Vec<String> = self.leniencies.iter().map(|(rule, n)| format!("{rule} {n}")).collect();
        let read = if read.is_empty() { "none".to_owned() } else { read.join(", ") };
        let rules = format!(
            "references that lenient rules read otherwise: {read}; solutions that only they accept: {}",
            self.lenient
        );
        lines.push(("rules", rules));
        let stop = match template.stop() {
            [] => String::new(),
            stop => format!("; stops at {}", stop.join(", ")),
        };
        lines.push(("template", format!("{}{stop}", template.name())));
        match tokens {
            Some(tokens) => {
                lines.extend(surroundings(template, tokens).into_iter().map(|line| ("prompts", line)));
            }
            None if template.prints_dates() => {
                let date = "strftime_now of the template always gives the date 1 January 2025";
                lines.push(("prompts", date.to_owned()));
            }
            None => {}
        }
        lines
    }

    /// The lengths of prompts and solutions.
    fn table(&self, unit: &str) -> String {
        let mut table = terminal::table(vec![unit, "shortest", "median", "95 %", "99 %", "longest"]);
        for (name, lengths) in [("prompt", &self.prompts), ("solution", &self.targets)] {
            if !lengths.is_empty() {
                let cells = [0.0, 0.5, 0.95, 0.99, 1.0].map(|q| quantile(lengths, q).to_string());
                table.add_row([name.to_owned()].into_iter().chain(cells));
            }
        }
        format!("{table}\n")
    }
}

/// A row as the model would see it.
fn shown(data: &DataSet, template: &Template, index: usize) -> Result<String> {
    let row = data.row(index).map_err(Failure::refused)?;
    let prompt = template.asked(&row.before, &row.problem).map_err(Failure::refused)?.text;
    let answer = row.answers.first().map_or("", String::as_str);
    let target = template.target(row.solution.as_deref().unwrap_or(""), answer);
    let answers = row.answers.join(" or ");
    Ok(format!(
        "\n--- row {index}, {}:{}: prompt\n{prompt}\n--- response to imitate\n{target}\n--- answer: {answers}\n",
        row.file.display(),
        row.line
    ))
}
