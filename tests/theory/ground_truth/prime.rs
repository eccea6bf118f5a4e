//! PRIME: its advantages by hand, and its expected update with process rewards that are the policy's own progress.

use super::{EXACT, fixed_length, gap, grad, times, tiny};
use crate::laboratory::{self, method};
use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda_mdp::expected::{Situation, enumerated};
use grpo_lambda_mdp::extra_inputs::Exact;
use grpo_lambda_mdp::zoo::RandomRewards::Bits;
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

/// The advantages of a group whose responses have these rewards and process rewards.
fn advantages(settings: &str, responses: &[(f64, &[f64])]) -> Vec<Vec<f64>> {
    let response = |&(reward, process): &(f64, &[f64])| Response {
        extra_inputs: ExtraInputs { process_rewards: Some(process.to_vec()), ..ExtraInputs::default() },
        ..Response::graded(vec![-0.7; process.len()], reward)
    };
    let group = Group { responses: responses.iter().map(response).collect() };
    laboratory::advantages("prime", &format!("whiten=false {settings}"), &[group])
}

fn assert_rows(found: &[Vec<f64>], want: &[&[f64]], context: &str) {
    let close = found.iter().zip(want).all(|(a, b)| a.len() == b.len() && gap(a, b) < 1e-15);
    assert!(close && found.len() == want.len(), "{context}: {found:?}");
}

const UNIT: &str = "process_weight=1 outcome_weight=1";

#[test]
fn two_responses_by_hand_under_both_baselines() {
    let group: [(f64, &[f64]); 2] = [(1.0, &[0.2, 0.4]), (0.0, &[0.1])];
    // The means of the process rewards are 0.3 and 0.1. Paper: q' = (0.1, 0.3) and (-0.2), to go at gamma = 1/2: (0.25, 0.3).
    let paper = advantages(&format!("{UNIT} gamma=0.5 baseline=paper"), &group);
    assert_rows(&paper, &[&[1.25, 1.3], &[-1.2]], "paper");
    // Code: q' = 2 q - 0.4 = (0, 0.4) and (-0.2), to go (0.2, 0.4).
    assert_rows(&advantages(&format!("{UNIT} gamma=0.5"), &group), &[&[1.2, 1.4], &[-1.2]], "code");
    // Weights scale the two terms; the authors' are 5 and 5.
    assert_rows(&advantages("", &group), &[&[5.0 * 1.4, 5.0 * 1.4], &[5.0 * -1.2]], "defaults");
}

#[test]
fn without_process_rewards_it_is_rloo_and_alone_a_response_has_none() {
    let group: [(f64, &[f64]); 3] = [(1.0, &[0.0, 0.0]), (0.0, &[0.0]), (0.5, &[0.0; 3])];
    for baseline in ["code", "paper"] {
        let rows = advantages(&format!("{UNIT} baseline={baseline}"), &group);
        assert_rows(&rows, &[&[0.75; 2], &[-0.75], &[0.0; 3]], baseline);
        assert_rows(
            &advantages(&format!("{UNIT} baseline={baseline}"), &[(1.0, &[0.3])]),
            &[&[0.0]],
            baseline,
        );
    }
}

/// The two baselines differ by `(q_k - mean_t q_i)/(n-1)`, a response's own rewards about their mean.
#[test]
fn the_codes_baseline_adds_a_responses_own_centred_rewards() {
    let group: [(f64, &[f64]); 3] = [(1.0, &[0.2, -0.4, 0.8]), (0.0, &[0.1, 0.7]), (0.0, &[1.0])];
    let settings = "process_weight=1 outcome_weight=0 gamma=0 baseline=";
    let [code, paper] =
        ["code", "paper"].map(|baseline| advantages(&format!("{settings}{baseline}"), &group));
    for ((code, paper), (_, process)) in code.iter().zip(&paper).zip(group) {
        let mean = process.iter().sum::<f64>() / process.len() as f64;
        let want: Vec<f64> = paper.iter().zip(process).map(|(a, q)| a + (q - mean) / 2.0).collect();
        assert!(gap(code, &want) < 1e-15, "{code:?} {want:?}");
    }
}

/// By enumeration, with the exact progress of the policy for process rewards.
fn update(words: &str, tree: &Tree, policy: &Tabular, g: usize) -> Vec<f64> {
    let settings = format!("whiten=false reduction=response_sum {words}");
    let method = method("prime", &settings);
    let extra_inputs = Exact::new(&Oracle::new(tree, policy));
    let situation = Situation { extra_inputs: Some(&extra_inputs), ..Situation::on_policy(tree, policy, g) };
    enumerated(method.as_ref(), &situation).expect("feasible").update
}

#[test]
fn progress_as_process_reward_gives_the_policy_gradient_times_the_weights_at_one_length() {
    for (tree, policy) in fixed_length() {
        for (process, outcome) in [(1.0, 0.0), (0.5, 2.0)] {
            let words = format!("baseline=paper process_weight={process} outcome_weight={outcome}");
            let want = times(process + outcome, &grad(&tree, &policy));
            assert!(gap(&update(&words, &tree, &policy, 2), &want) < EXACT, "{words}");
        }
    }
    // A baseline at every token left is one that knows the length: with ragged responses it is a bias.
    let (tree, policy) = tiny(4, Bits);
    let biased = update("baseline=paper process_weight=1 outcome_weight=0", &tree, &policy, 2);
    assert!(gap(&biased, &grad(&tree, &policy)) > 1e-3);
}
