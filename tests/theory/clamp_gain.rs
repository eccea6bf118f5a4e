//! The clamp, taken apart: a re-weighting of prompts plus an offset, which re-weights them, too.

use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};

const GROUP: usize = 8;

/// Advantages of a group with `right` right ones: of a right one, of a wrong one.
fn pair(clamp: Option<f64>, right: usize) -> [f64; 2] {
    let outcome = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
    let rewards = (0..GROUP).map(|i| Some(f64::from(u8::from(i < right)))).collect();
    let a = &outcome.of_batch(&[rewards])[0];
    [a[0], a[GROUP - 1]]
}

#[test]
fn the_clamp_shrinks_the_spread_of_every_mixed_group_and_adds_an_offset() {
    for right in 1..GROUP {
        let ([r, w], [cr, cw]) = (pair(None, right), pair(Some(-0.1), right));
        assert_eq!(r, cr);
        assert!(cr - cw < r - w && cw == -0.1);
        let offset = (right as f64 * cr + (GROUP - right) as f64 * cw) / GROUP as f64;
        assert!(offset > 0.0, "{right}: {offset}");
    }
}

#[test]
fn the_offset_depends_on_how_many_are_right_so_that_its_mean_push_is_not_zero() {
    // E[α_k (k - G p)] / (G p (1-p)), by enumeration of all 256 groups of eight.
    let p: f64 = 0.3;
    let mut push = 0.0;
    for bits in 0..1u32 << GROUP {
        let right = bits.count_ones() as usize;
        if right == 0 || right == GROUP {
            continue;
        }
        let [cr, cw] = pair(Some(-0.1), right);
        let k = right as f64;
        let offset = (k * cr + (GROUP as f64 - k) * cw) / GROUP as f64;
        let chance = p.powi(right as i32) * (1.0 - p).powi((GROUP - right) as i32);
        push += chance * offset * (k - GROUP as f64 * p) / (GROUP as f64 * p * (1.0 - p));
    }
    assert!(push.abs() > 0.05, "{push}");
}
