//! The estimators of advantages.

use super::Outcome;
use super::recorded::{AdvantageBatch, AdvantageCase, Recorded, Table, grouped, masks, responses, tokens};
use crate::laboratory::{gap, method};
use grpo_lambda::group::{ExtraInputs, Response};
use serde_json::Value;

const KIND: &str = "advantages";
const ALONE: &str = "a group of one response gets its reward as the advantage in verl, and 0 here";
const DENSE: &str = "verl's case has rewards for single tokens; a response here has one reward";
const HOLES: &str = "verl counts positions by the slots of a padded row, this library by the trained tokens, as verl's tir_optimal_token_baseline does";
const PARTS: &str = "this library ignores the parts of a masked response's reward, but not the reward itself";
const WEIGHTED: &str =
    "verl weights energies by squared importance weights of the sampler; no setting here does";

/// Method, settings and the words of the case.
fn setting(case: &AdvantageCase) -> (&'static str, String, String) {
    let number = |key: &str| case.kwargs.get(key).and_then(Value::as_f64);
    let of_config = |key: &str| case.config.as_ref().and_then(|c| c.get(key)).cloned();
    let scaled =
        |on: Option<bool>| if on == Some(false) { "scale=none" } else { "std_preset=verl" }.to_owned();
    let flag = case.kwargs.get("norm_adv_by_std_in_grpo").and_then(Value::as_bool);
    let tail = case.kwargs.get("handle_zero_tail").and_then(Value::as_bool) != Some(false);
    let (method, settings) = match case.estimator.as_str() {
        "gae" => {
            let (gamma, lambda) = (number("gamma").expect("given"), number("lam").expect("given"));
            ("ppo", format!("gamma={gamma} lambda={lambda}"))
        }
        "grpo" | "grpo_vectorized" => ("grpo", scaled(flag)),
        "grpo_passk" => {
            ("grpo_passk", scaled(of_config("norm_adv_by_std_in_grpo").and_then(|v| v.as_bool())))
        }
        "reinforce_plus_plus" => {
            let gamma = of_config("gamma").and_then(|v| v.as_f64()).expect("given");
            ("reinforce_pp", format!("gamma={gamma}"))
        }
        "reinforce_plus_plus_baseline" => ("reinforce_pp_baseline", String::new()),
        "rloo" | "rloo_vectorized" => ("rloo", String::new()),
        "opo" => ("opo", String::new()),
        "remax" => ("remax", String::new()),
        "gpg" => ("gpg", format!("divisor={}", number("f_norm").unwrap_or(1.0))),
        "optimal_token_baseline" | "tir_optimal_token_baseline" => {
            ("optimal_token_baseline", format!("tail={}", if tail { "zero" } else { "baseline" }))
        }
        "gdpo" if case.config.is_some() => ("gdpo", "weight_2=0.5".to_owned()),
        "gdpo" => ("gdpo", String::new()),
        other => panic!("estimator {other}"),
    };
    (method, settings, case.estimator.clone())
}

/// The responses of a batch with their rewards and every extra input that an estimator asks for.
fn rows(case: &AdvantageCase, batch: &AdvantageBatch) -> Vec<Response> {
    let masks = masks(&batch.response_mask);
    let (values, squares) = (tokens(&batch.values, &masks), tokens(&batch.sum_pi_squared, &masks));
    let parts = |i: usize, reward: f64| match (case.estimator.as_str(), &case.config) {
        ("gdpo", Some(_)) => vec![batch.acc[i], batch.fmt[i]],
        ("gdpo", None) => vec![reward],
        _ => vec![batch.reward_baselines[i]],
    };
    let with_inputs = |(i, mut response): (usize, Response)| {
        let reward = batch.token_level_rewards[i].iter().sum();
        response.reward = Some(reward);
        response.extra_inputs = ExtraInputs {
            values: Some(values[i].clone()),
            collisions: Some(squares[i].clone()),
            reward_parts: Some(parts(i, reward)),
            ..ExtraInputs::default()
        };
        response
    };
    responses(&batch.old_log_probs, &masks).into_iter().enumerate().map(with_inputs).collect()
}

/// Our advantages by row, compressed.
fn ours(case: &AdvantageCase, batch: &AdvantageBatch) -> Vec<Option<Vec<f64>>> {
    let (name, settings, _) = setting(case);
    let method = method(name, &format!("{settings} mask_truncated=true"));
    let mut rows: Vec<(usize, Response)> = rows(case, batch).into_iter().enumerate().collect();
    // A response without tokens weighs nothing in a mean weighted by length: it is left out.
    rows.retain(|(_, response)| case.estimator != "opo" || !response.truncated);
    let (names, responses): (Vec<usize>, Vec<Response>) = rows.into_iter().unzip();
    let index: Vec<String> = names.iter().map(|&i| batch.index[i].clone()).collect();
    let (groups, order) = grouped(responses, &index);
    let mut found = vec![None; batch.index.len()];
    for (credit, row) in method.credit(&groups).into_iter().zip(order) {
        found[names[row]] = Some(credit.advantages);
    }
    found
}

/// Why the whole case is defined otherwise; none where at most a group of one response is.
fn reason(case: &AdvantageCase) -> Option<&'static str> {
    let estimator = case.estimator.as_str();
    let baseline = estimator.ends_with("optimal_token_baseline");
    let dense = ["gae", "reinforce_plus_plus", "remax"].contains(&estimator) || baseline;
    match case.batch {
        _ if baseline && case.weighted => Some(WEIGHTED),
        5 if dense => Some(DENSE),
        5 if estimator == "gdpo" => Some(PARTS),
        2 if estimator == "optimal_token_baseline" => Some(HOLES),
        3 if ["reinforce_plus_plus_baseline", "gdpo"].contains(&estimator) => Some(ALONE),
        _ => None,
    }
}

/// The largest difference over the tokens of the rows that `chosen` names.
fn difference(
    case: &AdvantageCase,
    theirs: &Table,
    batch: &AdvantageBatch,
    chosen: impl Fn(usize) -> bool,
) -> f64 {
    let masks = masks(&batch.response_mask);
    let compare = |(i, ours): (usize, Option<Vec<f64>>)| {
        let ours = ours.filter(|_| chosen(i) && masks[i].contains(&true))?;
        Some(gap(&ours, &grpo_lambda::padded::compress(&theirs[i], &masks[i])))
    };
    ours(case, batch).into_iter().enumerate().filter_map(compare).fold(0.0, f64::max)
}

fn of_case(case: &AdvantageCase, batch: &AdvantageBatch) -> Vec<Outcome> {
    let (method, settings, words) = setting(case);
    let setting = format!("{method} {settings}").trim_end().to_owned();
    let outcome = |difference, reason| Outcome {
        kind: KIND,
        words: words.clone(),
        setting: setting.clone(),
        difference,
        reason,
    };
    let Some(theirs) = &case.advantages else {
        return vec![outcome(
            None,
            Some("a group of one response is an error in verl, and gets advantage 0 here"),
        )];
    };
    if let Some(reason) = reason(case) {
        return vec![outcome(Some(difference(case, theirs, batch, |_| true)), Some(reason))];
    }
    let size = |i: usize| batch.index.iter().filter(|name| **name == batch.index[i]).count();
    let mut outcomes = vec![outcome(Some(difference(case, theirs, batch, |i| size(i) > 1)), None)];
    let alone = difference(case, theirs, batch, |i| size(i) == 1);
    if alone > super::MET {
        outcomes.push(outcome(Some(alone), Some(ALONE)));
    }
    outcomes
}

pub(super) fn outcomes(verl: &Recorded) -> Vec<Outcome> {
    let section = &verl.advantages;
    section.cases.iter().flat_map(|case| of_case(case, &section.batches[&case.batch])).collect()
}
