//! Claim `atlas_updates`: what the MDPs of the atlas show, by the exact expected update.

use crate::laboratory::{laid_out, update};
use grpo_lambda::methods;
use grpo_lambda::systematic::Sets;
use grpo_lambda_mdp::Tabular;
use grpo_lambda_mdp::expected::{Situation, conditional, enumerated, multisets};
use grpo_lambda_mdp::zoo::{self, Family};

use crate::tolerance::{IDENTITY, assert_close};

#[test]
fn filler_that_earns_nothing_is_left_alone_until_advantages_are_clamped_and_then_paid_for_with_a_trace() {
    // Reward and length are independent here, so that any weight by length or position meets advantages of mean 0 and adds nothing to filler. A clamp leaves
    // them a positive mean, and what grows with the length is then paid for.
    let (tree, policy) = laid_out(&zoo::DistractorLength::default());
    let filler = |words: &str| -> Vec<f64> {
        let step = update(words, &tree, &policy, 8);
        let own = |e: &usize| tree.token_name(*e) == "um";
        tree.edges().filter(own).map(|e| step[e]).collect()
    };
    for words in [
        "rloo",
        "grpo reduction=response_sum",
        "grpo reduction=response_mean",
        "grpo reduction=token_mean",
        "grpo_lambda clamp=none",
        "grpo_lambda style=both clamp=none",
    ] {
        assert!(filler(words).iter().all(|x| x.abs() < IDENTITY), "{words}: {:?}", filler(words));
    }
    for words in ["grpo_lambda", "grpo_lambda style=both"] {
        assert!(filler(words)[0] > 1e-3, "{words}: {:?}", filler(words));
    }
}

#[test]
fn groups_summed_without_regard_to_order_and_with_it_agree_for_every_registered_method() {
    let family = zoo::Random { seed: 4, symbols: 2, horizon: 3, eos: 0.7, ..zoo::Random::default() };
    let tree = family.tree().expect("knobs in range");
    let policy = Tabular::random(&tree, 104, 0.8);
    let mut left_out = Vec::new();
    for spec in methods::REGISTRY {
        let configured = methods::configure(spec.name, &[]).expect("valid");
        // A response's set has a meaning: two equal sets where a method has sets.
        let size = if configured.sets().is_some() { 4 } else { 3 };
        let situation = Situation::on_policy(&tree, &policy, size);
        let kinds = grpo_lambda_mdp::extra_inputs::Exact::kinds_on(&tree);
        if configured.require(&kinds).is_err() {
            left_out.push(spec.name);
            continue;
        }
        let method = configured.method.as_ref();
        let tuples = enumerated(method, &situation).expect("feasible");
        let sets =
            multisets(method, &situation, configured.sets().unwrap_or(Sets::SINGLE), 1e5).expect("feasible");
        assert_close(&tuples.update, &sets.update, IDENTITY, spec.name);
        assert_close(&tuples.variance, &sets.variance, IDENTITY, spec.name);
        // The mean over all draws of the others would be the same; over a few it is near.
        let near = conditional(method, &situation, 64, 1);
        let size = tuples.update.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let apart = near.update.iter().zip(&tuples.update).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
        assert!(apart < 0.5 * size + IDENTITY, "{}: {apart} of {size}", spec.name);
    }
    let lacking = ["remax", "gdpo", "ridge_rloo", "systematic_visit", "oar_p", "oar_g", "shear"];
    assert_eq!(left_out, lacking, "parts of rewards, scores and states a table has not");
}
