//! Off-policy, unclipped: which traces give the policy gradient of the policy being updated.

use super::{EXACT, gap, tiny};
use grpo_lambda::trace::{Recent, RowNormalised, Sequence, Token, Trace};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::Tabular;
use grpo_lambda_mdp::expected::{Product, RatioCredit, under_ratios};
use grpo_lambda_mdp::zoo::RandomRewards::{Bits, Probabilities};

/// Largest error of `E_mu sum_t grad(tau_t) credit_t` against `grad J` of the current policy.
fn error(trace: &dyn Trace, credit: RatioCredit, seed: u64) -> f64 {
    let (tree, behaviour) = tiny(seed, if seed == 1 { Probabilities } else { Bits });
    let current = Tabular::random(&tree, seed + 200, 0.8);
    let update = under_ratios(&tree, &behaviour, &current, trace, credit);
    gap(&update, &Oracle::new(&tree, &current).grad_j())
}

#[test]
fn off_policy_only_full_products_are_unbiased_prefix_products_with_the_true_advantage_too() {
    // [C20], without a clip.
    let traces: [(&str, &dyn Trace, bool, bool); 6] = [
        // (trace, exact with the outcome, exact with the true advantage)
        ("whole response", &Product, true, true),
        ("prefix product", &Recent { q: 1.0 }, false, true),
        ("decayed", &Recent { q: 0.9 }, false, false),
        ("normalised", &RowNormalised(Recent { q: 0.9 }), false, false),
        ("gspo", &Sequence, false, false),
        ("token", &Token, false, false),
    ];
    for (name, trace, outcome, advantage) in traces {
        for (credit, exact) in [(RatioCredit::Outcome, outcome), (RatioCredit::Advantage, advantage)] {
            for seed in [0, 1, 4] {
                let error = error(trace, credit, seed);
                assert_eq!(error < EXACT, exact, "{name} {seed}: {error:e}");
                assert!(exact || error > 1e-4, "{name} {seed}: biased by {error:e}");
            }
        }
    }
}
