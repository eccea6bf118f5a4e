//! One response's share of an objective, with its gradient.

use super::Objective;
use crate::group::Response;
use crate::method::{Credit, Loss, TokenTerm};
use crate::metrics::Metrics;
use crate::ratio::{LogProbs, SurrogateInput};
use crate::surrogate::{LOG_RATIO_LIMIT, Region, TokenLogps, exp_bounded};

/// The loss of one response at `logps`, its gradient and metrics.
pub(super) fn of_response(
    objective: &Objective,
    response: &Response,
    credit: &Credit,
    logps: &[f64],
    frozen: &[f64],
) -> Loss {
    let len = response.len();
    assert!(
        logps.len() == len && credit.advantages.len() == len && credit.weights.len() == len,
        "a response of {len} tokens with {} log-probabilities, {} advantages, {} weights",
        logps.len(),
        credit.advantages.len(),
        credit.weights.len()
    );
    if credit.weights.iter().all(|&w| w == 0.0) {
        // Masked: what stands in its slots, be it no number, is not looked at.
        return Loss { dlogps: vec![0.0; len], ..Loss::default() };
    }
    let (old, eligible) = (response.old_logps.as_slice(), credit.eligible.as_deref());
    let logps = LogProbs { logps, old, frozen, advantages: &credit.advantages, eligible };
    let mut input = objective.ratio.forward(&logps);
    let divisor = mean_weight(objective, response, logps.eligible);
    let correction = held_weights(objective, response, &credit.advantages, frozen);
    let scale = |t: usize| correction.as_ref().map_or(1.0, |c| c[t]) / divisor;
    let term = policy_term(objective, &logps, &mut input, credit, scale);
    let dlogps = objective.ratio.backward(&logps, input, term.slopes, &term.values);
    let mut loss = Loss { value: 0.0, dlogps, metrics: term.metrics };
    add_kl(objective, response, credit, &logps, &mut loss);
    loss.value = loss.metrics.policy_loss + loss.metrics.kl_loss;
    loss
}

/// The terms of every token of a response, before the weights.
pub(super) fn of_tokens(
    objective: &Objective,
    response: &Response,
    credit: &Credit,
    logps: &[f64],
) -> Vec<TokenTerm> {
    if response.is_empty() {
        return Vec::new();
    }
    let (old, eligible) = (response.old_logps.as_slice(), credit.eligible.as_deref());
    let logps = LogProbs { logps, old, frozen: logps, advantages: &credit.advantages, eligible };
    let input = objective.ratio.forward(&logps);
    let divisor = mean_weight(objective, response, logps.eligible);
    let correction = held_weights(objective, response, &credit.advantages, logps.frozen);
    let terms =
        objective.kl.map(|(kl, _)| kl.of_response(logps.logps, logps.frozen, old, reference(response)));
    let of_token = |t: usize| {
        let (a, z) = (credit.advantages[t], input.z[t]);
        let at = TokenLogps { logp: logps.logps[t], old: old[t], frozen: logps.logps[t] };
        let token = objective.surrogate.of_logps(&at, a).unwrap_or_else(|| objective.surrogate.at(z, a));
        let factor = input.factors.as_ref().map_or(1.0, |f| f[t]);
        let loss = correction.as_ref().map_or(1.0, |c| c[t]) * factor * token.loss.value / divisor;
        let kl = terms.as_ref().map_or(0.0, |terms| terms[t].value);
        TokenTerm { loss, ratio: token.ratio, kl, region: token.region }
    };
    (0..response.len()).map(of_token).collect()
}

/// The held weight of every token's policy loss: the correction of the sampler's mismatch and the off-policy mask; none where both are off.
fn held_weights(
    objective: &Objective,
    response: &Response,
    advantages: &[f64],
    logps: &[f64],
) -> Option<Vec<f64>> {
    let correction = objective.correction.map(|correction| correction.weights(response));
    let Some(mask) = objective.off_policy else { return correction };
    let mut weights = correction.unwrap_or_else(|| vec![1.0; response.len()]);
    mask.apply(response, advantages, logps, &mut weights);
    Some(weights)
}

/// The divisor of a response's policy term: the mean over its tokens of the weight they would have on-policy, at
/// the log-probabilities that sampled it and advantage 1. Constant in the parameters; 1 where the objective does not ask for it.
fn mean_weight(objective: &Objective, response: &Response, eligible: Option<&[bool]>) -> f64 {
    if !objective.unit_mean {
        return 1.0;
    }
    let old = &response.old_logps;
    let values = objective.assignment.profile(response.len());
    let logps = LogProbs { logps: old, old, frozen: old, advantages: &values, eligible };
    let input = objective.ratio.forward(&logps);
    let slopes = match &input.factors {
        Some(factors) => factors.iter().zip(&values).map(|(f, a)| f * a).collect(),
        None => values.clone(),
    };
    let weights = objective.ratio.backward(&logps, input, slopes, &values);
    weights.iter().sum::<f64>() / response.len() as f64
}

/// The policy term of a response, as the ratio takes it back to log-probabilities.
struct PolicyTerm {
    /// `w_t f_t dl/dz_t`, length `T`.
    slopes: Vec<f64>,
    /// `w_t l_t`; empty where there is no factor `f`.
    values: Vec<f64>,
    metrics: Metrics,
}

/// The losses of all tokens, each times its `scale`. Takes the buffer of `input`.
fn policy_term(
    objective: &Objective,
    logps: &LogProbs,
    input: &mut SurrogateInput,
    credit: &Credit,
    scale: impl Fn(usize) -> f64,
) -> PolicyTerm {
    let mut metrics = Metrics {
        log_ratio_max: largest(logps.logps.iter().zip(logps.old).map(|(new, old)| new - old)),
        clipped_low: input.clipped.0,
        clipped_high: input.clipped.1,
        ..Metrics::default()
    };
    // The buffer holds exp(z), then d loss/d z. The exponentials have a loop of their own: a call
    // in the loop below would push its sums out of the registers at every token.
    let mut slopes = std::mem::take(&mut input.buffer);
    for (e, &z) in slopes.iter_mut().zip(&input.z) {
        *e = exp_bounded(z);
    }
    let surrogate = objective.surrogate;
    let len = credit.weights.len();
    let mut values = vec![0.0; if input.factors.is_some() { len } else { 0 }];
    for t in 0..len {
        if credit.weights[t] == 0.0 {
            slopes[t] = 0.0;
            continue;
        }
        let weight = credit.weights[t] * scale(t);
        let (z, a) = (input.z[t], credit.advantages[t]);
        let at = TokenLogps { logp: logps.logps[t], old: logps.old[t], frozen: logps.frozen[t] };
        let token = surrogate.of_logps(&at, a).unwrap_or_else(|| surrogate.at_exp(z, slopes[t], a));
        let factor = input.factors.as_ref().map_or(1.0, |f| f[t]);
        slopes[t] = weight * factor * token.loss.slope;
        metrics.policy_loss += weight * factor * token.loss.value;
        if input.factors.is_some() {
            values[t] = weight * token.loss.value;
        }
        let log_factor = input.log_factors.as_ref().map_or(0.0, |f| f[t]);
        metrics.tokens += 1;
        metrics.clipped_low += usize::from(token.region == Region::Low);
        metrics.clipped_high += usize::from(token.region == Region::High);
        metrics.saturated += usize::from(z.max(log_factor) > LOG_RATIO_LIMIT);
        metrics.trace_log_ratio_max = metrics.trace_log_ratio_max.max(z.abs()).max(log_factor.abs());
        metrics.ratio_sum += token.ratio;
    }
    PolicyTerm { slopes, values, metrics }
}

/// Adds the KL term, where the objective has one.
fn add_kl(objective: &Objective, response: &Response, credit: &Credit, logps: &LogProbs, loss: &mut Loss) {
    let LogProbs { logps, frozen, .. } = *logps;
    let Some((kl, beta)) = objective.kl else { return };
    let reference = reference(response);
    let (kl, ratio) = kl.of_token(logps, &response.old_logps);
    let (beta, before) = (beta * ratio.unwrap_or(1.0), loss.metrics.kl_loss);
    for t in 0..logps.len() {
        let weight = credit.weights[t];
        if weight == 0.0 {
            continue;
        }
        let partial = kl.at_around(logps[t], frozen[t], response.old_logps[t], reference[t]);
        loss.metrics.kl_sum += ratio.unwrap_or(1.0) * partial.value;
        loss.metrics.kl_loss += weight * beta * partial.value;
        loss.dlogps[t] += weight * beta * partial.slope;
    }
    if ratio.is_some() {
        // The ratio of the response is exp of the mean log-ratio: each token moves every term a little.
        let share = (loss.metrics.kl_loss - before) / logps.len() as f64;
        loss.dlogps.iter_mut().for_each(|dlogp| *dlogp += share);
    }
}

/// The reference of a KL term; the check of a batch refuses a response that lacks it.
fn reference(response: &Response) -> &[f64] {
    response.ref_logps.as_ref().expect("a KL term needs reference log-probabilities")
}

/// The largest magnitude, 0 of nothing. As bits, which without a sign are ordered like the numbers and compare faster.
fn largest(values: impl Iterator<Item = f64>) -> f64 {
    f64::from_bits(values.map(|x| x.abs().to_bits()).max().unwrap_or(0))
}
