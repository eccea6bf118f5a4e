//! Off-policy: the trust region of a trace, and what is left of the policy gradient.

use crate::laboratory::method;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods;
use grpo_lambda::metrics::Metrics;
use grpo_lambda::trace::{Both, Recent, RowNormalised, Sequence, Trace};
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::{Family, Fork};
use grpo_lambda_mdp::{Oracle, Tabular};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const EPSILON: f64 = 0.2;

fn inside(z: f64) -> bool {
    // A convex combination of equal numbers need not be that number to the last bit.
    ((1.0 - EPSILON).ln() - 1e-12..=(1.0 + EPSILON).ln() + 1e-12).contains(&z)
}

fn in_the_region() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((1.0 - EPSILON).ln()..=(1.0 + EPSILON).ln(), 1..80)
}

proptest! {
    #[test]
    fn a_trace_of_weighted_means_keeps_the_trust_region(x in in_the_region(), q in 0.0..=1.0f64) {
        let traces: [Box<dyn Trace>; 3] =
            [Box::new(RowNormalised(Recent { q })), Box::new(RowNormalised(Both { q })), Box::new(Sequence)];
        for trace in traces {
            prop_assert!(trace.apply(&x).into_iter().all(inside), "{trace:?}");
        }
    }

    #[test]
    fn a_summed_trace_leaves_it_as_soon_as_two_tokens_reach_the_bound(q in 0.01..=1.0f64, len in 2usize..40) {
        let x = vec![(1.0 + EPSILON).ln(); len];
        let z = Recent { q }.apply(&x);
        prop_assert!(inside(z[0]) && z[1..].iter().all(|&z| !inside(z)));
    }
}

/// Metrics of a response with log-ratios `x`, next to another one with the opposite reward at ratio 1.
fn evaluated(name: &str, settings: &str, x: &[f64], right: bool) -> Metrics {
    let method = method(name, settings);
    let old = vec![-1.0; x.len()];
    let reward = f64::from(right);
    let group = Group {
        responses: vec![Response::graded(old.clone(), reward), Response::graded(old.clone(), 1.0 - reward)],
    };
    // A hair inside: a ratio on the bound itself is not outside, but rounding may put it there.
    let logps: Vec<f64> = old.iter().zip(x).map(|(old, x)| old + 0.999_999 * x).collect();
    methods::evaluate(method.as_ref(), &[group], &[logps, old]).metrics
}

#[test]
fn three_in_four_trace_ratios_of_grpo_lambda_leave_the_region_that_all_tokens_keep() {
    // [C12]: 64 tokens, log-ratios uniform in [log 0.8, log 1.2], q = 0.99.
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let (low, high) = ((1.0 - EPSILON).ln(), (1.0 + EPSILON).ln());
    let (mut out, responses) = (0, 2000);
    for _ in 0..responses {
        let x: Vec<f64> = (0..64).map(|_| rng.random_range(low..high)).collect();
        out += Recent { q: 0.99 }.apply(&x).into_iter().filter(|&z| !inside(z)).count();
    }
    let share = out as f64 / (64 * responses) as f64;
    assert!((share - 0.76).abs() < 0.01, "{share}");
    let constant = vec![0.5 * high; 64];
    assert!(evaluated("grpo_lambda", "clamp=none", &constant, true).clipped_high > 55);
    assert_eq!(evaluated("grpo", "", &constant, true).clipped_high, 0);
}

#[test]
fn beyond_the_clip_only_the_tokens_that_speak_against_the_step_are_left() {
    // One choice, taken half of the time; the policy has learned it beyond any clip. Of the better branch only failures keep a gradient,
    // of the worse one only successes: the update goes back.
    let family = Fork::two([4, 4], [0.76, 0.25], 0.5);
    let tree = family.tree().expect("valid");
    let behaviour = family.initial(&tree);
    let mut current = behaviour.clone();
    current.step(&Oracle::new(&tree, &behaviour).grad_j(), 8.0);
    let ratios: Vec<f64> =
        current.probs(&tree).iter().zip(behaviour.probs(&tree)).map(|(new, old)| new / old).collect();
    assert!(ratios[0] > 1.0 + EPSILON && ratios[1] < 1.0 - EPSILON, "{ratios:?}");
    let better = |current: &Tabular, name: &str, settings: &str| {
        let method = method(name, settings);
        let situation = Situation { current, ..Situation::on_policy(&tree, &behaviour, 4) };
        implied(method.as_ref(), &situation).expect("feasible").update[0]
    };
    for name in ["grpo", "grpo_lambda", "p_trace_reconstructed"] {
        assert!(better(&behaviour, name, "clamp=none") > 0.0, "{name} on-policy");
        assert!(better(&current, name, "clamp=none clip=none") > 0.0, "{name} without a clip");
        if name != "p_trace_reconstructed" {
            assert!(better(&current, name, "clamp=none") < 0.0, "{name} with PPO's clip");
        }
    }
}
