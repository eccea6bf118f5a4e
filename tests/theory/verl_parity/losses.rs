//! The policy losses with their gradients.

use super::Outcome;
use super::recorded::{LossBatch, LossCase, Recorded, masks, responses, tokens};
use crate::laboratory::gap;
use grpo_lambda::group::Group;
use grpo_lambda::methods;
use grpo_lambda::padded;
use serde_json::Value;

const KIND: &str = "losses";
const COVARIANCE: &str = "verl chooses tokens by the covariance of log pi and A at every update (at random in clip_cov); no method here does";
const WHOLE: &str = "verl uses the capped product of a response's ratios as a weight; no method here does";
const GEOMETRIC: &str =
    "verl uses the geometric mean of a response's sampler weights, this library the weight of each token";

/// Method and settings without the reduction; none where no method here is it.
fn setting(case: &LossCase) -> Result<(&'static str, String), &'static str> {
    let number = |key: &str| case.config.get(key).copied();
    let low_high = || {
        let bound = |key| number(key).or(number("clip_ratio")).expect("given");
        (bound("clip_ratio_low"), bound("clip_ratio_high"))
    };
    let (low, high) = if case.config.contains_key("clip_ratio") { low_high() } else { (0.2, 0.2) };
    let vanilla = || {
        let cap = number("clip_ratio_c").expect("given");
        ("grpo", format!("epsilon_low={low} epsilon_high={high} clip=two_sided clip_max={cap}"))
    };
    let dppo = |divergence: &str| {
        let cap = number("clip_ratio_c").expect("given");
        ("dppo", format!("divergence={divergence} divergence_low={low} divergence_high={high} cap={cap}"))
    };
    Ok(match case.loss_mode.as_str() {
        "vanilla" => vanilla(),
        "dppo_tv" => dppo("tv"),
        "dppo_kl" => dppo("kl"),
        "gspo" => ("gspo_token", format!("epsilon_low={low} epsilon_high={high}")),
        "sapo" => ("sapo", String::new()),
        "gpg" => ("gpg", String::new()),
        "geo_mean" => ("gmpo", format!("log_low={low} log_high={high}")),
        "dro" => ("dro", "pull=0.5".to_owned()),
        "cispo" => ("cispo", format!("clip_form=interval epsilon_low={low} epsilon_high={high}")),
        "bypass_mode" => {
            let rc = &case.policy_loss_config.as_ref().expect("given")["rc"];
            match (rc["loss_type"].as_str(), rc["rollout_is"].as_str()) {
                (Some("ppo_clip"), _) => vanilla(),
                (_, Some("token")) => ("cispo", "cap=2".to_owned()),
                _ => return Err(WHOLE),
            }
        }
        "clip_cov" | "kl_cov" => return Err(COVARIANCE),
        other => panic!("loss {other}"),
    })
}

/// The reduction in words, and what theirs is of it.
fn reduction(case: &LossCase, batch: &LossBatch) -> (String, f64) {
    let masks = masks(&batch.response_mask);
    let counts: Vec<f64> = masks.iter().map(|m| m.iter().filter(|m| **m).count() as f64).collect();
    let (trained, all): (f64, f64) =
        (counts.iter().sum(), counts.iter().filter(|c| **c > 0.0).count() as f64);
    let info = |key: &str| case.global_batch_info.as_ref().and_then(|info| info.get(key)).copied();
    let workers = info("dp_size").unwrap_or(1.0);
    let responses = all * workers / info("global_batch_size").unwrap_or(all);
    match case.loss_agg_mode.as_str() {
        _ if case.loss_mode == "sapo" => ("response_mean".to_owned(), responses),
        // The mean over rows, those without tokens among them.
        _ if case.loss_mode == "geo_mean" => ("response_mean".to_owned(), 1.0),
        "token-mean" => {
            ("token_mean".to_owned(), trained * workers / info("batch_num_tokens").unwrap_or(trained))
        }
        "token-sum" => ("response_sum".to_owned(), all),
        "seq-mean-token-sum" => ("response_sum".to_owned(), responses),
        "seq-mean-token-mean" => ("response_mean".to_owned(), responses),
        "seq-mean-token-sum-norm" => {
            let width = info("loss_scale_factor").unwrap_or(masks[0].len() as f64);
            (format!("constant max_length={width}"), responses)
        }
        other => panic!("reduction {other}"),
    }
}

/// The batch as one group, its log-probabilities and advantages, and which rows they are.
struct Ours {
    group: Group,
    logps: Vec<Vec<f64>>,
    advantages: Vec<Vec<f64>>,
    rows: Vec<usize>,
}

/// With the rows without tokens where `empty`, else without.
fn batch_of(batch: &LossBatch, empty: bool) -> Ours {
    let masks = masks(&batch.response_mask);
    let rows: Vec<usize> = (0..masks.len()).filter(|&i| empty || masks[i].contains(&true)).collect();
    let pick = |table: Vec<Vec<f64>>| rows.iter().map(|&i| table[i].clone()).collect::<Vec<_>>();
    let mut all = responses(&batch.old_log_prob, &masks);
    if let Some(weights) = &batch.rollout_is_weights {
        for (response, weights) in all.iter_mut().zip(tokens(weights, &masks)) {
            let sampler = response.old_logps.iter().zip(weights).map(|(old, w)| old - w.ln()).collect();
            response.extra_inputs.sampler_logps = Some(sampler);
        }
    }
    let responses = rows.iter().map(|&i| all[i].clone()).collect();
    let logps = pick(tokens(&batch.log_prob, &masks));
    let advantages = pick(tokens(&batch.advantages, &masks));
    Ours { group: Group { responses }, logps, advantages, rows }
}

/// The largest difference of loss and gradient.
fn difference(case: &LossCase, batch: &LossBatch, method: &str, settings: &str, factor: f64) -> f64 {
    let masks = masks(&batch.response_mask);
    let ours = batch_of(batch, case.loss_mode == "geo_mean");
    let method = methods::parse(method, settings).unwrap_or_else(|e| panic!("{settings}: {e}")).method;
    let credits = method.credit_given(std::slice::from_ref(&ours.group), ours.advantages.clone());
    let (mut loss, mut worst) = (0.0, 0.0f64);
    for (i, (response, credit)) in ours.group.responses.iter().zip(&credits).enumerate() {
        let share = method.loss(response, credit, &ours.logps[i]);
        loss += factor * share.value;
        let row = ours.rows[i];
        if masks[row].contains(&true) {
            let scaled: Vec<f64> = share.dlogps.iter().map(|g| factor * g).collect();
            let theirs = &case.gradient[row];
            worst = worst.max(gap(&padded::scatter(&scaled, &masks[row], 0.0), theirs));
        }
    }
    worst.max((loss - case.loss).abs())
}

fn of_case(case: &LossCase, batch: &LossBatch) -> Outcome {
    let variant = |key: &str| case.policy_loss_config.as_ref()?.get("rc")?.get(key).and_then(Value::as_str);
    let words = match (variant("loss_type"), variant("rollout_is")) {
        (Some(kind), Some(unit)) => format!("{} {kind} {unit}", case.loss_mode),
        (Some(kind), None) => format!("{} {kind}", case.loss_mode),
        _ => case.loss_mode.clone(),
    };
    let outcome = |setting: String, difference, reason| Outcome {
        kind: KIND,
        words: words.clone(),
        setting,
        difference,
        reason,
    };
    let (method, settings) = match setting(case) {
        Ok(found) => found,
        Err(reason) => return outcome(String::new(), None, Some(reason)),
    };
    let (reduction, factor) = reduction(case, batch);
    // In bypass mode the weights that are handed in are ignored.
    let weighted = batch.rollout_is_weights.is_some() && case.loss_mode != "bypass_mode";
    let correction = if weighted { " correction=token_truncate correction_high=1000" } else { "" };
    let shown = format!("{method} {settings}").trim_end().to_owned();
    let settings = format!("{settings} reduction={reduction} mask_truncated=true{correction}");
    let found = difference(case, batch, method, &settings, factor);
    let geometric = (weighted && case.loss_mode == "geo_mean").then_some(GEOMETRIC);
    outcome(shown, Some(found), geometric)
}

pub(super) fn outcomes(verl: &Recorded) -> Vec<Outcome> {
    let section = &verl.losses;
    section.cases.iter().map(|case| of_case(case, &section.batches[&case.batch])).collect()
}
