//! The parts of a loss: losses of a token, KL terms and reductions, each computed once for a batch.

use super::advantages::{Credited, has_inputs};
use super::{Assumptions, Rows};
use crate::{Convention, Scope, all};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::kl::Kl;
use grpo_lambda::methods::{self, Configured, Credit};
use grpo_lambda::reduction::Reduction;

/// The loss of a token under one method and one list of advantages.
pub(super) struct TokenLoss {
    /// Losses before the reduction.
    pub(super) values: Rows,
    /// Their derivatives, every token at weight 1.
    pub(super) slopes: Rows,
    pub(super) command: String,
    /// The conventions whose loss of a token it is.
    pub(super) labels: Vec<Label>,
    /// The advantages it was computed with; empty where they were given.
    pub(super) advantages: String,
    /// The places of its method and its advantages in the search.
    pub(super) made_by: (usize, usize),
    /// The correction of the sampler's mismatch, in settings, with the conventions that have it.
    pub(super) correction: Option<(String, Vec<String>)>,
}

/// A convention with its reduction in the words of the settings; none where it leaves the reduction open.
#[derive(Clone)]
pub(super) struct Label {
    pub(super) words: String,
    pub(super) reduction: Option<String>,
}

/// A KL term per token at coefficient 1.
pub(super) struct KlTerm {
    pub(super) name: &'static str,
    pub(super) values: Rows,
    pub(super) slopes: Rows,
}

/// A reduction as a weight per response.
#[derive(Clone)]
pub(super) struct Weighing {
    pub(super) name: String,
    /// The reductions that have the same weights on this batch.
    pub(super) same: Vec<String>,
    pub(super) reduction: Reduction,
    /// True if responses that were cut off weigh nothing.
    pub(super) masked: bool,
    /// The micro-batch of every response where the reduction is the mean of those of the micro-batches.
    pub(super) parts: Option<Vec<usize>>,
    pub(super) weights: Vec<f64>,
}

const ESTIMATORS: [(&str, Kl); 8] = [
    ("k1", Kl::K1),
    ("k2", Kl::K2),
    ("k3", Kl::K3),
    ("ratio_k3", Kl::RatioK3),
    ("response_ratio_k3", Kl::ResponseRatioK3),
    ("abs", Kl::Abs),
    ("k1_k2", Kl::K1K2),
    ("k3_k2", Kl::K3K2),
];

/// Losses of a token that no convention has by default: other usual bounds, and what GRPO-lambda prints.
const VARIANTS: [(&str, &str); 8] = [
    ("grpo", "clip=none"),
    ("grpo", "epsilon_high=0.28"),
    ("grpo", "clip=two_sided clip_max=3 epsilon_high=0.28"),
    ("grpo", "clip=printed"),
    ("gspo_token", ""),
    ("gspo", ""),
    ("cispo", "clip_form=interval"),
    ("grpo_lambda", "clamp=none"),
];

/// Every method whose loss of a token is tried, with its settings in words and the convention it belongs to.
pub(super) fn token_methods(batch: &[Group]) -> Vec<(Configured, String, Option<Label>)> {
    let about = |scope| matches!(scope, Scope::Objective | Scope::Loss);
    let rows = all().filter(|c| about(c.scope) && !c.method.is_empty());
    let label = |c: &Convention| {
        let whole = c.configure().ok().flatten().filter(|_| c.scope == Scope::Objective);
        let reduction = whole.map(|configured| configured.settings.word("reduction").to_owned());
        Label { words: c.label(), reduction }
    };
    let named = rows.map(|c| (c.method, loss_settings(c.settings), Some(label(c))));
    let variants = VARIANTS.into_iter().map(|(method, settings)| (method, settings.to_owned(), None));
    let configured = |(method, settings, label): (&str, String, Option<Label>)| {
        let method_with_settings = methods::parse(method, &settings).ok()?;
        let command = format!("{method} {settings}").trim_end().to_owned();
        let usable =
            !method_with_settings.method.credit_reads_tokens() || has_inputs(batch, &method_with_settings);
        usable.then_some((method_with_settings, command, label))
    };
    named.chain(variants).filter_map(configured).collect()
}

/// The settings that the loss of a token depends on, without a KL term.
fn loss_settings(settings: &str) -> String {
    const OTHER: [&str; 10] = [
        "beta=",
        "kl=",
        "std_",
        "scale=",
        "clamp=",
        "reduction=",
        "max_length=",
        "alpha=",
        "overlong_",
        "reward_beta=",
    ];
    let kept = |word: &&str| !OTHER.iter().any(|key| word.starts_with(key));
    settings.split_whitespace().filter(kept).collect::<Vec<_>>().join(" ")
}

pub(super) fn token_loss(
    batch: &[Group],
    logps: &[Vec<f64>],
    configured: &Configured,
    credit: &Credited,
    command: &str,
) -> TokenLoss {
    let method = configured.method.as_ref();
    let (mut values, mut slopes) = (Vec::new(), Vec::new());
    let credits = method.credit_given(batch, credit.rows.clone());
    for ((response, own), logps) in batch.iter().flat_map(|g| &g.responses).zip(credits).zip(logps) {
        let unit = Credit { weights: vec![1.0; response.len()], ..own };
        values.push(method.token_losses(response, &unit, logps));
        slopes.push(method.loss(response, &unit, logps).dlogps);
    }
    let (command, advantages) = (command.to_owned(), credit.command.clone());
    TokenLoss { values, slopes, command, labels: Vec::new(), advantages, made_by: (0, 0), correction: None }
}

/// The KL terms that the batch has a reference for.
pub(super) fn kl_terms(batch: &[Group], logps: &[Vec<f64>]) -> Vec<KlTerm> {
    let responses: Vec<_> = batch.iter().flat_map(|g| &g.responses).collect();
    let Some(references) = responses.iter().map(|r| r.ref_logps.as_ref()).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let term = |(name, kl): (&'static str, Kl)| {
        let rows = responses.iter().zip(logps).zip(&references).map(|((r, logps), reference)| {
            let terms = kl.of_response(logps, logps, &r.old_logps, reference);
            let (values, mut slopes): (Vec<f64>, Vec<f64>) = terms.iter().map(|v| (v.value, v.slope)).unzip();
            if kl == Kl::ResponseRatioK3 {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                slopes.iter_mut().for_each(|slope| *slope += mean);
            }
            (values, slopes)
        });
        let (values, slopes) = rows.unzip();
        KlTerm { name, values, slopes }
    };
    ESTIMATORS.into_iter().map(term).collect()
}

/// The reductions of the batch, in the words of the settings; those of equal weights together.
pub(super) fn reductions(batch: &[Group], assumed: &Assumptions) -> Vec<Weighing> {
    let lengths = |masked: bool| -> Vec<Vec<Option<usize>>> {
        let weighs = |r: &Response| (!(masked && r.truncated)).then_some(r.len());
        batch.iter().map(|g| g.responses.iter().map(weighs).collect()).collect()
    };
    let longest = lengths(false).iter().flatten().flatten().copied().max().unwrap_or(1) as f64;
    let mut constants = vec![longest, 256.0, 512.0];
    constants.extend(assumed.max_length.filter(|l| !constants.contains(l)));
    let fixed = [
        ("token_mean".to_owned(), Reduction::TokenMean),
        ("group_token_mean".to_owned(), Reduction::GroupTokenMean),
        ("response_mean".to_owned(), Reduction::PerResponse),
        ("response_sum".to_owned(), Reduction::Constant(1.0)),
    ];
    let constants =
        constants.into_iter().map(|l| (format!("constant max_length={l}"), Reduction::Constant(l)));
    let whole: Vec<_> = fixed.into_iter().chain(constants).collect();
    let of_parts = assumed.parts.as_ref().map(|_| ("token_mean".to_owned(), Reduction::TokenMean));
    let is_cut = batch.iter().flat_map(|g| &g.responses).any(|r| r.truncated);
    let mut found: Vec<Weighing> = Vec::new();
    for masked in [false, true].into_iter().filter(|masked| is_cut || !masked) {
        let lengths = lengths(masked);
        let own = of_parts.iter().map(|reduction| (reduction, assumed.parts.clone()));
        for ((name, reduction), parts) in whole.iter().map(|reduction| (reduction, None)).chain(own) {
            let name = if masked { format!("{name} mask_truncated=true") } else { name.clone() };
            let weights = weights(*reduction, &lengths, parts.as_deref());
            match found.iter_mut().find(|w| w.weights == weights) {
                // The mean over micro-batches that is the mean over all.
                Some(_) if parts.is_some() => {}
                Some(same) => same.same.push(name),
                None => {
                    let (same, reduction) = (Vec::new(), *reduction);
                    found.push(Weighing { name, same, reduction, masked, parts, weights });
                }
            }
        }
    }
    found
}

/// The weight of every response of groups with these numbers of tokens: over all, or the mean over their micro-batches.
pub(super) fn weights(
    reduction: Reduction,
    groups: &[Vec<Option<usize>>],
    parts: Option<&[usize]>,
) -> Vec<f64> {
    let Some(parts) = parts else { return reduction.weights_of_groups(groups) };
    let count = parts.iter().max().map_or(0, |last| last + 1);
    let mut rows: Vec<Vec<Option<usize>>> = vec![Vec::new(); count];
    parts.iter().zip(groups.iter().flatten()).for_each(|(part, tokens)| rows[*part].push(*tokens));
    let of_part = |row: &Vec<_>| reduction.weights_of_groups(std::slice::from_ref(row)).into_iter();
    let mut own: Vec<_> = rows.iter().map(of_part).collect();
    parts.iter().filter_map(|part| own[*part].next()).map(|weight| weight / count as f64).collect()
}

pub(super) fn weighed(rows: &Rows, weights: &[f64]) -> Rows {
    rows.iter().zip(weights).map(|(row, w)| row.iter().map(|x| w * x).collect()).collect()
}
