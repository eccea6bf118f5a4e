//! The recorded numbers, and their batches as groups of responses.

use grpo_lambda::group::{Group, Response};
use grpo_lambda::padded;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) type Table = Vec<Vec<f64>>;

#[derive(Deserialize)]
pub(crate) struct Recorded {
    pub(crate) advantages: Section<AdvantageBatch, AdvantageCase>,
    pub(super) losses: Section<LossBatch, LossCase>,
    pub(super) kl: Section<KlBatch, KlCase>,
    pub(super) reductions: Section<ReductionBatch, ReductionCase>,
}

#[derive(Deserialize)]
pub(crate) struct Section<B, C> {
    pub(crate) batches: BTreeMap<usize, B>,
    pub(crate) cases: Vec<C>,
}

#[derive(Deserialize)]
pub(crate) struct AdvantageBatch {
    pub(crate) token_level_rewards: Table,
    pub(super) response_mask: Table,
    pub(super) index: Vec<String>,
    pub(super) values: Table,
    pub(super) reward_baselines: Vec<f64>,
    pub(super) old_log_probs: Table,
    pub(super) sum_pi_squared: Table,
    pub(super) acc: Vec<f64>,
    pub(super) fmt: Vec<f64>,
}

#[derive(Deserialize)]
pub(crate) struct AdvantageCase {
    pub(crate) estimator: String,
    pub(crate) batch: usize,
    pub(crate) kwargs: BTreeMap<String, Value>,
    pub(super) config: Option<BTreeMap<String, Value>>,
    pub(super) weighted: bool,
    pub(crate) advantages: Option<Table>,
}

#[derive(Deserialize)]
pub(super) struct LossBatch {
    pub(super) old_log_prob: Table,
    pub(super) log_prob: Table,
    pub(super) advantages: Table,
    pub(super) response_mask: Table,
    pub(super) rollout_is_weights: Option<Table>,
}

#[derive(Deserialize)]
pub(super) struct LossCase {
    pub(super) loss_mode: String,
    pub(super) batch: usize,
    pub(super) loss_agg_mode: String,
    pub(super) config: BTreeMap<String, f64>,
    pub(super) policy_loss_config: Option<BTreeMap<String, Value>>,
    pub(super) global_batch_info: Option<BTreeMap<String, f64>>,
    pub(super) loss: f64,
    pub(super) gradient: Table,
}

#[derive(Deserialize)]
pub(super) struct KlBatch {
    pub(super) logprob: Table,
    pub(super) ref_logprob: Table,
}

#[derive(Deserialize)]
pub(super) struct KlCase {
    pub(super) kl_penalty: String,
    pub(super) batch: usize,
    pub(super) values: Table,
    pub(super) slopes: Table,
}

#[derive(Deserialize)]
pub(super) struct ReductionBatch {
    pub(super) values: Table,
    pub(super) mask: Table,
}

#[derive(Deserialize)]
pub(super) struct ReductionCase {
    pub(super) mode: String,
    pub(super) batch: usize,
    pub(super) kwargs: BTreeMap<String, f64>,
    pub(super) loss: f64,
    pub(super) gradient: Table,
}

pub(crate) fn recorded() -> Recorded {
    crate::unpacked(include_bytes!("../../fixtures/verl.json.gz"))
}

/// The slots of each row that hold a token of the policy.
pub(super) fn masks(mask: &Table) -> Vec<Vec<bool>> {
    mask.iter().map(|row| row.iter().map(|m| *m != 0.0).collect()).collect()
}

/// The tokens of the policy in each row. A row without one stands as one masked token, which counts in the number of responses.
pub(super) fn tokens(table: &Table, masks: &[Vec<bool>]) -> Table {
    let row = |(row, mask): (&Vec<f64>, &Vec<bool>)| match mask.contains(&true) {
        true => padded::compress(row, mask),
        false => vec![-1.0],
    };
    table.iter().zip(masks).map(row).collect()
}

/// Rows as responses; one without tokens was cut off, and is masked with `mask_truncated=true`.
pub(super) fn responses(old: &Table, masks: &[Vec<bool>]) -> Vec<Response> {
    let response = |(old, mask): (Vec<f64>, &Vec<bool>)| Response {
        truncated: !mask.contains(&true),
        ..Response::graded(old, 0.0)
    };
    tokens(old, masks).into_iter().zip(masks).map(response).collect()
}

/// Responses by the name of their group, and the rows they come from, in the order of the groups.
pub(super) fn grouped(responses: Vec<Response>, index: &[String]) -> (Vec<Group>, Vec<usize>) {
    let mut groups: BTreeMap<&str, (Group, Vec<usize>)> = BTreeMap::new();
    for (row, (response, name)) in responses.into_iter().zip(index).enumerate() {
        let (group, rows) = groups.entry(name).or_default();
        group.responses.push(response);
        rows.push(row);
    }
    let (groups, rows): (Vec<Group>, Vec<Vec<usize>>) = groups.into_values().unzip();
    (groups, rows.concat())
}
