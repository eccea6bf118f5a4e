//! A method on a whole batch: the loss, its gradient and its metrics.

use super::{Credit, Method};
use crate::advantage::all_equal;
use crate::group::{Group, by_group};
use crate::metrics::Metrics;

/// The loss of a batch with its gradient, response by response in flat order.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchLoss {
    /// The loss, to be minimised: the sum of the responses' shares.
    pub value: f64,
    /// Advantage of every token, response by response.
    pub advantages: Vec<Vec<f64>>,
    /// `d loss / d log pi(a_t|s_t)` of every token.
    pub dlogps: Vec<Vec<f64>>,
    /// Metrics of all responses and groups, merged.
    pub metrics: Metrics,
}

/// Evaluates a method on a whole batch at current log-probabilities, flat order.
///
/// # Panics
/// On shapes [`crate::check::group`] would refuse.
pub fn evaluate(method: &dyn Method, batch: &[Group], logps: &[Vec<f64>]) -> BatchLoss {
    let responses: usize = batch.iter().map(|g| g.responses.len()).sum();
    assert_eq!(logps.len(), responses, "one row of log-probabilities per response");
    let rows: Vec<&[Vec<f64>]> = by_group(batch, logps).map(|(_, own)| own).collect();
    let mut total =
        BatchLoss { value: 0.0, advantages: Vec::new(), dlogps: Vec::new(), metrics: Metrics::default() };
    for share in evaluate_groups(method, batch, &rows) {
        total.value += share.value;
        total.metrics.merge(&share.metrics);
        total.dlogps.extend(share.dlogps);
        total.advantages.extend(share.advantages);
    }
    total
}

/// The share of every group in the loss of a batch, with its gradient: they add up to [`evaluate`] of the whole.
///
/// `logps[g]` holds the rows of group `g`.
///
/// # Panics
/// On shapes [`crate::check::group`] would refuse.
pub fn evaluate_groups(method: &dyn Method, batch: &[Group], logps: &[&[Vec<f64>]]) -> Vec<BatchLoss> {
    shares(method, batch, method.credit(batch), logps)
}

/// [`evaluate_groups`] with advantages from elsewhere in place of the method's own, one list per response in flat order.
///
/// # Panics
/// On shapes [`crate::check::group`] would refuse.
pub fn evaluate_groups_given(
    method: &dyn Method,
    batch: &[Group],
    logps: &[&[Vec<f64>]],
    advantages: Vec<Vec<f64>>,
) -> Vec<BatchLoss> {
    shares(method, batch, method.credit_given(batch, advantages), logps)
}

fn shares(
    method: &dyn Method,
    batch: &[Group],
    credits: Vec<Credit>,
    logps: &[&[Vec<f64>]],
) -> Vec<BatchLoss> {
    assert_eq!(logps.len(), batch.len(), "the log-probabilities of every group");
    let mut credits = credits.into_iter();
    let share = |(group, logps): (&Group, &&[Vec<f64>])| {
        assert_eq!(logps.len(), group.responses.len(), "one row of log-probabilities per response");
        let of_group: Vec<Credit> = credits.by_ref().take(group.responses.len()).collect();
        let metrics = credited_metrics(std::slice::from_ref(group), &of_group);
        let mut share = BatchLoss { value: 0.0, advantages: Vec::new(), dlogps: Vec::new(), metrics };
        for ((response, credit), logps) in group.responses.iter().zip(of_group).zip(*logps) {
            let loss = method.loss(response, &credit, logps);
            share.value += loss.value;
            share.metrics.merge(&loss.metrics);
            share.dlogps.push(loss.dlogps);
            share.advantages.push(credit.advantages);
        }
        share
    };
    batch.iter().zip(logps).map(share).collect()
}

/// [`batch_metrics`] of a batch with its credit: where a method compares the parts of rewards, a group whose rewards agree is not without variance.
pub fn credited_metrics(batch: &[Group], credits: &[Credit]) -> Metrics {
    let mut metrics = batch_metrics(batch);
    let by_parts = |(group, credits): &(&Group, &[Credit])| {
        let differs = |part: usize| {
            let values = group
                .responses
                .iter()
                .filter_map(|r| r.extra_inputs.reward_parts.as_ref()?.get(part).copied());
            !all_equal(&values.collect::<Vec<_>>())
        };
        let parts =
            group.responses.iter().filter_map(|r| Some(r.extra_inputs.reward_parts.as_ref()?.len())).max();
        let credited = credits.iter().flat_map(|credit| &credit.advantages).any(|a| *a != 0.0);
        all_equal(&known(group)) && credited && (0..parts.unwrap_or(0)).any(differs)
    };
    metrics.zero_variance_groups -= by_group(batch, credits).filter(by_parts).count();
    metrics
}

/// The rewards that are known.
fn known(group: &Group) -> Vec<f64> {
    group.responses.iter().filter_map(|r| r.reward).collect()
}

/// The metrics that belong to groups rather than responses.
pub fn batch_metrics(batch: &[Group]) -> Metrics {
    Metrics {
        groups: batch.len(),
        zero_variance_groups: batch.iter().filter(|g| all_equal(&known(g))).count(),
        ungraded: batch.iter().flat_map(|g| &g.responses).filter(|r| r.reward.is_none()).count(),
        ..Metrics::default()
    }
}
