//! W-REINFORCE: its advantages by hand, and its expected update.

use super::{EXACT, gap, grad, times, tiny, update};
use crate::laboratory::{advantages, method};
use grpo_lambda::group::{Group, Response};
use grpo_lambda_mdp::Tabular;
use grpo_lambda_mdp::expected::{Situation, cosine, implied};
use grpo_lambda_mdp::zoo::RandomRewards::Bits;

#[test]
fn a_tenth_for_right_responses_and_1_against_wrong_ones() {
    let group = |rewards: [f64; 3]| Group {
        responses: rewards.map(|reward| Response::graded(vec![-0.7; 2], reward)).to_vec(),
    };
    let credit = |settings: &str, rewards| {
        advantages("w_reinforce", settings, &[group(rewards)]).into_iter().map(|a| a[0]).collect::<Vec<_>>()
    };
    assert_eq!(credit("", [1.0, 0.0, 1.0]), [0.1, -1.0, 0.1]);
    // The paper's rewards of 1 and -1 are the same thing, and a group of one kind teaches.
    assert_eq!(credit("", [1.0, -1.0, 1.0]), [0.1, -1.0, 0.1]);
    assert_eq!(credit("positive_weight=0", [0.0, 0.0, 0.0]), [-1.0; 3]);
    assert_eq!(credit("negative_weight=0", [1.0, 0.0, 0.0]), [0.1, -0.0, -0.0]);
}

#[test]
fn on_policy_every_weighting_is_the_policy_gradient_times_the_sum_of_the_weights() {
    for seed in [0, 4] {
        let (tree, policy) = tiny(seed, Bits);
        for (positive, negative) in [(0.1, 1.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)] {
            let words = format!(
                "w_reinforce positive_weight={positive} negative_weight={negative} reduction=response_sum"
            );
            let want = times(positive + negative, &grad(&tree, &policy));
            for g in [2, 3] {
                assert!(gap(&update(&words, &tree, &policy, g), &want) < EXACT, "{seed} {words} {g}");
            }
        }
    }
}

/// Off-policy the clip treats right and wrong responses differently, and the weights turn the update.
#[test]
fn off_policy_the_weights_turn_the_update() {
    let (tree, policy) = tiny(4, Bits);
    let current = Tabular::random(&tree, 9, 0.8);
    let off_policy = |settings: &str| {
        let method = method("w_reinforce", &format!("reduction=response_sum {settings}"));
        let situation = Situation { current: &current, ..Situation::on_policy(&tree, &policy, 2) };
        implied(method.as_ref(), &situation).expect("no response sees another").update
    };
    let turned = cosine(&off_policy("positive_weight=1 negative_weight=0"), &off_policy("positive_weight=0"));
    assert!(turned < 1.0 - 1e-3, "{turned}");
}
