//! Parity with rlax: generalised advantage estimation and lambda-returns, recorded in f64.

use crate::tolerance::{RECORDED_F64, assert_within, size};
use grpo_lambda::advantage::gae;
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    cases: Vec<Case>,
}

/// `values` has one entry more than `rewards`: the value after the last step, 0 where the episode ends there.
#[derive(Deserialize)]
struct Case {
    id: usize,
    gamma: f64,
    lam: f64,
    terminal: bool,
    rewards: Vec<f64>,
    values: Vec<f64>,
    gae: Vec<f64>,
    lambda_returns: Vec<f64>,
    discounted_returns: Vec<f64>,
}

#[test]
fn gae_and_its_returns_equal_those_of_rlax() {
    let recorded: Recorded =
        serde_json::from_str(include_str!("../fixtures/returns.json")).expect("the committed fixture");
    let mut terminal = 0;
    for case in &recorded.cases {
        let (values, after) = case.values.split_at(case.rewards.len());
        // Our responses always end, so the value after the last token is 0. A case that was cut off bootstraps from
        // `after`; in the last TD error that is the same as a reward of gamma V(s_T).
        let mut rewards = case.rewards.clone();
        assert!(!case.terminal || after[0] == 0.0);
        *rewards.last_mut().expect("at least one step") += case.gamma * after[0];
        let ours = gae(&rewards, values, case.gamma, case.lam);
        let scale = 1.0 + size(&case.gae) + size(&case.lambda_returns);
        assert_within(&ours, &case.gae, RECORDED_F64, scale, &format!("case {}: gae", case.id));

        let returns: Vec<f64> = ours.iter().zip(values).map(|(a, v)| a + v).collect();
        let what = format!("case {}: lambda-returns", case.id);
        assert_within(&returns, &case.lambda_returns, RECORDED_F64, scale, &what);

        // At lambda = 1 with a critic of 0 it is the discounted return (no bootstrap in the recorded numbers).
        let discounted = gae(&case.rewards, &vec![0.0; values.len()], case.gamma, 1.0);
        let what = format!("case {}: discounted returns", case.id);
        assert_within(&discounted, &case.discounted_returns, RECORDED_F64, scale, &what);
        terminal += usize::from(case.terminal);
    }
    println!("rlax: {} cases compared, {terminal} of them terminal", recorded.cases.len());
    assert_eq!((recorded.cases.len(), terminal), (24, 12));
}
