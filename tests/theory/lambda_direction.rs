//! λ trades bias for variance: with which critic, and in which direction. `ground_truth::critics` has the bias of an exact and of a wrong
//! critic at every λ; here stands what a constant one is at both ends.

use crate::laboratory::{gap, laid_out, of_zoo, update};
use grpo_lambda::advantage::gae;
use grpo_lambda_mdp::{Tabular, Tree, zoo};

fn mdps() -> Vec<(Tree, Tabular)> {
    let random = |seed| laid_out(&zoo::Random { seed, horizon: 4, ..zoo::Random::default() });
    let named = |name| {
        let (tree, _) = of_zoo(name);
        let policy = Tabular::random(&tree, 1, 0.5);
        (tree, policy)
    };
    (0..40).map(random).chain(["lucky_guess", "noisy", "chain", "pivot"].map(named)).collect()
}

#[test]
fn a_constant_critic_at_lambda_1_is_the_centred_advantage_of_grpo_and_at_lambda_0_the_last_token_only() {
    let (v0, r) = (0.3, 1.0);
    assert_eq!(gae(&[0.0, 0.0, r], &[v0; 3], 1.0, 1.0), [0.7; 3]);
    assert_eq!(gae(&[0.0, 0.0, r], &[v0; 3], 1.0, 0.0), [0.0, 0.0, 0.7]);
    for (tree, policy) in mdps() {
        let [terminal, centred] = ["grpo_lambda delta=terminal lambda=1 clamp=none", "grpo"]
            .map(|words| update(&format!("{words} scale=none reduction=response_sum"), &tree, &policy, 3));
        assert!(gap(&terminal, &centred) < 1e-12);
    }
}
