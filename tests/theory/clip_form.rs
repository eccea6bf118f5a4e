//! The clip of the main text against the one the algorithms print.

use grpo_lambda::methods;
use grpo_lambda::surrogate::Surrogate;
use grpo_lambda_mdp::expected::{Situation, cosine, implied};
use grpo_lambda_mdp::zoo::{self, Family};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};
use proptest::prelude::*;

const PPO: Surrogate = Surrogate::Clip { low: 0.2, high: 0.2 };
const PRINTED: Surrogate = Surrogate::Printed { high: 0.2 };

fn update(clip: &str, tree: &Tree, behaviour: &Tabular, current: &Tabular) -> Vec<f64> {
    let method =
        methods::parse("grpo", &format!("reduction=response_sum clip={clip}")).expect("valid").method;
    let situation = Situation { current, ..Situation::on_policy(tree, behaviour, 8) };
    implied(method.as_ref(), &situation).expect("feasible").update
}

proptest! {
    #[test]
    fn they_differ_exactly_where_the_advantage_is_negative_and_the_ratio_outside(z in -2.0..2.0f64, a in -3.0..3.0f64) {
        let rho = z.exp();
        prop_assume!((rho - 0.8).abs() > 1e-6 && (rho - 1.2).abs() > 1e-6 && a.abs() > 1e-6);
        let differ = PPO.at(z, a).loss != PRINTED.at(z, a).loss;
        prop_assert_eq!(differ, a < 0.0 && !(0.8..=1.2).contains(&rho));
    }

    #[test]
    fn the_printed_loss_never_uses_its_lower_bound(z in -3.0..3.0f64, a in -3.0..3.0f64) {
        let rho = z.exp();
        let literal = -rho.min(rho.clamp(0.8, 1.2)) * a;
        prop_assert!((PRINTED.at(z, a).loss.value - literal).abs() < 1e-13);
        prop_assert!((literal + rho.min(1.2) * a).abs() < 1e-13);
    }

    #[test]
    fn on_policy_they_are_the_same(a in -3.0..3.0f64) {
        prop_assert_eq!(PPO.at(0.0, a), PRINTED.at(0.0, a));
    }
}

#[test]
fn a_bad_token_is_pushed_on_below_the_clip_and_not_pulled_back_above_it() {
    let slopes = |rho: f64| (PPO.at(rho.ln(), -1.0).loss.slope, PRINTED.at(rho.ln(), -1.0).loss.slope);
    let ((low, low_printed), (high, high_printed)) = (slopes(0.5), slopes(1.5));
    assert_eq!((low, high_printed), (0.0, 0.0));
    assert!((low_printed - 0.5).abs() < 1e-15 && (high - 1.5).abs() < 1e-15);
}

#[test]
fn the_expected_update_on_policy_is_the_same() {
    for name in ["pivot", "lucky_guess", "deceptive", "noisy", "chain"] {
        let entry = zoo::find(name).expect("named");
        let tree = (entry.build)();
        let policy = (entry.initial)(&tree);
        assert_eq!(
            update("ppo", &tree, &policy, &policy),
            update("printed", &tree, &policy, &policy),
            "{name}"
        );
    }
}

#[test]
fn after_a_step_the_wrong_way_the_printed_form_corrects_in_a_worse_direction() {
    let family = zoo::LuckyGuess::default();
    let tree = family.tree().expect("valid");
    let behaviour = family.initial(&tree);
    let grad = Oracle::new(&tree, &behaviour).grad_j();
    let largest = grad.iter().fold(0.0f64, |m, g| m.max(g.abs()));
    let mut current = behaviour.clone();
    current.step(&grad, -1.6 / largest);
    let now = Oracle::new(&tree, &current).grad_j();
    let [ppo, printed] =
        ["ppo", "printed"].map(|clip| cosine(&update(clip, &tree, &behaviour, &current), &now));
    assert!((ppo - 0.826).abs() < 0.005 && (printed - 0.464).abs() < 0.005, "{ppo} {printed}");
}

#[test]
fn on_a_reused_batch_the_printed_form_has_no_trust_region_downwards() {
    let family = zoo::Noisy::default();
    let tree = family.tree().expect("valid");
    let behaviour = family.initial(&tree);
    let before = behaviour.probs(&tree);
    let smallest_ratio = |clip: &str| {
        let mut current = behaviour.clone();
        for _ in 0..200 {
            let step = update(clip, &tree, &behaviour, &current);
            current.step(&step, 0.2);
        }
        current.probs(&tree).iter().zip(&before).map(|(new, old)| new / old).fold(f64::MAX, f64::min)
    };
    let (ppo, printed) = (smallest_ratio("ppo"), smallest_ratio("printed"));
    assert!(ppo > 0.75 && printed < 0.15, "{ppo} {printed}");
}
