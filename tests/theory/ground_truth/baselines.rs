//! GRPO and the methods that differ from it in statistics, masks and aggregation.

use super::{EXACT, fixed_length, gap, grad, parallel, times, tiny, update};
use crate::laboratory::coin;
use grpo_lambda_mdp::expected::cosine;
use grpo_lambda_mdp::zoo::RandomRewards::{Bits, Probabilities};
use grpo_lambda_mdp::{Oracle, Rules, Tabular, zoo, zoo::Family};

#[test]
fn grpo_re_weights_a_prompt_by_its_success_rate_2_313_1_895_1_736() {
    // [C9], G1: w_8(p) of the z-score with Bessel's standard deviation, without and with TRL's epsilon of 1e-4. The rounded numbers are
    // those without; at p = 1/2 TRL's is 1.735.
    for (p, bare, trl) in [(0.05, 2.3133, 2.3127), (0.25, 1.8953, 1.8948), (0.5, 1.7358, 1.7355)] {
        let (tree, policy) = coin(p);
        let w = |words| update(words, &tree, &policy, 8)[0] / grad(&tree, &policy)[0];
        let (got, got_trl) =
            (w("grpo std_epsilon=0 reduction=response_sum"), w("grpo reduction=response_sum"));
        assert!((got - bare).abs() < 5e-5 && (got_trl - trl).abs() < 5e-5, "{p}: {got} {got_trl}");
        let rloo = update("rloo", &tree, &policy, 8)[0] / grad(&tree, &policy)[0];
        let centred = update("dr_grpo max_length=1", &tree, &policy, 8)[0] / grad(&tree, &policy)[0];
        assert!((rloo - 1.0).abs() < EXACT && (centred - 7.0 / 8.0).abs() < EXACT);
    }
}

#[test]
fn beta_normalisation_re_weights_a_prompt_and_does_not_turn_its_gradient() {
    for (tree, policy) in fixed_length() {
        let gradient = grad(&tree, &policy);
        for words in ["bnpo_beta", "bnpo_beta alpha=1.4 beta_shape=2"] {
            assert!(parallel(&update(words, &tree, &policy, 3), &gradient), "{words}");
        }
    }
}

#[test]
fn on_policy_every_clip_gate_region_and_ratio_has_the_expected_update_of_grpo() {
    let token_mean =
        ["dapo", "bnpo", "cispo", "grpo_batch_std", "vespo", "dppo", "dppo divergence=kl", "dro"];
    for seed in [0, 1, 4] {
        let (tree, policy) = tiny(seed, if seed == 1 { Probabilities } else { Bits });
        for (reduction, same) in [
            ("token_mean", &token_mean[..]),
            ("response_mean", &["gspo", "gspo_token", "sapo", "gmpo"]),
            ("response_sum", &["luspo"]),
        ] {
            let grpo = update(&format!("grpo reduction={reduction}"), &tree, &policy, 3);
            for words in same {
                assert!(gap(&update(words, &tree, &policy, 3), &grpo) < EXACT, "{words} {seed}");
            }
        }
        let centred = update("dr_grpo max_length=1", &tree, &policy, 3);
        let gpg = update("gpg alpha=one reduction=response_sum", &tree, &policy, 3);
        assert!(gap(&gpg, &centred) < EXACT, "{seed}");
    }
}

#[test]
fn with_one_length_the_baseline_of_opo_is_the_mean() {
    for (tree, policy) in fixed_length() {
        let opo = update("opo reduction=response_sum", &tree, &policy, 3);
        assert!(gap(&opo, &update("dr_grpo max_length=1", &tree, &policy, 3)) < EXACT);
    }
}

#[test]
fn pass_at_k_without_a_divisor_is_the_gradient_of_the_best_reward_of_a_group() {
    // E max = 1 - (1-p)^g for binary rewards, whose gradient is g (1-p)^(g-1) grad p; the loss is a mean over the g responses.
    for p in [0.05, 0.25, 0.5] {
        let (tree, policy) = coin(p);
        for g in [2, 3, 8] {
            let found = update("grpo_passk scale=none reduction=response_sum", &tree, &policy, g);
            let factor = (1.0 - p).powi(g as i32 - 1);
            let want: Vec<f64> = grad(&tree, &policy).iter().map(|x| x * factor).collect();
            assert!(gap(&found, &want) < EXACT, "{p} {g}");
        }
    }
    for seed in [0, 4] {
        let (tree, policy) = tiny(seed, Bits);
        let j = Oracle::new(&tree, &policy).j;
        let found = update("grpo_passk scale=none reduction=response_sum", &tree, &policy, 3);
        let want: Vec<f64> = grad(&tree, &policy).iter().map(|x| x * (1.0 - j).powi(2)).collect();
        assert!(gap(&found, &want) < EXACT, "{seed}");
    }
}

#[test]
fn a_mask_by_entropy_threshold_is_the_policy_gradient_of_the_prefixes_kept() {
    // [C21]: the mask depends on the prefix alone.
    for seed in [0, 1, 2, 4] {
        let (tree, policy) = tiny(seed, Bits);
        let oracle = Oracle::new(&tree, &policy);
        let entropies = oracle.entropies();
        let mut sorted = entropies.clone();
        sorted.sort_by(f64::total_cmp);
        let tau = sorted[sorted.len() / 2];
        let words = format!("high_entropy entropy_threshold={tau} scale=none reduction=response_sum");
        let masked = update(&words, &tree, &policy, 3);
        let keep =
            |(e, g): (usize, &f64)| if entropies[tree.edge_node(e)] >= tau { g * 2.0 / 3.0 } else { 0.0 };
        let want: Vec<f64> = oracle.grad_j().iter().enumerate().map(keep).collect();
        assert!(gap(&masked, &want) < EXACT && want.contains(&0.0), "{seed}");
    }
}

#[test]
fn a_mask_by_the_quantile_of_the_batch_depends_on_the_rest_of_the_response_and_is_biased() {
    // Where the threshold moves with the batch, the mask of a prefix is correlated with what follows it. Seen only at prefixes
    // with three choices or more: between two, every update is a multiple of the gradient.
    let apart = |seed| {
        let family = zoo::Random { seed, symbols: 3, horizon: 3, eos: 0.5, ..zoo::Random::default() };
        let tree = family.tree().expect("knobs in range");
        let policy = Tabular::random(&tree, seed + 100, 0.8);
        let oracle = Oracle::new(&tree, &policy);
        let words = "high_entropy top_fraction=0.5 scale=none reduction=response_sum";
        let masked = update(words, &tree, &policy, 2);
        // Per prefix: is the update a multiple of the gradient there?
        let worst = tree.nodes().map(|node| {
            let edges = tree.edges_of(node);
            let (u, g) = (&masked[edges.clone()], &oracle.grad_j()[edges]);
            let turned = 1.0 - cosine(u, g);
            if turned.is_nan() { 0.0 } else { turned }
        });
        worst.fold(0.0, f64::max)
    };
    let worst = [0, 1, 2, 4].map(apart);
    assert!(worst.iter().any(|w| *w > 1e-3), "{worst:?}");
}

#[test]
fn reinforce_pp_is_parallel_to_the_policy_gradient_where_lengths_are_equal_and_is_not_where_they_vary() {
    for (tree, policy) in fixed_length() {
        let gradient = grad(&tree, &policy);
        for words in ["reinforce_pp", "reinforce_pp_baseline"] {
            let u = update(&format!("{words} reduction=response_sum"), &tree, &policy, 3);
            assert!(parallel(&u, &gradient), "{words}");
        }
    }
    let turned = |seed| {
        let (tree, policy) = tiny(seed, Bits);
        let gradient = grad(&tree, &policy);
        ["reinforce_pp", "reinforce_pp_baseline"].map(|words| {
            1.0 - cosine(&update(&format!("{words} reduction=response_sum"), &tree, &policy, 3), &gradient)
        })
    };
    let turned = [0, 2, 4].map(turned);
    assert!(turned.iter().all(|t| t.iter().any(|t| *t > 1e-6)), "{turned:?}");
}

#[test]
fn the_optimal_token_baseline_is_biased_by_its_own_sample() {
    // A baseline that holds the sample's own energy is correlated with its action: no multiple of the gradient, even at
    // one token; with energies that do not depend on the action it is (G-1)/G times the gradient.
    let words = "optimal_token_baseline reduction=response_sum";
    let (tree, policy) = coin(0.5);
    let fair = update(words, &tree, &policy, 3);
    assert!(gap(&fair, &times(2.0 / 3.0, &grad(&tree, &policy))) < EXACT, "both actions have energy 1/2");
    let three = Rules::new(["a", "b", "c", "EOS"], 1)
        .build(|_| vec![0, 1, 2], |y, _| f64::from(y[0] > 0))
        .expect("a valid tree");
    let policy = Tabular::from_weights(&three, |_, e| [0.2, 0.7, 0.1][e]);
    let gradient = grad(&three, &policy);
    let cos = cosine(&update(words, &three, &policy, 3), &gradient);
    assert!(cos < 1.0 - 1e-4, "{cos}");
    assert!(parallel(&update("rloo", &three, &policy, 3), &gradient));
}
