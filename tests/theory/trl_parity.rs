//! Parity with Hugging Face TRL: losses, gradients and advantages recorded from its own code.
//!
//! `tests/fixtures/trl.json.gz` holds inputs and outputs with their versions; `tests/fixtures/trl_to_json.py` made it.

use crate::laboratory::advantages;
use crate::tolerance::{RECORDED_F32, RECORDED_F32_TINY_SPREAD, assert_within};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{self, Credit, Method};
use grpo_lambda::reduction::Reduction;
use serde::Deserialize;
use std::collections::BTreeMap;

type Table = Vec<Vec<f64>>;

#[derive(Deserialize)]
pub(crate) struct Recorded {
    versions: BTreeMap<String, String>,
    max_completion_length: f64,
    inputs: Inputs,
    masks: BTreeMap<String, Table>,
    losses: Vec<LossCase>,
    skipped: Vec<Skipped>,
    pub(crate) advantages: Vec<AdvantageCase>,
}

#[derive(Deserialize)]
struct Inputs {
    logps: Table,
    old_logps: Table,
    ref_logps: Table,
    advantages: Vec<f64>,
    advantages_per_token: Table,
    tool_mask: Table,
}

#[derive(Deserialize)]
struct LossCase {
    id: usize,
    config: Config,
    loss: f64,
    gradient: Table,
}

#[derive(Debug, Deserialize)]
struct Config {
    loss_type: String,
    beta: f64,
    epsilon: f64,
    epsilon_high: f64,
    level: String,
    delta: Option<f64>,
    bias_correction_kl: bool,
    mask: String,
    tool_mask: bool,
    per_token_adv: bool,
    on_policy: bool,
}

#[derive(Deserialize)]
struct Skipped {
    id: usize,
    reason: String,
}

#[derive(Deserialize)]
pub(crate) struct AdvantageCase {
    pub(crate) scale_rewards: String,
    pub(crate) set: String,
    pub(crate) rewards: Vec<Option<f64>>,
    pub(crate) num_generations: usize,
    pub(crate) advantages: Vec<f64>,
}

pub(crate) fn recorded() -> Recorded {
    crate::unpacked(include_bytes!("../fixtures/trl.json.gz"))
}

impl Config {
    /// The method under its settings; at sequence level GSPO.
    fn method(&self, max_length: f64) -> Box<dyn Method> {
        let name = match (self.level.as_str(), self.loss_type.as_str()) {
            ("sequence", _) => "gspo",
            (_, name) => name,
        };
        // TRL's epsilon_high of CISPO is the largest weight itself.
        let clip = match name {
            "cispo" => format!("cap={}", self.epsilon_high),
            _ => format!("epsilon_low={} epsilon_high={}", self.epsilon, self.epsilon_high),
        };
        let mut settings = format!(
            "{clip} beta={} kl={} mask_truncated=true max_length={max_length}",
            self.beta,
            if self.bias_correction_kl { "ratio_k3" } else { "k3" }
        );
        if let Some(delta) = self.delta {
            settings += &format!(" clip=two_sided clip_max={delta}");
        }
        settings += match self.loss_type.as_str() {
            "bnpo" | "dapo" | "cispo" => " reduction=token_mean",
            "dr_grpo" => " reduction=constant",
            "luspo" => " reduction=response_sum",
            _ => " reduction=response_mean",
        };
        methods::parse(name, &settings).expect("TRL's settings are within range").method
    }

    fn reduction(&self, max_length: f64) -> Reduction {
        match self.loss_type.as_str() {
            "grpo" => Reduction::PerResponse,
            "dr_grpo" => Reduction::Constant(max_length),
            // One micro-batch on one process: the local and the global token mean are the same.
            "bnpo" | "dapo" | "cispo" => Reduction::TokenMean,
            "luspo" => Reduction::Constant(1.0),
            other => panic!("loss type {other} should have been skipped"),
        }
    }
}

/// The number of tokens of each row of a case.
fn lengths(trl: &Recorded, config: &Config) -> Vec<usize> {
    trl.masks[&config.mask].iter().map(|row| row.iter().sum::<f64>() as usize).collect()
}

/// The rows of a case as a group. A padded row of TRL is a ragged response here. An empty one, which no method accepts, stands as a
/// response that was cut off and is masked: one token of weight 0 that still counts in the number of responses.
fn group(trl: &Recorded, config: &Config) -> Group {
    let old = if config.on_policy { &trl.inputs.logps } else { &trl.inputs.old_logps };
    let response = |(i, len): (usize, usize)| Response {
        ref_logps: Some(trl.inputs.ref_logps[i][..len.max(1)].to_vec()),
        truncated: len == 0,
        ..Response::graded(old[i][..len.max(1)].to_vec(), 0.0)
    };
    Group { responses: lengths(trl, config).into_iter().enumerate().map(response).collect() }
}

/// The method's credit with TRL's advantages, and without weight on tokens that a tool wrote.
fn credits(trl: &Recorded, config: &Config, method: &dyn Method, group: &Group) -> Vec<Credit> {
    let mut credits: Vec<Credit> = method.credit(std::slice::from_ref(group));
    for (i, credit) in credits.iter_mut().enumerate() {
        for t in 0..credit.advantages.len() {
            credit.advantages[t] = match config.per_token_adv {
                true => trl.inputs.advantages_per_token[i][t],
                false => trl.inputs.advantages[i],
            };
        }
    }
    if config.tool_mask {
        // Tokens written by a tool are no tokens of the policy: weights follow the number of the others.
        let lengths = lengths(trl, config);
        let active = |i: usize| (0..lengths[i]).filter(|&t| trl.inputs.tool_mask[i][t] != 0.0).count();
        let counts: Vec<_> = (0..lengths.len()).map(|i| Some(active(i))).collect();
        let weights = config.reduction(trl.max_completion_length).weights(&counts);
        for (i, credit) in credits.iter_mut().enumerate() {
            for t in 0..credit.weights.len() {
                credit.weights[t] = weights[i] * trl.inputs.tool_mask[i][t];
            }
        }
    }
    credits
}

#[test]
fn losses_and_gradients_equal_those_of_trl() {
    let trl = recorded();
    let mut compared = BTreeMap::<String, usize>::new();
    let (mut worst_loss, mut worst_gradient) = (0.0f64, 0.0f64);
    for case in &trl.losses {
        let config = &case.config;
        let group = group(&trl, config);
        let method = config.method(trl.max_completion_length);
        let credits = credits(&trl, config, method.as_ref(), &group);
        let mut loss = 0.0;
        for (i, (response, credit)) in group.responses.iter().zip(&credits).enumerate() {
            let share = method.loss(response, credit, &trl.inputs.logps[i][..response.len()]);
            loss += share.value;
            let mut padded = share.dlogps;
            padded.resize(case.gradient[i].len(), 0.0);
            let what = format!("case {} {config:?}: gradient of response {i}", case.id);
            assert_within(&padded, &case.gradient[i], RECORDED_F32, 1.0, &what);
            let off = padded.iter().zip(&case.gradient[i]).map(|(a, b)| (a - b).abs());
            worst_gradient = off.fold(worst_gradient, f64::max);
        }
        let off = (loss - case.loss).abs();
        assert!(off <= RECORDED_F32, "case {}: {loss} and {} {config:?}", case.id, case.loss);
        worst_loss = worst_loss.max(off);
        *compared.entry(format!("{} {}", config.loss_type, config.level)).or_default() += 1;
    }
    println!(
        "TRL {}: {} losses and gradients compared, worst difference {worst_loss:.1e} and {worst_gradient:.1e}; {compared:?}",
        trl.versions["trl"],
        trl.losses.len()
    );
    for skipped in &trl.skipped {
        println!("  not compared: case {}: {}", skipped.id, skipped.reason);
    }
    assert_eq!((trl.losses.len(), trl.skipped.len()), (75, 7));
    assert!(compared.values().filter(|&&n| n >= 5).count() == 8 && compared.len() == 10);
}

#[test]
fn the_recorded_cases_of_trl_reach_every_branch() {
    let trl = recorded();
    let count = |f: &dyn Fn(&Config) -> bool| trl.losses.iter().filter(|c| f(&c.config)).count();
    assert!(count(&|c| c.delta.is_some()) >= 4, "two-sided clip");
    assert!(count(&|c| c.bias_correction_kl) >= 8, "ratio-corrected KL");
    assert!(count(&|c| c.tool_mask) >= 4 && count(&|c| c.mask == "one_empty") >= 8, "masks");
    assert!(count(&|c| c.per_token_adv) >= 8 && count(&|c| c.on_policy) >= 8);
    // A token of non-zero advantage with gradient 0 inside the mask and no KL is a clipped one: both directions occur.
    let plain = &trl.losses[0];
    assert_eq!(plain.config.beta, 0.0);
    let (mut low, mut high) = (0, 0);
    for (i, row) in plain.gradient.iter().enumerate() {
        for t in (0..row.len()).filter(|&t| trl.masks["ragged"][i][t] != 0.0 && row[t] == 0.0) {
            let ratio = (trl.inputs.logps[i][t] - trl.inputs.old_logps[i][t]).exp();
            low += usize::from(trl.inputs.advantages[i] < 0.0 && ratio < 0.8);
            high += usize::from(trl.inputs.advantages[i] > 0.0 && ratio > 1.2);
        }
    }
    assert!(low >= 1 && high >= 1, "{low} clipped below, {high} above");
}

#[test]
fn advantages_equal_those_of_trl() {
    let trl = recorded();
    for case in &trl.advantages {
        let settings = format!("scale={} std_preset=trl", case.scale_rewards);
        // TRL holds rewards in f32; the differences of the tiny-spread set are of that rounding's size.
        let response = |r: &Option<f64>| Response {
            reward: r.map(|r| f64::from(r as f32)),
            ..Response::graded(vec![-1.0], 0.0)
        };
        let groups: Vec<Group> = case
            .rewards
            .chunks(case.num_generations)
            .map(|rewards| Group { responses: rewards.iter().map(response).collect() })
            .collect();
        let ours = advantages("grpo", &settings, &groups).concat();
        let tolerance = if case.set == "tiny_spread" { RECORDED_F32_TINY_SPREAD } else { RECORDED_F32 };
        let what = format!("{} {}", case.scale_rewards, case.set);
        assert_within(&ours, &case.advantages, tolerance, 1.0, &what);
    }
    println!("TRL {}: {} advantage cases compared", trl.versions["trl"], trl.advantages.len());
    assert_eq!(trl.advantages.len(), 18);
    assert!(trl.advantages.iter().any(|c| c.rewards.contains(&None)));
}
