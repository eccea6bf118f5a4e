//! Prefix RLOO: unbiased at every group size, and with less variance than RLOO.

use crate::laboratory::{self, gap, laid_out, method};
use crate::strategies::worded;
use grpo_lambda::group::Group;
use grpo_lambda_mdp::expected::{Situation, enumerated, implied};
use grpo_lambda_mdp::zoo::Random;
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

const EXACT: f64 = 1e-12;

fn small_trees() -> Vec<(Tree, Tabular)> {
    let instance = |seed| laid_out(&Random { seed, symbols: 2, horizon: 3, ..Random::default() });
    (0..40).map(instance).filter(|(tree, _)| (3..=8).contains(&tree.leaf_count())).collect()
}

#[test]
fn its_expected_update_is_the_policy_gradient_at_every_group_size_and_shrinkage() {
    let trees = small_trees();
    assert!(trees.len() >= 10);
    for (tree, policy) in &trees {
        let gradient = Oracle::new(tree, policy).grad_j();
        for control in ["action", "state"] {
            for shrinkage in ["0", "1", "4", "1e9"] {
                let settings = format!("control={control} shrinkage={shrinkage}");
                let method = method("prefix_rloo", &settings);
                for g in [2, 3, 4] {
                    let situation = Situation::on_policy(tree, policy, g);
                    let e = enumerated(method.as_ref(), &situation).expect("feasible");
                    assert!(gap(&e.update, &gradient) < EXACT, "{settings} G = {g}");
                }
            }
        }
    }
}

#[test]
fn with_an_infinite_shrinkage_it_is_rloo() {
    for (tree, policy) in small_trees().iter().take(5) {
        let situation = Situation::on_policy(tree, policy, 3);
        let rloo = method("rloo", "");
        let want = implied(rloo.as_ref(), &situation).expect("feasible").total_variance();
        let ours = method("prefix_rloo", "shrinkage=1e12");
        let got = enumerated(ours.as_ref(), &situation).expect("feasible").total_variance();
        assert!((got - want).abs() < 1e-9 * want.max(1.0), "{got} {want}");
    }
}

#[test]
fn a_hand_made_group_has_the_advantages_of_the_formula() {
    let batch = [Group { responses: vec![worded(&[1, 2], 1.0), worded(&[1, 3], 0.0), worded(&[4], 1.0)] }];
    let advantages = |settings: &str| laboratory::advantages("prefix_rloo", settings, &batch);
    // V_0(root) = 1/2; V_0(1) = (0 + 1/2) / 2 with one other response there and kappa = 1.
    let state = advantages("control=state shrinkage=1");
    assert_eq!(state[0], [0.5, 0.75]);
    assert_eq!(state[1], [-1.0, -1.0]);
    assert_eq!(state[2], [0.5]);
    // Token 1 at the prompt, others of response 0: {0} from response 1, so Q = (0 + 1/2)/2, 1/4 below V; of response 1: Q = V = 1;
    // of response 2: Q = (1 + 0 + 1/2)/3 = V. Token 4: Q_0 = (1 + 1/2)/2, 1/4 above V; Q_1 = V.
    // Response 0 takes 1: 1 - 1/4, and hands 1/2 (-1/4) to the two that took token 1, 1/2 (1/4) to the one that took 4.
    let action = advantages("control=action shrinkage=1");
    assert!((action[0][0] - (0.75 - 0.0625)).abs() < 1e-15, "{action:?}");
    assert!((action[1][0] - (-1.0 - 0.0625)).abs() < 1e-15, "{action:?}");
    assert!((action[2][0] - (0.5 + 0.125)).abs() < 1e-15, "{action:?}");
}
