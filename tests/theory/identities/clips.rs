//! The forms of the clip.

use super::{CASES, differ_on, equal_on};
use crate::strategies::{batch, on_policy};

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
