//! `sim estimate --against`: which convention gives another trainer's numbers, and where they differ from a method's.

use super::{EstimateArgs, Lines, advantages_of_all, configured, evaluated, lines, read, refused};
use crate::failure::{Failure, one_line, quoted};
use crate::groups::Line;
use crate::input::{self, MOST_GROUPS};
use crate::json::{self, Json};
use crate::terminal;
use grpo_lambda::group::Group;
use grpo_lambda::methods::{self, Configured};
use grpo_lambda_conventions::{
    Assumptions, CORRECTION_SETTINGS, Candidate, Found, Rows, Theirs, diagnose, largest_difference,
};
use grpo_lambda_stats::table::significant;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Conventions of one quantity that are listed.
const SHOWN: usize = 12;
/// The largest relative difference of an explanation that is named as the nearest: it explains nine tenths.
const NEAR: f64 = 0.1;
/// Names of one convention that are listed.
const NAMES: usize = 4;

/// Reads both files, searches, prints.
///
/// # Errors
/// [`Failure::Refused`] for input that cannot be used.
pub(super) fn run(args: &EstimateArgs, path: &Path) -> Result<(), Failure> {
    let configured = configured(args)?;
    if configured.is_some() && !args.explain {
        let what = "--method: the search reads no method; add --explain to compare with it, or leave --method and its settings out";
        return Err(Failure::Refused(what.to_owned()));
    }
    let assumed = assumptions(args.tolerance, &args.settings, configured.is_some())?;
    let (source, bytes) = read(args)?;
    let groups = lines(configured.as_ref(), &source, &bytes)?;
    let shown = path.display();
    let wrong = |e: &dyn std::fmt::Display| {
        Failure::Refused(format!("{shown}: {e}; --against must name a readable text file"))
    };
    let bytes = input::file(path, MOST_GROUPS).map_err(|e| wrong(&e))?;
    let text = String::from_utf8(bytes).map_err(|e| wrong(&e.utf8_error()))?;
    let explained = configured.as_ref().filter(|_| args.explain);
    let found = report(explained, &assumed, (&source, &groups), (&shown.to_string(), &text))?;
    terminal::print(&found)
}

/// The search's answer to `theirs`, the numbers of another trainer on `groups`, each with the name that messages give it; and where they
/// differ from the method `explained`, term by term. No file is read.
///
/// # Errors
/// [`Failure::Refused`] for numbers that do not fit the groups.
pub fn report(
    explained: Option<&Configured>,
    assumed: &Assumptions,
    (source, groups): (&str, &Lines),
    (shown, text): (&str, &str),
) -> Result<String, Failure> {
    let (mut theirs, parts) = theirs_of(text, groups).map_err(|wrong| refused(shown, wrong))?;
    let assumed = match parts {
        Some(parts) => &assumed.clone().with_parts(parts).map_err(|what| refused(shown, (1, what)))?,
        None => assumed,
    };
    if theirs.advantages.is_none() {
        theirs.advantages = advantages_of_all(groups).map_err(|wrong| refused(source, wrong))?;
    }
    if let Some(words) = &assumed.correction {
        let known = methods::parse("gpg", words).map_err(|e| Failure::Refused(e.to_string()))?;
        for (number, line) in groups {
            let lacks = known
                .extra_inputs()
                .into_iter()
                .find(|kind| line.group.responses.iter().any(|r| !kind.is_in(r)));
            if let Some(kind) = lacks {
                let what = format!("{}: missing; `{words}` reads it", kind.name());
                return Err(refused(source, (*number, what)));
            }
        }
    }
    let batch: Vec<Group> = groups.iter().map(|(_, line)| line.group.clone()).collect();
    let logps: Vec<Vec<f64>> = groups.iter().flat_map(|(_, line)| line.logps.clone()).collect();
    let mut report = String::new();
    if let Some(configured) = explained {
        let ours = evaluated(configured, groups, true).map_err(|wrong| refused(source, wrong))?;
        report += &neighbour(configured, &batch, &logps, ours, &theirs);
    }
    for found in diagnose(&batch, &logps, &theirs, assumed).found() {
        report += &words(found, &places(groups));
    }
    Ok(report)
}

/// Settings known beforehand: a method's (`with_method`), or `beta` and `max_length` alone.
///
/// # Errors
/// [`Failure::Refused`] for a setting that is no number, or a tolerance outside `(0, 1)`.
pub fn assumptions(tolerance: f64, settings: &[String], with_method: bool) -> Result<Assumptions, Failure> {
    let mut assumed = Assumptions { tolerance, ..Assumptions::default() };
    if !(tolerance > 0.0 && tolerance < 1.0) {
        let message = format!("--tolerance {tolerance}: must be a number above 0 and below 1");
        return Err(Failure::Refused(message));
    }
    let mut known = Vec::new();
    for word in settings {
        let number = |value: &str, least: f64, before: Option<f64>| {
            if before.is_some() {
                return Err(Failure::Refused(format!("{word}: given twice; give each setting once")));
            }
            let right = || Failure::Refused(format!("{word}: must be a number of at least {least}"));
            value.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= least).map(Some).ok_or_else(right)
        };
        match word.split_once('=') {
            Some(("beta", value)) => assumed.beta = number(value, 0.0, assumed.beta)?,
            Some(("max_length", value)) => assumed.max_length = number(value, 1.0, assumed.max_length)?,
            Some((key, _)) if !with_method && CORRECTION_SETTINGS.contains(&key) => known.push(word.as_str()),
            _ if with_method => {}
            _ => {
                let what =
                    "without --method only beta=X, max_length=L and the settings of a correction are taken";
                return Err(Failure::Refused(format!("{}: {what}", quoted(word))));
            }
        }
    }
    if !known.is_empty() {
        let words = known.join(" ");
        // Any method without settings of its own says what is wrong with them.
        methods::parse("gpg", &words).map_err(|e| Failure::Refused(e.to_string()))?;
        assumed.correction = Some(words);
    }
    Ok(assumed)
}

/// The line and response of a flat index.
fn places(groups: &[(usize, Line)]) -> Vec<(usize, usize)> {
    groups.iter().flat_map(|(line, group)| (0..group.logps.len()).map(move |i| (*line, i))).collect()
}

/// `metrics` is what `sim estimate` itself prints with them; it is not read.
const FIELDS: [&str; 8] =
    ["id", "advantages", "token_losses", "gradient", "dlogps", "loss", "metrics", "parts"];

/// The micro-batch of every response, where it is known.
type Parts = Option<Vec<usize>>;

/// Their numbers, in the order of the groups, and the micro-batch of every response where it is given.
fn theirs_of(text: &str, groups: &[(usize, Line)]) -> Result<(Theirs, Parts), (usize, String)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut read: Vec<(usize, Vec<(String, Json)>)> = Vec::new();
    for (number, line) in lines.map(|(i, line)| (i + 1, line)) {
        match json::parse(line.trim_start_matches('\u{feff}')).map_err(|what| (number, what))? {
            Json::Object(entries) => read.push((number, entries)),
            other => {
                return Err((
                    number,
                    format!("the line is {other}; each line must be one whole JSON object"),
                ));
            }
        }
    }
    for (number, entries) in &read {
        checked(entries).map_err(|what| (*number, what))?;
    }
    let only_loss = matches!(&read[..], [(_, entries)] if entries.iter().all(|(key, _)| key == "loss"));
    if read.len() != groups.len() && !only_loss {
        let last = read.last().map_or(1, |(number, _)| *number);
        let what = format!(
            "{} lines for {} groups; one per group, or one with the loss alone",
            read.len(),
            groups.len()
        );
        return Err((last, what));
    }
    for ((number, entries), (_, line)) in read.iter().zip(groups).filter(|_| !only_loss) {
        same_id(entries, line).map_err(|what| (*number, what))?;
    }
    let theirs = Theirs {
        advantages: rows(&read, groups, &["advantages"])?,
        token_losses: rows(&read, groups, &["token_losses"])?,
        gradient: rows(&read, groups, &GRADIENT)?,
        loss: loss(&read)?,
    };
    if theirs == Theirs::default() {
        return Err((1, format!("nothing to compare; give one of {}", FIELDS[1..6].join(", "))));
    }
    Ok((theirs, parts(&read, groups)?))
}

/// Refuses fields that are not known or given twice, `gradient` and `dlogps` being one.
fn checked(entries: &[(String, Json)]) -> Result<(), String> {
    let name = |key: &str| if key == GRADIENT[1] { GRADIENT[0].to_owned() } else { key.to_owned() };
    for (i, (key, _)) in entries.iter().enumerate() {
        if !FIELDS.contains(&key.as_str()) {
            return Err(format!("{}: unknown field; the fields are {}", quoted(key), FIELDS.join(", ")));
        }
        if let Some((earlier, _)) = entries[..i].iter().find(|(earlier, _)| name(earlier) == name(key)) {
            let both = if earlier == key { String::new() } else { format!(", as `{earlier}` is the same") };
            return Err(format!("{key}: given twice{both}; each field may appear once"));
        }
    }
    Ok(())
}

/// Refuses the numbers of another group: an `id` that is not the group's.
fn same_id(entries: &[(String, Json)], line: &Line) -> Result<(), String> {
    let (Some(theirs), Some(own)) = (field(entries, &["id"]), &line.id) else { return Ok(()) };
    let is_same = match (theirs, own) {
        (Json::Text(theirs), Value::String(own)) => theirs == own,
        (Json::Number(theirs), Value::Number(own)) => theirs == own,
        _ => false,
    };
    let what = || {
        format!("id = {theirs}: the group of this place is {own}; put the lines in the order of the groups")
    };
    is_same.then_some(()).ok_or_else(what)
}

/// The names of the gradient.
const GRADIENT: [&str; 2] = ["gradient", "dlogps"];

type Entries = [(usize, Vec<(String, Json)>)];

/// The field of a line, under one of its names.
fn field<'a>(entries: &'a [(String, Json)], names: &[&str]) -> Option<&'a Json> {
    named(entries, names).map(|(_, value)| value)
}

/// The field with its name there.
fn named<'a>(entries: &'a [(String, Json)], names: &[&str]) -> Option<&'a (String, Json)> {
    entries.iter().find(|(key, _)| names.contains(&key.as_str()))
}

/// A field with a list per response, of all lines; none where no line has it.
fn rows(read: &Entries, groups: &[(usize, Line)], names: &[&str]) -> Result<Option<Rows>, (usize, String)> {
    if read.iter().all(|(_, entries)| field(entries, names).is_none()) {
        return Ok(None);
    }
    let mut all = Vec::new();
    for ((number, entries), (_, line)) in read.iter().zip(groups) {
        let Some((name, value)) = named(entries, names) else {
            return Err((*number, format!("{}: missing; other lines have it", names.join(" or "))));
        };
        all.extend(rows_of(value, line, name).map_err(|what| (*number, what))?);
    }
    Ok(Some(all))
}

fn rows_of(value: &Json, line: &Line, name: &str) -> Result<Rows, String> {
    let Json::List(items) = value else { return Err(format!("{name} = {value}; must be a list")) };
    if items.len() != line.logps.len() {
        let expected = line.logps.len();
        return Err(format!(
            "{name}: {} entries for {expected} responses; one per response is needed",
            items.len()
        ));
    }
    let finite = |place: &str, item: &Json| match item {
        Json::Number(n) => n.as_f64().ok_or_else(|| format!("{place} = {item}; must be a number")),
        other => Err(format!("{place} = {other}; must be a finite number")),
    };
    let row = |(i, item): (usize, &Json)| match item {
        Json::List(numbers) => {
            let mask = line.masks.as_ref().map(|masks| &masks[i]).filter(|mask| mask.len() == numbers.len());
            let is_read = |t: usize| mask.is_none_or(|mask| mask[t]);
            let of_slot = |(t, x)| if is_read(t) { finite(&format!("{name}[{i}][{t}]"), x) } else { Ok(0.0) };
            numbers.iter().enumerate().map(of_slot).collect()
        }
        other => finite(&format!("{name}[{i}]"), other).map(|x| vec![x; line.logps[i].len()]),
    };
    let rows = items.iter().enumerate().map(row).collect::<Result<Rows, String>>()?;
    line.narrowed(name, rows)
}

/// The micro-batch of every response; none where no line has it.
fn parts(read: &Entries, groups: &[(usize, Line)]) -> Result<Parts, (usize, String)> {
    const NAME: &str = "parts";
    if read.iter().all(|(_, entries)| field(entries, &[NAME]).is_none()) {
        return Ok(None);
    }
    let whole = |item: &Json| match item {
        Json::Number(n) => n.as_u64().and_then(|n| usize::try_from(n).ok()),
        _ => None,
    };
    let mut all = Vec::new();
    for ((number, entries), (_, line)) in read.iter().zip(groups) {
        let count = line.logps.len();
        let own: Option<Vec<usize>> = match field(entries, &[NAME]) {
            Some(Json::List(items)) if items.len() == count => items.iter().map(whole).collect(),
            _ => None,
        };
        let what =
            format!("{NAME}: must be a list of {count} whole numbers, the micro-batch of each response");
        all.extend(own.ok_or((*number, what))?);
    }
    Ok(Some(all))
}

/// The loss of the batch, or the numbers of all lines.
fn loss(read: &Entries) -> Result<Vec<f64>, (usize, String)> {
    let mut given = Vec::new();
    for (number, entries) in read {
        match field(entries, &["loss"]) {
            None => {}
            Some(Json::Number(n)) if n.as_f64().is_some() => given.extend(n.as_f64()),
            Some(other) => return Err((*number, format!("loss = {other}; must be a finite number"))),
        }
    }
    if given.len() > 1 && given.len() < read.len() {
        return Err((
            1,
            format!("loss: on {} of {} lines; give it on one line or on all", given.len(), read.len()),
        ));
    }
    Ok(given)
}

/// Differences of their numbers from the method's, term by term.
fn neighbour(
    configured: &Configured,
    batch: &[Group],
    logps: &[Vec<f64>],
    ours: Vec<grpo_lambda::methods::BatchLoss>,
    theirs: &Theirs,
) -> String {
    let method = configured.method.as_ref();
    let loss: f64 = ours.iter().map(|group| group.value).sum();
    let gradient: Rows = ours.iter().flat_map(|group| group.dlogps.clone()).collect();
    let own: Rows = ours.into_iter().flat_map(|group| group.advantages).collect();
    // The loss of a token is compared at their advantages, so that each line is about one term.
    let used = theirs.advantages.clone().unwrap_or_else(|| own.clone());
    let credits = method.credit_given(batch, used);
    let responses = batch.iter().flat_map(|g| &g.responses).zip(&credits).zip(logps);
    let tokens: Rows = responses.clone().map(|((r, c), l)| method.token_losses(r, c, l)).collect();
    let given: Rows = responses.map(|((r, c), l)| method.loss(r, c, l).dlogps).collect();
    let mut text = format!("{} against theirs, largest difference of each term:\n", configured.spec.title);
    let mut line = |name: &str, pair: Option<(&Rows, &Rows)>| {
        if let Some((ours, theirs)) = pair {
            let _ = writeln!(text, "  {name:<46} {}", difference(ours, theirs));
        }
    };
    line("advantages", theirs.advantages.as_ref().map(|t| (&own, t)));
    line("losses of tokens, at their advantages, no KL", theirs.token_losses.as_ref().map(|t| (&tokens, t)));
    line("gradient, at their advantages", theirs.gradient.as_ref().map(|t| (&given, t)));
    line("gradient", theirs.gradient.as_ref().map(|t| (&gradient, t)));
    if let Some(theirs) = theirs.batch_loss() {
        let _ =
            writeln!(text, "  {:<46} {:.3e} (ours {loss}, theirs {theirs})", "loss", (loss - theirs).abs());
    }
    text.push('\n');
    text
}

/// The largest difference with its place and both numbers.
fn difference(ours: &Rows, theirs: &Rows) -> String {
    match largest_difference(ours, theirs) {
        None => "none".to_owned(),
        Some((apart, (i, t))) => {
            format!("{apart:.3e} at response {i}, token {t} (ours {}, theirs {})", ours[i][t], theirs[i][t])
        }
    }
}

/// The result for one quantity, for a reader.
fn words(found: &Found, places: &[(usize, usize)]) -> String {
    let mut text = String::new();
    let quantity = found.quantity;
    if !found.note.is_empty() {
        let _ = writeln!(text, "{quantity}: {}", found.note);
    }
    if !found.explained() {
        let near = found.nearest.as_ref().filter(|nearest| nearest.error <= NEAR);
        let tail = if near.is_some() { "; the nearest:" } else { ", and none is within a tenth of them" };
        let _ = writeln!(text, "{quantity}: none of {} conventions gives these numbers{tail}", found.tried);
        if let Some(nearest) = near {
            text += &shown(quantity, nearest);
            let place = nearest.place.map_or(String::new(), |(response, token)| {
                let (line, i) = places[response];
                format!(", most at line {line}, response {i}, token {token}")
            });
            let _ = writeln!(text, "    relative difference {:.1e}{place}", nearest.error);
        }
        if let Some((remainder, explained)) = &found.remainder {
            let _ = writeln!(text, "    left after {explained}: {remainder}");
        }
        return text + "\n";
    }
    let count: usize = found.matches.iter().map(Candidate::count).sum();
    let give = if count > 1 {
        "conventions, each of which gives these numbers on this batch"
    } else {
        "conventions gives these numbers"
    };
    let _ = writeln!(text, "{quantity}: {count} of {} {give}:", found.tried);
    for candidate in found.matches.iter().take(SHOWN) {
        text += &shown(quantity, candidate);
        text += &agreement(candidate.error);
    }
    let more = found.matches.iter().skip(SHOWN).map(Candidate::count).sum::<usize>();
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    text + "\n"
}

/// The end of a name that a framework's users get without a word.
const DEFAULT: &str = "(the default)";

/// The line that says how near two lists of numbers are.
fn agreement(error: f64) -> String {
    if error == 0.0 {
        "    agrees exactly\n".to_owned()
    } else {
        format!("    agrees to a relative {error:.0e}\n")
    }
}

fn shown(quantity: &str, candidate: &Candidate) -> String {
    let mut text = String::new();
    if candidate.what != quantity {
        let _ = writeln!(text, "  {}", one_line(&candidate.what));
    }
    let each = if candidate.of_parts { ", on each micro-batch" } else { "" };
    let _ = writeln!(text, "    here: {}{each}", candidate.command);
    let mut names = candidate.labels.clone();
    names.sort_by_key(|name| (!name.starts_with("TRL"), !name.ends_with(DEFAULT)));
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    names.extend((more > 0).then(|| format!("and {more} more in docs/conventions.md")));
    for (i, name) in names.iter().enumerate() {
        let _ = writeln!(text, "    {} {name}", if i == 0 { "also:" } else { "     " });
    }
    if (candidate.factor - 1.0).abs() > 1e-9 {
        let length = candidate.command.split_once("reduction=constant max_length=");
        let length = length.and_then(|(_, words)| words.split(' ').next()?.parse::<f64>().ok());
        let length = length.map(|l| format!(", or max_length={}", significant(l / candidate.factor, 6)));
        let why = format!("accumulation, workers{}", length.unwrap_or_default());
        let _ = writeln!(text, "    theirs is {} times that ({why})", candidate.factor);
    }
    text
}
