//! The sequence-level ratio.

use super::{CASES, method};
use crate::strategies::{batch, check};
use crate::tolerance::{IDENTITY, assert_within};
use grpo_lambda::methods::Configured;
use std::cell::Cell;

/// GSPO with a clip wide enough that random batches are on both sides of it.
fn sequence() -> Configured {
    method("gspo epsilon_low=0.2 epsilon_high=0.2")
}

#[test]
fn the_sequence_trace_gives_every_token_the_geometric_mean_ratio_of_gspo() {
    let (clipped, free) = (Cell::new(0), Cell::new(0));
    check(4 * CASES, batch(), |batch| {
        let loss = batch.evaluate(&sequence());
        let b = batch.logps.len() as f64;
        let mut value = 0.0;
        let mut ratios = 0.0;
        for (i, r) in batch.responses().enumerate() {
            let n = r.len() as f64;
            let mean = (0..r.len()).map(|t| batch.logps[i][t] - r.old_logps[t]).sum::<f64>() / n;
            let (s, a) = (mean.exp(), loss.advantages[i][0]);
            let clip = s.clamp(0.8, 1.2);
            value -= (s * a).min(clip * a) / b;
            ratios += n * s;
            // d/dlogp of -s A / B is -s A / (B T) at every token, 0 where the clip decides.
            let active = s * a <= clip * a;
            let slope = if active { -s * a / (b * n) } else { 0.0 };
            assert_within(&loss.dlogps[i], &vec![slope; r.len()], IDENTITY, 1.0, "gradient");
            let counter = if active { &free } else { &clipped };
            counter.set(counter.get() + 1);
        }
        assert_within(&[loss.value], &[value], IDENTITY, 10.0, "value");
        assert_within(&[loss.metrics.ratio_sum], &[ratios], IDENTITY, ratios, "ratios");
    });
    assert!(clipped.get() > 5 && free.get() > 100, "{} {}", clipped.get(), free.get());
}
