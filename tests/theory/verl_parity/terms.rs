//! The estimators of the KL, and the reductions.

use super::Outcome;
use super::recorded::{KlBatch, KlCase, Recorded, ReductionBatch, ReductionCase, masks};
use crate::laboratory::gap;
use grpo_lambda::kl::Kl;
use grpo_lambda::reduction::Reduction;

const CUT: &str = "verl cuts the log-ratio at 20 and the value at 10, where its gradient is 0";
const NO_KL: &str = "verl uses |d| with the gradient of d^2 / 2; no setting here does";

fn estimator(words: &str) -> Option<(&'static str, Kl)> {
    Some(match words {
        "kl" | "k1" => ("kl=k1", Kl::K1),
        "mse" | "k2" | "mse+" | "k2+" => ("kl=k2", Kl::K2),
        "low_var_kl" | "k3" => ("kl=k3", Kl::K3),
        "abs" => ("kl=abs", Kl::Abs),
        "kl+" | "k1+" => ("kl=k1_k2", Kl::K1K2),
        "low_var_kl+" | "k3+" => ("kl=k3_k2", Kl::K3K2),
        "abs+" => return None,
        other => panic!("estimator {other}"),
    })
}

fn of_estimator(case: &KlCase, batch: &KlBatch) -> Vec<Outcome> {
    let outcome = |setting: &str, difference, reason| Outcome {
        kind: "KL",
        words: case.kl_penalty.clone(),
        setting: setting.to_owned(),
        difference,
        reason,
    };
    let Some((setting, kl)) = estimator(&case.kl_penalty) else {
        return vec![outcome("", None, Some(NO_KL))];
    };
    // The largest difference among the tokens that verl cuts, and among the others.
    let (mut cut, mut plain) = (None, 0.0f64);
    for (i, row) in batch.logprob.iter().enumerate() {
        for (t, &logp) in row.iter().enumerate() {
            let ours = kl.at(logp, logp, batch.ref_logprob[i][t]);
            let theirs = [case.values[i][t], case.slopes[i][t]];
            let found = gap(&[ours.value, ours.slope], &theirs);
            if matches!(kl, Kl::K3 | Kl::K3K2) && ours.value > 10.0 {
                cut = Some(found.max(cut.unwrap_or(0.0)));
            } else {
                plain = plain.max(found);
            }
        }
    }
    let mut outcomes = vec![outcome(setting, Some(plain), None)];
    outcomes.extend(cut.map(|found| outcome(setting, Some(found), Some(CUT))));
    outcomes
}

pub(super) fn kl(verl: &Recorded) -> Vec<Outcome> {
    verl.kl.cases.iter().flat_map(|case| of_estimator(case, &verl.kl.batches[&case.batch])).collect()
}

fn of_reduction(case: &ReductionCase, batch: &ReductionBatch) -> Outcome {
    let masks = masks(&batch.mask);
    let counts: Vec<usize> =
        masks.iter().map(|m| m.iter().filter(|m| **m).count()).filter(|n| *n > 0).collect();
    let (trained, all) = (counts.iter().sum::<usize>() as f64, counts.len() as f64);
    let given = |key: &str| case.kwargs.get(key).copied();
    let workers = given("dp_size").unwrap_or(1.0);
    let responses = all * workers / given("global_batch_size").unwrap_or(all);
    let width = given("loss_scale_factor").unwrap_or(masks[0].len() as f64);
    let (setting, reduction, factor) = match case.mode.as_str() {
        "token-mean" => {
            let factor = trained * workers / given("batch_num_tokens").unwrap_or(trained);
            ("reduction=token_mean", Reduction::TokenMean, factor)
        }
        "token-sum" => {
            ("reduction=response_sum, times the responses", Reduction::Constant(1.0), all * workers)
        }
        "seq-mean-token-sum" => ("reduction=response_sum", Reduction::Constant(1.0), responses),
        "seq-mean-token-mean" => ("reduction=response_mean", Reduction::PerResponse, responses),
        "seq-mean-token-sum-norm" => ("reduction=constant", Reduction::Constant(width), responses),
        other => panic!("reduction {other}"),
    };
    let lengths: Vec<Option<usize>> = counts.iter().map(|n| Some(*n)).collect();
    let mut weights = reduction.weights(&lengths).into_iter();
    let (mut loss, mut worst) = (0.0, 0.0f64);
    for (i, mask) in masks.iter().enumerate() {
        let weight = if mask.contains(&true) { factor * weights.next().expect("one each") } else { 0.0 };
        for (t, &trained) in mask.iter().enumerate() {
            let ours = if trained { weight } else { 0.0 };
            loss += ours * batch.values[i][t];
            worst = worst.max((ours - case.gradient[i][t]).abs());
        }
    }
    Outcome {
        kind: "reductions",
        words: case.mode.clone(),
        setting: setting.to_owned(),
        difference: Some(worst.max((loss - case.loss).abs())),
        reason: None,
    }
}

pub(super) fn reductions(verl: &Recorded) -> Vec<Outcome> {
    verl.reductions
        .cases
        .iter()
        .map(|case| of_reduction(case, &verl.reductions.batches[&case.batch]))
        .collect()
}
