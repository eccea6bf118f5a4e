//! `sim estimate`: advantages, loss and gradient of anyone's groups, to compare a trainer with, and the search for the convention of a trainer.

pub mod against;

use crate::failure::{Failure, one_line};
use crate::groups::{Line, Positive};
use crate::input::{self, MOST_GROUPS};
use crate::method_args::{MethodArgs, warn_of_idle_settings};
use crate::program::call;
use crate::terminal;
use grpo_lambda::group::{Group, InputKind};
use grpo_lambda::methods::{self, BatchLoss, Configured};
use grpo_lambda_stats::table::significant;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::PathBuf;

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct EstimateArgs {
    /// The method: a name `sim methods` lists
    #[arg(long, value_name = "NAME", required_unless_present = "against")]
    method: Option<String>,
    /// Settings of the method, as in lambda=0.9 style=both; `sim methods NAME` lists its keys
    #[arg(value_name = "key=value")]
    settings: Vec<String>,
    /// Read groups from this file instead of standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Treat all lines as one batch: token means and batch statistics see every group
    #[arg(long)]
    batch: bool,
    /// Another trainer's numbers for the same groups: name the convention of TRL, verl or others that gives them
    #[arg(long, value_name = "THEIRS.jsonl")]
    against: Option<PathBuf>,
    /// With --against and --method: where their numbers differ from this method's, term by term
    #[arg(long, requires_all = ["against", "method"])]
    explain: bool,
    /// With --against: the largest relative difference that counts as equal
    #[arg(long, value_name = "X", default_value_t = 1e-5, requires = "against")]
    tolerance: f64,
}

const INPUT: &str = r#"Input: one group (the responses to one prompt) per line, as a JSON object; g responses of T_i tokens

  "rewards"    [g]        one number per response; null: could not be graded
  "logps"      [[T_i]..]  log-probability of every token, current policy
  "old_logps"  [[T_i]..]  the same under the policy that sampled
  "ref_logps"  [[T_i]..]  the same under the reference, where beta is not 0

optional

  "advantages" [g] or [[T_i]..]
                          used in place of the method's own
  "mask"       [[W_i]..]  1 where a slot holds a trained token, 0 for padding
                          and tool output: every list per token then has W_i
                          slots; what stands in the others is not read
  "truncated"  [g]        true: cut off at the length limit
  "tokens"     [[T_i]..]  token ids
  "id"                    a string or a number

inputs that some methods need (sim methods NAME says which)

"#;

/// The help after the options: [`INPUT`], a line for each kind of extra input, [`OUTPUT`].
fn after_help() -> String {
    let kinds = InputKind::ALL.into_iter().filter_map(|kind| Some((kind.name(), kind.json()?)));
    let line = |(name, (shape, about))| {
        let head = format!("  {:12} {shape:10} ", format!("{name:?}"));
        grpo_lambda_stats::hanging(&head, about, 80) + "\n"
    };
    [INPUT.to_owned(), kinds.map(line).collect(), OUTPUT.to_owned()].concat()
}

const OUTPUT: &str = r#"
Output: one JSON object per line, in the order of the input

  {"id": .., "advantages": [[T_i]..], "loss": x, "dlogps": [[T_i]..],
   "metrics": {..}}

dlogps is d loss / d logps; the loss is to be minimised; numbers are the shortest text that reads back to the same 64-bit float. Each line is a batch of its own: a mean over the batch's tokens (token_mean) and statistics of the batch (scale=batch) see that one group. With --batch all lines are one batch, as in a training step; a line's loss is then its share of the batch's.

All or nothing: the whole input is read and computed before the first line is printed. A mistake anywhere gives one line on stderr, nothing on stdout, and exit code 2. Blank lines are skipped. Log-probabilities above 0 give one warning line and are used as they are: densities may exceed 1. So do settings that were changed but have no effect with the others (soft_clamp with update=trace), and groups of which no response is graded: their advantages are 0.

With --against, all lines are one batch. THEIRS.jsonl has one object per group, in the same order, with what the other trainer computed; any of

  "advantages"   [g] or [[T_i]..]
  "token_losses" [[T_i]..]  before the reduction, the KL term in it
  "dlogps"       [[T_i]..]  the gradient by logps ("gradient" is the same)
  "loss"         x          of the batch, on one line or the same on all;
                            different numbers are shares that add up
  "parts"        [g]        the micro-batch of each response, from 0, where
                            the loss is the mean of that of several

What is printed: for each quantity every convention that gives these numbers, or the nearest convention, if it explains nine tenths of the difference, and the remaining term. beta=X, max_length=L and the settings of a correction (correction=.. correction_high=..) may be given where they are known; a loss alone cannot show them. Where sampler_logps is in the input, corrections of the sampler's mismatch are searched with their bounds.

Examples:
  sim estimate --method grpo < groups.jsonl
  sim estimate --method grpo_lambda style=both --input groups.jsonl
  sim estimate --against theirs.jsonl --input groups.jsonl
  sim estimate --against trl.jsonl --method grpo --explain < groups.jsonl
  sim estimate --method dr_grpo beta=0.04 kl=k3 < groups.jsonl > ours.jsonl
  echo '{"rewards":[1,0],"logps":[[-0.5],[-1.5]],"old_logps":[[-0.5],[-1.5]]}' |
    sim estimate --method rloo"#;

/// The result of one line of input.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    pub advantages: Vec<Vec<f64>>,
    pub loss: f64,
    pub dlogps: Vec<Vec<f64>>,
    pub metrics: Map<String, Value>,
}

/// Numbered lines of input, blank ones left out.
pub type Lines = Vec<(usize, Line)>;

/// The command's output and warnings.
pub struct Printed {
    pub text: String,
    pub warnings: Vec<String>,
}

/// Reads, computes, prints.
///
/// # Errors
/// [`Failure::Refused`] for settings or input that cannot be used; then nothing has been printed.
pub fn run(args: &EstimateArgs) -> Result<(), Failure> {
    if let Some(theirs) = &args.against {
        return against::run(args, theirs);
    }
    let configured = configured(args)?.ok_or_else(|| Failure::Refused("--method: missing".to_owned()))?;
    let (source, bytes) = read(args)?;
    let printed = printed(&configured, &source, &bytes, args.batch)?;
    warn_of_idle_settings(&configured, "estimate");
    for warning in printed.warnings {
        eprintln!("{}: warning: {}", call("estimate"), one_line(&warning));
    }
    terminal::print(&printed.text)
}

/// The command's output for the bytes of an input that messages call `source`: no file is read.
///
/// # Errors
/// [`Failure::Refused`] for input that cannot be used.
pub fn printed(
    configured: &Configured,
    source: &str,
    bytes: &[u8],
    as_one_batch: bool,
) -> Result<Printed, Failure> {
    let lines = lines(Some(configured), source, bytes)?;
    let warnings = warnings(source, &lines);
    let estimates = estimates(configured, source, &lines, as_one_batch)?;
    let mut text = String::new();
    for estimate in &estimates {
        text += &serde_json::to_string(estimate).map_err(|e| Failure::Failed(e.to_string()))?;
        text.push('\n');
    }
    Ok(Printed { text, warnings })
}

/// The groups of an input, checked against what a method needs.
///
/// # Errors
/// [`Failure::Refused`] for the first line that is wrong, and where there is no group.
pub fn lines(configured: Option<&Configured>, source: &str, bytes: &[u8]) -> Result<Lines, Failure> {
    let lines = lines_of(configured, bytes).map_err(|wrong| refused(source, wrong))?;
    if lines.is_empty() {
        return Err(Failure::Refused(format!("{source}: no groups; one JSON object per line is needed")));
    }
    Ok(lines)
}

/// Advantages, loss and gradient of every line, each a batch of its own or all of them one batch.
///
/// # Errors
/// [`Failure::Refused`] for the first line whose numbers leave the range of 64-bit floats.
pub fn estimates(
    configured: &Configured,
    source: &str,
    lines: &Lines,
    as_one_batch: bool,
) -> Result<Vec<Estimate>, Failure> {
    let losses = evaluated(configured, lines, as_one_batch).map_err(|wrong| refused(source, wrong))?;
    let finish = |((number, line), loss): (&(usize, Line), BatchLoss)| {
        computed(line, loss).map_err(|what| (*number, what))
    };
    let found: Result<_, _> = lines.par_iter().zip(losses).map(finish).collect();
    found.map_err(|wrong| refused(source, wrong))
}

/// Warnings about lines that are used all the same.
pub fn warnings(source: &str, lines: &Lines) -> Vec<String> {
    [positive(source, lines), ungraded(source, lines)].into_iter().flatten().collect()
}

fn refused(source: &str, (line, what): (usize, String)) -> Failure {
    Failure::Refused(format!("{source}:{line}: {what}"))
}

/// The method, where one is given.
fn configured(args: &EstimateArgs) -> Result<Option<Configured>, Failure> {
    let Some(method) = &args.method else { return Ok(None) };
    MethodArgs { method: method.clone(), settings: args.settings.clone() }.configure().map(Some)
}

fn read(args: &EstimateArgs) -> Result<(String, Vec<u8>), Failure> {
    let Some(path) = &args.input else {
        if std::io::stdin().is_terminal() {
            eprintln!("{}: reading groups from the terminal; end with Ctrl-D", call("estimate"));
        }
        return input::all(std::io::stdin().lock(), MOST_GROUPS)
            .map(|bytes| ("stdin".to_owned(), bytes))
            .map_err(|e| Failure::Refused(format!("stdin: {e}")));
    };
    let source = path.display().to_string();
    match input::file(path, MOST_GROUPS) {
        Ok(bytes) => Ok((source, bytes)),
        Err(e) => Err(Failure::Refused(format!("{source}: {e}; --input must name a readable file"))),
    }
}

/// Every line that is not blank with its number, checked against what a method needs.
fn lines_of(configured: Option<&Configured>, bytes: &[u8]) -> Result<Vec<(usize, Line)>, (usize, String)> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes); // a byte-order mark, as Windows editors write
    let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    let parsed: Vec<_> = lines.par_iter().map(|line| parse(configured, line)).collect();
    let mut ids = HashMap::new();
    let mut groups = Vec::new();
    for (number, result) in (1..).zip(parsed) {
        let Some(line) = result.map_err(|what| (number, what))? else { continue };
        if let Some(id) = &line.id
            && let Some(first) = ids.insert(id.to_string(), number)
        {
            return Err((number, format!("id = {id}: also the id of line {first}; ids must differ")));
        }
        groups.push((number, line));
    }
    Ok(groups)
}

/// The loss of every group, as a batch of its own or as its share of one batch.
fn evaluated(
    configured: &Configured,
    groups: &[(usize, Line)],
    as_one_batch: bool,
) -> Result<Vec<BatchLoss>, (usize, String)> {
    let method = configured.method.as_ref();
    let one = |(_, line): &(usize, Line)| {
        let (batch, logps) = (std::slice::from_ref(&line.group), [line.logps.as_slice()]);
        let mut found = match &line.advantages {
            Some(given) => methods::evaluate_groups_given(method, batch, &logps, given.clone()),
            None => methods::evaluate_groups(method, batch, &logps),
        };
        found.remove(0)
    };
    if !as_one_batch {
        return Ok(groups.par_iter().map(one).collect());
    }
    let batch: Vec<Group> = groups.iter().map(|(_, line)| line.group.clone()).collect();
    let logps: Vec<&[Vec<f64>]> = groups.iter().map(|(_, line)| line.logps.as_slice()).collect();
    match advantages_of_all(groups)? {
        Some(given) => Ok(methods::evaluate_groups_given(method, &batch, &logps, given)),
        None => Ok(methods::evaluate_groups(method, &batch, &logps)),
    }
}

/// The advantages that every line gives, none where no line does.
fn advantages_of_all(groups: &[(usize, Line)]) -> Result<Option<Vec<Vec<f64>>>, (usize, String)> {
    let first = groups.first().is_some_and(|(_, line)| line.advantages.is_some());
    if let Some((number, _)) = groups.iter().find(|(_, line)| line.advantages.is_some() != first) {
        let what = "advantages: given on some lines; in one batch all lines have them or none has";
        return Err((*number, what.to_owned()));
    }
    let given = groups.iter().filter_map(|(_, line)| line.advantages.clone()).flatten();
    Ok(first.then(|| given.collect()))
}

/// One line; `None` where it is blank.
fn parse(configured: Option<&Configured>, line: &[u8]) -> Result<Option<Line>, String> {
    let text = std::str::from_utf8(line).map_err(|e| {
        let at = e.valid_up_to();
        format!("byte {} of the line is 0x{:02x}: not UTF-8; the input must be UTF-8 text", at + 1, line[at])
    })?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let line = Line::parse(text, configured)?;
    configured.map_or(Ok(()), |configured| not_too_long(configured, &line))?;
    Ok(Some(line))
}

/// Checks again, for another method, a line that was read.
///
/// # Errors
/// The fault and its fix.
pub fn check(configured: &Configured, line: &mut Line) -> Result<(), String> {
    line.check(Some(configured))?;
    not_too_long(configured, line)
}

/// Refuses a response that is longer than the method's settings allow.
fn not_too_long(configured: &Configured, line: &Line) -> Result<(), String> {
    match configured.method.max_len() {
        Some(limit) if line.logps.iter().any(|row| row.len() > limit) => Err(format!(
            "logps has a response of {} tokens; with matrix_length={limit} at most {limit} are possible",
            line.logps.iter().map(Vec::len).max().unwrap_or(0)
        )),
        _ => Ok(()),
    }
}

/// A group's loss as it is printed.
fn computed(line: &Line, loss: BatchLoss) -> Result<Estimate, String> {
    let metrics = loss.metrics.entries();
    Ok(Estimate {
        id: line.id.clone(),
        advantages: line.widened(all_finite("advantages", loss.advantages)?),
        loss: finite("loss", loss.value)?,
        dlogps: line.widened(all_finite("dlogps", loss.dlogps)?),
        metrics: metrics
            .into_iter()
            .map(|(name, x)| Ok((name.to_owned(), Value::from(finite(&format!("metrics.{name}"), x)?))))
            .collect::<Result<_, String>>()?,
    })
}

/// `x` as it is printed: JSON has no infinities, and `-0` is nobody's result.
pub fn finite(what: &str, x: f64) -> Result<f64, String> {
    if x.is_finite() {
        Ok(x + 0.0)
    } else {
        Err(format!(
            "{what} would be {x}; rewards, log-probabilities or settings are too large for 64-bit floats"
        ))
    }
}

pub fn all_finite(what: &str, lists: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, String> {
    let list = |(i, list): (usize, Vec<f64>)| {
        let number = |(t, x)| finite(what, x).map_err(|e| e.replacen(what, &format!("{what}[{i}][{t}]"), 1));
        list.into_iter().enumerate().map(number).collect()
    };
    lists.into_iter().enumerate().map(list).collect()
}

/// Log-probabilities above 0, in words.
fn positive(source: &str, lines: &Lines) -> Option<String> {
    let mut found = lines.iter().filter_map(|(number, line)| Some((number, line.positive()?)));
    let (line, Positive { place, value, count }) = found.next()?;
    let total = count + found.map(|(_, p)| p.count).sum::<usize>();
    let more = if total > 1 { format!(" (and {} more)", total - 1) } else { String::new() };
    let value = significant(value, 17);
    Some(format!("{source}:{line}: {place} = {value}{more} used as it is; a log-probability is at most 0"))
}

/// The groups of which no response is graded, in words.
fn ungraded(source: &str, lines: &Lines) -> Option<String> {
    let mut found = lines.iter().filter(|(_, line)| line.ungraded).map(|(number, _)| number);
    let first = found.next()?;
    let more = match found.count() {
        0 => String::new(),
        n => format!(" (and of {n} more groups)"),
    };
    Some(format!("{source}:{first}: no response is graded{more}; the advantages are 0"))
}
