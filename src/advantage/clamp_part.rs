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
    /// The clamp minus its mean over the group.
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
