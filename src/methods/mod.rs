//! The methods: the trait they implement, their registry and their settings.
//!
//! A method is a pure function in two steps. [`Method::credit`] looks at rewards, lengths and evidence of a whole
//! batch once and fixes, for every response, its per-token advantages and its weight in the loss. [`Method::loss`] then
//! maps one response's current log-probabilities to its share of the loss and the gradient. The shares add up, so
//! splitting a batch into micro-batches cannot change the result.

use crate::equation::{BatchSize, Equation};
use crate::group::{Group, Response};

/// What is fixed for one response once its batch has been sampled and graded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credit {
    /// Advantage of every token, length `T`; constant in the parameters.
    pub advantages: Vec<f64>,
    /// Weight of every token in the loss, length `T`: the reduction (for example `1/(g T_i)`), 0 where masked.
    pub weights: Vec<f64>,
    /// Which tokens a selective trace may read, length `T`; none where the trace reads all.
    pub eligible: Option<Vec<bool>>,
}

/// One response's share of the loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// The share; the batch loss (to be minimised) is the sum over responses.
    pub value: f64,
    /// `d loss / d log pi(a_t|s_t)`, length `T`.
    pub dlogps: Vec<f64>,
    /// What to log.
    pub metrics: crate::metrics::Metrics,
}

/// How the other responses of a group enter a response's own gradient, at fixed tokens and log-probabilities of its own.
///
/// The exact oracle uses it to average over a group without enumerating all tuples; a test
/// compares that average with the full enumeration for every registered method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coupling {
    /// Only through their rewards.
    Rewards,
    /// Through their rewards and the sum of their lengths (global token mean).
    RewardsAndTotalLength,
    /// Through anything: tokens, evidence, single lengths.
    Everything,
}

/// A policy-optimisation method, with its settings.
pub trait Method: Send + Sync + std::fmt::Debug {
    /// Advantages and loss weights of every response of the batch, in flat order (group by group).
    ///
    /// # Panics
    /// If a response is empty, or evidence the method needs is missing; [`crate::check`] reports both as errors.
    fn credit(&self, batch: &[Group]) -> Vec<Credit>;

    /// The share of `response` in the loss at current log-probabilities `logps` (length `T`), where stopped gradients hold
    /// the numbers they have at log-probabilities `frozen`.
    ///
    /// `dlogps` is the derivative of the value by `logps` at fixed `frozen`: what automatic differentiation makes of a
    /// stopped gradient, and what a test can compare with finite differences.
    ///
    /// # Panics
    /// If lengths differ.
    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss;

    /// The share of `response` in the loss at current log-probabilities `logps` (length `T`).
    ///
    /// # Panics
    /// If lengths differ.
    fn loss(&self, response: &Response, credit: &Credit, logps: &[f64]) -> Loss {
        self.loss_around(response, credit, logps, logps)
    }

    /// How other responses enter a response's gradient.
    fn coupling(&self) -> Coupling;

    /// Whether a batch whose rewards all agree teaches nothing, up to a KL term: so it is with every comparison of responses. A critic,
    /// or a reward per token, teaches on its own.
    fn compares_rewards(&self) -> bool {
        true
    }

    /// The longest response the method takes, where its settings bound it.
    fn max_len(&self) -> Option<usize> {
        None
    }

    /// The objective as an equation with its numbers, for a batch of this size; `None` for a method that does not describe itself.
    fn equation(&self, _size: &BatchSize) -> Option<Equation> {
        None
    }

    /// Whether the [`Credit`] of a response depends on its own tokens or evidence, beyond its reward and length.
    ///
    /// `true` is always right; `false` lets the exact oracle compute one credit for all responses of a reward and length.
    fn credit_reads_tokens(&self) -> bool {
        true
    }
}

mod bnpo;
mod bnpo_beta;
mod cispo;
mod dapo;
mod dr_grpo;
mod grpo;
mod grpo_batch_std;
mod grpo_lambda;
mod gspo;
mod gspo_token;
mod high_entropy;
mod oar_g;
mod oar_p;
mod optimal_token_baseline;
mod p_trace;
mod ppo;
mod reinforce_pp;
mod reinforce_pp_baseline;
mod rloo;
mod rlsd;
mod s_trace;
mod shared;
mod shear;
mod spo_chain;
mod spo_tree;
mod tempo;
mod tree_rl;
mod tree_rpo;
mod vine_ppo;

use crate::group::EvidenceKind;
use crate::metrics::Metrics;
use crate::settings::{Param, SettingError, Settings, did_you_mean};

/// Where a method's formulas come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Published formulas and public reference code.
    Published,
    /// A paper's formulas; no public code is known.
    PaperOnly,
    /// Rebuilt by us because no source gives the formulas.
    Reconstructed,
    /// Ours.
    Ours,
}

impl Provenance {
    /// The word used in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Provenance::Published => "published",
            Provenance::PaperOnly => "paper only",
            Provenance::Reconstructed => "reconstructed",
            Provenance::Ours => "ours",
        }
    }
}

/// A method's entry in the registry.
pub struct MethodSpec {
    /// Its name in commands and configurations.
    pub name: &'static str,
    /// Its name for a reader.
    pub title: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Paper and code the formulas come from.
    pub source: &'static str,
    /// How far the source goes.
    pub provenance: Provenance,
    /// Its settings with their defaults.
    pub params: fn() -> Vec<Param>,
    /// What a policy must provide under these settings.
    pub evidence: fn(&Settings) -> Vec<EvidenceKind>,
    /// Builds the method.
    pub build: fn(&Settings) -> Box<dyn Method>,
}

/// Every method, in the order of tables. Adding one is its file and its line here.
pub static REGISTRY: &[&MethodSpec] = &[
    &grpo::SPEC,
    &dr_grpo::SPEC,
    &rloo::SPEC,
    &grpo_lambda::SPEC,
    &grpo_batch_std::SPEC,
    &dapo::SPEC,
    &bnpo::SPEC,
    &bnpo_beta::SPEC,
    &gspo::SPEC,
    &gspo_token::SPEC,
    &cispo::SPEC,
    &reinforce_pp::SPEC,
    &reinforce_pp_baseline::SPEC,
    &high_entropy::SPEC,
    &optimal_token_baseline::SPEC,
    &tempo::SPEC,
    &p_trace::SPEC,
    &s_trace::SPEC,
    &oar_p::SPEC,
    &oar_g::SPEC,
    &ppo::SPEC,
    &vine_ppo::SPEC,
    &spo_chain::SPEC,
    &spo_tree::SPEC,
    &tree_rl::SPEC,
    &tree_rpo::SPEC,
    &rlsd::SPEC,
    &shear::SPEC,
];

/// A method needs what the policy does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method} needs {needs}, which comes from {provided_by}; this policy has none")]
pub struct MissingEvidence {
    /// The method.
    pub method: &'static str,
    /// The evidence.
    pub needs: &'static str,
    /// What provides it.
    pub provided_by: &'static str,
}

/// A method with its resolved settings.
pub struct Configured {
    /// Its registry entry.
    pub spec: &'static MethodSpec,
    /// Every setting with its value.
    pub settings: Settings,
    /// The function itself.
    pub method: Box<dyn Method>,
}

impl Configured {
    /// What the policy must provide.
    pub fn evidence(&self) -> Vec<EvidenceKind> {
        (self.spec.evidence)(&self.settings)
    }

    /// Refuses the method where a policy that provides `provided` lacks evidence it needs.
    ///
    /// # Errors
    /// [`MissingEvidence`], which names the evidence and what provides it.
    ///
    /// ```
    /// let masked = grpo_lambda::methods::parse("high_entropy", "").unwrap();
    /// let refused = masked.require(&[]).unwrap_err().to_string();
    /// assert!(refused.contains("needs entropies"), "{refused}");
    /// ```
    pub fn require(&self, provided: &[EvidenceKind]) -> Result<(), MissingEvidence> {
        match self.evidence().into_iter().find(|kind| !provided.contains(kind)) {
            None => Ok(()),
            Some(kind) => Err(MissingEvidence {
                method: self.spec.name,
                needs: kind.name(),
                provided_by: kind.provided_by(),
            }),
        }
    }

    /// The settings that were changed and have no effect beside the others; see [`Settings::idle`].
    pub fn idle(&self) -> Vec<String> {
        self.settings.idle(&(self.spec.params)())
    }
}

/// The registry entry of a name.
///
/// # Errors
/// [`SettingError::UnknownMethod`].
pub fn find(name: &str) -> Result<&'static MethodSpec, SettingError> {
    REGISTRY.iter().copied().find(|spec| spec.name == name).ok_or_else(|| SettingError::UnknownMethod {
        name: name.to_owned(),
        hint: did_you_mean(name, REGISTRY.iter().map(|s| s.name)),
        known: REGISTRY.iter().map(|s| s.name).collect::<Vec<_>>().join(", "),
    })
}

/// Builds a method from `key=value` overrides of its defaults.
///
/// # Errors
/// [`SettingError`]: unknown method or key, repeated key, value out of range or at odds with another.
pub fn configure(name: &str, overrides: &[(String, String)]) -> Result<Configured, SettingError> {
    let spec = find(name)?;
    let settings = Settings::resolve(spec.name, &(spec.params)(), overrides)?;
    shared::check_together(&settings)?;
    let method = (spec.build)(&settings);
    Ok(Configured { spec, settings, method })
}

/// [`configure`] with the overrides in one string, `"lambda=0.9 style=both"`.
///
/// # Errors
/// As [`configure`]; a word without `=` is refused as an unknown key.
///
/// ```
/// let grpo_lambda = grpo_lambda::methods::parse("grpo_lambda", "lambda=0.9 style=both").unwrap();
/// assert_eq!(grpo_lambda.settings.number("lambda"), 0.9);
/// assert!(grpo_lambda::methods::parse("grpo", "lambda=0.9").is_err()); // GRPO has no lambda
/// ```
pub fn parse(name: &str, overrides: &str) -> Result<Configured, SettingError> {
    let pairs: Vec<_> = overrides
        .split_whitespace()
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    configure(name, &pairs)
}

/// The loss of a batch with its gradient, response by response in flat order.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchLoss {
    /// The loss to be minimised.
    pub value: f64,
    /// Advantage of every token.
    pub advantages: Vec<Vec<f64>>,
    /// `d loss / d log pi(a_t|s_t)` of every token.
    pub dlogps: Vec<Vec<f64>>,
    /// Merged metrics.
    pub metrics: Metrics,
}

/// Evaluates a method on a whole batch at current log-probabilities, flat order.
///
/// # Panics
/// On shapes [`crate::check::group`] would refuse.
pub fn evaluate(method: &dyn Method, batch: &[Group], logps: &[Vec<f64>]) -> BatchLoss {
    evaluate_around(method, batch, logps, logps)
}

/// [`evaluate`] where stopped gradients hold the numbers they have at log-probabilities `frozen`.
///
/// # Panics
/// As [`evaluate`].
pub fn evaluate_around(
    method: &dyn Method,
    batch: &[Group],
    logps: &[Vec<f64>],
    frozen: &[Vec<f64>],
) -> BatchLoss {
    let (logps, frozen) = (rows_by_group(batch, logps), rows_by_group(batch, frozen));
    let mut total =
        BatchLoss { value: 0.0, advantages: Vec::new(), dlogps: Vec::new(), metrics: Metrics::default() };
    for share in shares(method, batch, &logps, &frozen) {
        total.value += share.value;
        total.metrics.merge(&share.metrics);
        total.dlogps.extend(share.dlogps);
        total.advantages.extend(share.advantages);
    }
    total
}

/// Rows in flat order, group by group.
fn rows_by_group<'a>(batch: &[Group], rows: &'a [Vec<f64>]) -> Vec<&'a [Vec<f64>]> {
    let responses: usize = batch.iter().map(|g| g.responses.len()).sum();
    assert_eq!(rows.len(), responses, "one row of log-probabilities per response");
    let mut rest = rows;
    let by_group = |g: &Group| {
        let (own, after) = rest.split_at(g.responses.len());
        rest = after;
        own
    };
    batch.iter().map(by_group).collect()
}

/// The share of every group in the loss of a batch, with its gradient: they add up to [`evaluate`] of the whole.
///
/// `logps[g]` holds the rows of group `g`.
///
/// # Panics
/// On shapes [`crate::check::group`] would refuse.
pub fn evaluate_groups(method: &dyn Method, batch: &[Group], logps: &[&[Vec<f64>]]) -> Vec<BatchLoss> {
    shares(method, batch, logps, logps)
}

fn shares(
    method: &dyn Method,
    batch: &[Group],
    logps: &[&[Vec<f64>]],
    frozen: &[&[Vec<f64>]],
) -> Vec<BatchLoss> {
    assert_eq!(logps.len(), batch.len(), "the log-probabilities of every group");
    let mut credits = method.credit(batch).into_iter();
    let share = |g: usize| {
        let (group, logps, frozen) = (&batch[g], logps[g], frozen[g]);
        assert_eq!(logps.len(), group.responses.len(), "one row of log-probabilities per response");
        let metrics = batch_metrics(std::slice::from_ref(group));
        let mut share = BatchLoss { value: 0.0, advantages: Vec::new(), dlogps: Vec::new(), metrics };
        let rows = logps.iter().zip(frozen);
        for ((response, credit), (logps, frozen)) in group.responses.iter().zip(credits.by_ref()).zip(rows) {
            let loss = method.loss_around(response, &credit, logps, frozen);
            share.value += loss.value;
            share.metrics.merge(&loss.metrics);
            share.dlogps.push(loss.dlogps);
            share.advantages.push(credit.advantages);
        }
        share
    };
    (0..batch.len()).map(share).collect()
}

/// The metrics that belong to groups rather than responses.
pub fn batch_metrics(batch: &[Group]) -> Metrics {
    let known = |g: &Group| g.responses.iter().filter_map(|r| r.reward).collect::<Vec<_>>();
    Metrics {
        groups: batch.len(),
        zero_variance_groups: batch.iter().filter(|g| crate::advantage::all_equal(&known(g))).count(),
        ungraded: batch.iter().flat_map(|g| &g.responses).filter(|r| r.reward.is_none()).count(),
        ..Metrics::default()
    }
}
