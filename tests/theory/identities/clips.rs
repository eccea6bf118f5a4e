//! The forms of the clip.

use super::{CASES, differ_on, equal_on};
use crate::strategies::{batch, on_policy};
use crate::tolerance::{IDENTITY, assert_within};
use grpo_lambda::surrogate::{Region, Surrogate};

/// Clips that differ where they bind, and the number of random batches that tell them apart at least.
#[test]
fn clips_differ_on_batches_in_which_they_bind() {
    for (left, right, least) in [
        ("grpo clip=printed", "grpo", CASES / 4),
        ("grpo clip=two_sided clip_max=1.5", "grpo", 5),
        ("dapo", "grpo reduction=token_mean", 5),
        // Clipped first, a ratio outside has no gradient whatever the sign of its advantage.
        ("p_trace_reconstructed lambda=0 form=clipped", "grpo reduction=token_mean", CASES / 4),
    ] {
        let apart = differ_on(batch(), left, right);
        assert!(apart > least, "{left} and {right}: {apart}");
    }
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
fn on_policy_every_clip_has_the_same_loss_and_gradient() {
    for rest in ["grpo", "grpo_lambda lambda=0.9", "grpo_lambda style=both update=weight", "rloo", "dr_grpo"]
    {
        for clip in ["printed", "two_sided", "none"] {
            let words = |clip: &str| format!("{rest} clip={clip} clamp=none");
            equal_on(on_policy(), &words(clip), &words("ppo"));
        }
    }
}
