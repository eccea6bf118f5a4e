//! [`ClampPart`]: the clamp of advantages, taken apart.

use super::deviation::mean;

/// The parts of a clamp `C_i = max(A_i, clamp)` of a group's advantages `A_i` are on.
///
/// ```text
/// none          A_i
/// re-weighting  C_i - α          α = the mean of C over the group
/// offset        A_i + α
/// both          C_i
/// ```
/// With binary rewards `C_i = β (r_i - r̄) + α`: re-weighting changes `β`, by which a prompt counts more or less, and the offset adds
/// the same `α` to every response. Re-weighting alone is the clamp with its sum put back to 0. Source: ours.
///
/// ```
/// use grpo_lambda::advantage::ClampPart;
/// let (plain, clamped) = ([1.5, -0.5, -0.5, -0.5], [1.5, -0.1, -0.1, -0.1]);
/// assert_eq!(ClampPart::Reweighting.of_group(&plain, &clamped)[1], -0.1 - 0.3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClampPart {
    /// No clamp.
    None,
    /// The clamp less its mean over the group.
    Reweighting,
    /// The mean of the clamp over the group, added to the advantages without one.
    Offset,
    /// The clamp.
    Both,
}

impl ClampPart {
    /// Every part: none, each alone, both.
    pub const ALL: [ClampPart; 4] =
        [ClampPart::None, ClampPart::Reweighting, ClampPart::Offset, ClampPart::Both];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            ClampPart::None => "none",
            ClampPart::Reweighting => "re-weighting only",
            ClampPart::Offset => "offset only",
            ClampPart::Both => "both (the clamp)",
        }
    }

    /// The advantages of a group, from those without the clamp and those with it. Responses without a reward must be left out of both.
    ///
    /// # Panics
    /// If the two differ in length.
    pub fn of_group(self, plain: &[f64], clamped: &[f64]) -> Vec<f64> {
        assert_eq!(plain.len(), clamped.len(), "a clamp keeps the number of advantages");
        if plain.is_empty() {
            return Vec::new();
        }
        let alpha = mean(clamped);
        match self {
            ClampPart::None => plain.to_vec(),
            ClampPart::Reweighting => clamped.iter().map(|c| c - alpha).collect(),
            ClampPart::Offset => plain.iter().map(|a| a + alpha).collect(),
            ClampPart::Both => clamped.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advantage::{Baseline, OutcomeAdvantage, Scale, Std};

    #[test]
    fn the_parts_of_binary_groups_are_a_slope_and_an_offset_that_add_up_to_the_clamp() {
        for right in 1..8 {
            let rewards: Vec<_> = (0..8).map(|i| Some(f64::from(u8::from(i < right)))).collect();
            let clamped = |clamp| {
                let outcome =
                    OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
                outcome.of_batch(std::slice::from_ref(&rewards)).remove(0)
            };
            let (plain, clamped) = (clamped(None), clamped(Some(-0.1)));
            let [_, reweighted, offset, both] = ClampPart::ALL.map(|part| part.of_group(&plain, &clamped));
            assert_eq!(both, clamped);
            assert!(reweighted.iter().sum::<f64>().abs() < 1e-12, "{right}");
            let slope = |a: &[f64]| a[0] - a[7];
            assert!((slope(&reweighted) - slope(&clamped)).abs() < 1e-12);
            assert!((slope(&offset) - slope(&plain)).abs() < 1e-12);
            for i in 0..8 {
                assert!((offset[i] + reweighted[i] - plain[i] - clamped[i]).abs() < 1e-12, "{right} {i}");
            }
        }
        assert_eq!(ClampPart::Offset.of_group(&[], &[]), Vec::<f64>::new());
    }
}
