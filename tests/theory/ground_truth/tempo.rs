//! TEMPO's expected update in closed form.

use super::{EXACT, cosine, gap, re_weighted, tiny, update};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::RandomRewards::{Bits, Probabilities, Real};

#[test]
fn tempo_without_std_is_the_policy_gradient_times_2g_d_minus_d_minus_1_plus_1_minus_d_to_the_g_over_d_per_prefix()
 {
    // [C10]: E[sum_i sum_t A grad log pi] = sum_s g_s [ (G-1) d + G d - 1 + (1-d)^G ], grad J = sum_s d g_s: the centred outcome with
    // its factor of G-1, and the tree part, E (n-1)^+.
    let mut factors: Vec<f64> = Vec::new();
    for (seed, rewards) in [(0, Bits), (1, Probabilities), (2, Real), (4, Bits), (6, Real)] {
        let (tree, policy) = tiny(seed, rewards);
        let oracle = Oracle::new(&tree, &policy);
        for g in [2usize, 3] {
            let n = g as f64;
            let factor = |d: f64| ((n - 1.0) * d + n * d - 1.0 + (1.0 - d).powi(g as i32)) / d;
            // The reduction divides by G.
            let want = re_weighted(&oracle, |d| factor(d) / n);
            let got = update("tempo scale=none reduction=response_sum", &tree, &policy, g);
            assert!(gap(&got, &want) < EXACT, "{seed} {g}");
            factors.extend(oracle.visit.iter().map(|&d| factor(d) / (n - 1.0)));
        }
    }
    // Relative to GRPO's G-1: 2 at the prompt, towards 1 at prefixes that are never shared.
    assert!(factors.iter().all(|f| (1.0 - EXACT..=2.0 + EXACT).contains(f)));
    assert!(factors.contains(&2.0) && factors.iter().any(|f| *f < 1.1));
}

#[test]
fn the_std_of_tempo_changes_its_direction_and_not_only_its_size() {
    // With std the factor of a prefix also depends on what the group scored: no closed form, enumerated. (Of three binary rewards
    // every mixed group has the same std: four are needed.)
    let turned = |seed, rewards, g| {
        let (tree, policy) = tiny(seed, rewards);
        let scaled =
            |scale| update(&format!("tempo scale={scale} reduction=response_sum"), &tree, &policy, g);
        1.0 - cosine(&scaled("none"), &scaled("group"))
    };
    assert!(turned(4, Bits, 3) < EXACT);
    let four = [turned(0, Bits, 4), turned(1, Probabilities, 4), turned(4, Bits, 4), turned(2, Real, 4)];
    assert!(four.iter().all(|t| *t < 0.2) && four.iter().any(|t| *t > 1e-6), "{four:?}");
}
