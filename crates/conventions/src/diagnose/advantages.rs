//! The advantages of every convention on a batch.

use super::{Assumptions, Candidate, Found, Rows, fit};
use crate::{Scope, all};
use grpo_lambda::group::{Group, InputKind};
use grpo_lambda::methods::{self, Configured};

/// Advantages with the conventions of which they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Credited {
    pub(super) rows: Rows,
    pub(super) command: String,
    pub(super) labels: Vec<String>,
}

impl Credited {
    /// Advantages that are given, of no known convention.
    pub(super) fn given(rows: Rows) -> Credited {
        Credited { rows, command: String::new(), labels: Vec::new() }
    }
}

/// True if the batch has what a method needs.
pub(super) fn has_inputs(batch: &[Group], configured: &Configured) -> bool {
    let needs: Vec<InputKind> = configured.extra_inputs();
    batch.iter().flat_map(|g| &g.responses).all(|r| needs.iter().all(|kind| kind.is_in(r)))
}

/// Settings that no framework has by default, but that trainers of one's own have: both ddof with the usual epsilons.
const VARIANTS: [&str; 6] = [
    "std_ddof=0 std_epsilon=0",
    "std_ddof=0 std_epsilon=1e-8",
    "std_ddof=0 std_epsilon=1e-6",
    "std_ddof=0 std_epsilon=1e-4",
    "std_ddof=1 std_epsilon=0",
    "std_ddof=1 std_epsilon=1e-8",
];

/// The advantages of every convention and variant that the batch has the extra inputs for; equal ones together.
pub(super) fn known(batch: &[Group]) -> Vec<Credited> {
    let about = |scope| matches!(scope, Scope::Objective | Scope::Advantages);
    let rows = all().filter(|c| about(c.scope) && !c.method.is_empty());
    let named = rows.map(|c| (c.method, without_loss(c.settings), Some(c.label())));
    let variants = VARIANTS.into_iter().map(|settings| ("grpo", settings.to_owned(), None));
    let plain = [("bnpo_beta", String::new(), None), ("tempo", String::new(), None)];
    let mut found: Vec<Credited> = Vec::new();
    for (method, settings, label) in named.chain(variants).chain(plain) {
        let Ok(configured) = methods::parse(method, &settings) else { continue };
        if !has_inputs(batch, &configured) {
            continue;
        }
        let rows: Rows = configured.method.credit(batch).into_iter().map(|c| c.advantages).collect();
        match found.iter_mut().find(|f| f.rows == rows) {
            Some(same) => same.labels.extend(label),
            None => {
                let command = format!("{method} {settings}").trim_end().to_owned();
                found.push(Credited { rows, command, labels: label.into_iter().collect() });
            }
        }
    }
    found
}

/// The settings that advantages depend on: those of the loss are left out, so that its extra inputs are not asked for.
fn without_loss(settings: &str) -> String {
    const LOSS: [&str; 7] = ["beta=", "kl=", "correction", "reject", "off_policy", "clip", "reduction="];
    let kept = |word: &&str| !LOSS.iter().any(|key| word.starts_with(key));
    settings.split_whitespace().filter(kept).collect::<Vec<_>>().join(" ")
}

/// Finds the given advantages among the known ones.
pub(super) fn explain(batch: &[Group], known: &[Credited], given: &Rows, assumed: &Assumptions) -> Found {
    let candidate = |c: &Credited| {
        let (error, place) = fit::difference(&c.rows, given);
        let what = "advantages".to_owned();
        let (command, labels) = (c.command.clone(), c.labels.clone());
        let (correction, same) = (String::new(), Vec::new());
        Candidate {
            what,
            command,
            labels,
            error,
            place,
            factor: 1.0,
            beta: 0.0,
            correction,
            of_parts: false,
            same,
        }
    };
    let mut tried: Vec<Candidate> = known.iter().map(candidate).collect();
    if tried.iter().all(|c| c.error > assumed.tolerance) {
        tried.extend(penalised(batch, given).iter().map(candidate));
    }
    let found = Found::from("advantages", tried, assumed.tolerance);
    if found.explained() {
        return found;
    }
    let moved =
        known.iter().find(|c| fit::difference(&sorted(&c.rows), &sorted(given)).0 <= assumed.tolerance);
    let note = match moved {
        Some(credited) => format!("as a set they are those of `{}`, {REORDERED}", credited.command),
        None if scattered(batch, given) => SCATTERED.to_owned(),
        None => String::new(),
    };
    Found { note, ..found }
}

/// The first number of every row, the smallest first.
fn sorted(rows: &Rows) -> Rows {
    let mut firsts: Rows = rows.iter().filter_map(|row| Some(vec![*row.first()?])).collect();
    firsts.sort_by(|a, b| a[0].total_cmp(&b[0]));
    firsts
}

const REORDERED: &str =
    "but stand in another order; put the rows in the order of the groups and their responses";

/// RLOO's advantages with the KL penalty in the reward whose coefficient is closest to the given ones, plain and normalised.
fn penalised(batch: &[Group], given: &Rows) -> Vec<Credited> {
    let advantages = |settings: &str| -> Option<Rows> {
        let configured = methods::parse("rloo", settings).ok()?;
        let credit = || configured.method.credit(batch).into_iter().map(|c| c.advantages).collect();
        has_inputs(batch, &configured).then(credit)
    };
    let (Some(plain), Some(with)) = (advantages(""), advantages("reward_beta=1")) else { return Vec::new() };
    let kl = fit::sum(&with, -1.0, &plain);
    let alone = fit::one(&kl, &fit::sum(given, -1.0, &plain)).map(|beta| (beta, ""));
    let scaled = fit::two(&plain, &kl, given).map(|(factor, b)| (b / factor, " normalise=true"));
    let plausible = [alone, scaled].into_iter().flatten().filter(|(beta, _)| *beta > 1e-7);
    let credited = |(beta, more): (f64, &str)| {
        let command = format!("reward_beta={:.6}{more}", beta);
        let labels = vec![format!(
            "TRL RLOOTrainer{}",
            if more.is_empty() { "" } else { ", normalize_advantages=True" }
        )];
        Some(Credited { rows: advantages(&command)?, command: format!("rloo {command}"), labels })
    };
    plausible.filter_map(credited).collect()
}

const SCATTERED: &str = "they add up to 0 over the batch and not within the groups: are the rows of one prompt together? TRL shuffles the rows of a \
     batch before its loss; group them by prompt (grpo_lambda.trl.record does)";

/// True if the advantages of responses are centred over the batch but not in each of several groups, as they are where rows were shuffled after
/// they were centred in groups.
fn scattered(batch: &[Group], given: &Rows) -> bool {
    let mut rows = given.iter().map(|row| row.first().copied().unwrap_or(0.0));
    let sums: Vec<f64> = batch.iter().map(|g| rows.by_ref().take(g.responses.len()).sum()).collect();
    let near_zero = |sum: f64| sum.abs() <= 1e-4 * fit::largest(given);
    let constant = given.iter().all(|row| row.iter().all(|x| Some(x) == row.first()));
    constant && near_zero(sums.iter().sum()) && !sums.into_iter().all(near_zero)
}
