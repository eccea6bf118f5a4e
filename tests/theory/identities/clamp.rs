//! The lower clamp of the advantage.

use crate::tolerance::IDENTITY;
use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};

#[test]
fn the_clamp_keeps_every_sign_of_a_binary_group_and_breaks_its_zero_sum() {
    // Erratum E14. One group, 0 < right < G.
    for size in 2..=16usize {
        for right in 1..size {
            let rewards: Vec<_> = (0..size).map(|i| Some(f64::from(i < right))).collect();
            let clamped = |clamp| {
                let z =
                    OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
                z.of_batch(std::slice::from_ref(&rewards)).concat()
            };
            let (free, clamped) = (clamped(None), clamped(Some(-0.1)));
            assert!(free.iter().zip(&clamped).all(|(f, c)| f.signum() == c.signum()));
            assert!(free.iter().sum::<f64>().abs() < 1e2 * IDENTITY);
            assert_eq!(free[..right], clamped[..right], "right responses are untouched");
            let pushed = clamped.iter().sum::<f64>() > 1e-3;
            assert_eq!(pushed, free[size - 1] < -0.1, "{right} of {size}");
        }
    }
}
