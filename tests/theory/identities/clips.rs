//! The forms of the clip.

use super::{CASES, differ_on, equal, equal_on};
use crate::strategies::{batch, on_policy};
use crate::tolerance::{IDENTITY, assert_within};
use grpo_lambda::surrogate::{Region, Surrogate};

#[test]
fn the_printed_clip_is_ppo_when_no_advantage_is_negative() {
    equal("grpo clamp=0 clip=printed", "grpo clamp=0");
    equal("grpo_lambda clamp=0 clip=printed lambda=0.9", "grpo_lambda clamp=0 lambda=0.9");
    let apart = differ_on(batch(), "grpo clip=printed", "grpo");
    assert!(apart > CASES / 4, "with negative advantages the two differ: {apart}");
}

const PPO: Surrogate = Surrogate::Clip { low: 0.2, high: 0.2 };
const PRINTED: Surrogate = Surrogate::Printed { high: 0.2 };

#[test]
fn the_printed_clip_keeps_pushing_down_below_the_trust_region_where_ppo_stops() {
    // [C4], erratum E3, A = -1 at ratio 0.5: lowering the ratio still lowers the printed loss.
    let (ppo, printed) = (PPO.at(0.5f64.ln(), -1.0), PRINTED.at(0.5f64.ln(), -1.0));
    assert_eq!((ppo.loss.slope, ppo.region), (0.0, Region::Low));
    assert_within(&[printed.loss.slope, printed.loss.value], &[0.5, 0.5], IDENTITY, 1.0, "printed");
    assert_eq!(printed.region, Region::Free);
}

#[test]
fn the_printed_clip_does_not_correct_above_the_trust_region_where_ppo_does() {
    // [C4], A = -1 at ratio 1.5: a wrong token has become likelier; PPO pulls it back, the printed form is flat.
    let (ppo, printed) = (PPO.at(1.5f64.ln(), -1.0), PRINTED.at(1.5f64.ln(), -1.0));
    assert_within(&[ppo.loss.slope, ppo.loss.value], &[1.5, 1.5], IDENTITY, 1.0, "ppo");
    assert_eq!((printed.loss.slope, printed.loss.value, printed.region), (0.0, 1.2, Region::High));
}

#[test]
fn the_printed_clip_ignores_epsilon_low() {
    equal("grpo clip=printed epsilon_low=0", "grpo clip=printed epsilon_low=0.9");
}

#[test]
fn on_policy_every_clip_has_the_same_loss_and_gradient() {
    for rest in ["grpo", "grpo_lambda lambda=0.9", "grpo_lambda style=both update=weight", "rloo", "dr_grpo"]
    {
        for clip in ["printed", "two_sided", "none"] {
            let words = |clip: &str| format!("{rest} clip={clip} clamp=none");
            equal_on(on_policy(), &words(clip), &words("ppo"));
        }
    }
}

#[test]
fn a_two_sided_clip_with_a_distant_cap_is_ppo() {
    equal("grpo clip=two_sided clip_max=1e9", "grpo");
}

#[test]
fn the_cap_of_a_two_sided_clip_matters_for_negative_advantages_only() {
    equal("grpo clip=two_sided clip_max=1.5 clamp=0", "grpo clamp=0");
    assert!(differ_on(batch(), "grpo clip=two_sided clip_max=1.5", "grpo") > 5);
}

#[test]
fn a_clip_too_wide_to_reach_is_no_clip() {
    equal("grpo epsilon_low=1 epsilon_high=1e9", "grpo clip=none");
    equal("grpo_lambda lambda=0.9 epsilon_low=1 epsilon_high=1e12", "grpo_lambda lambda=0.9 clip=none");
}
