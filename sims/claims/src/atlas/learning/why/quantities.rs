//! Readings, regimes, and quantities that might explain a gain.

/// The readings of GRPO-lambda that are explained; the first is the headline's.
pub(crate) const READINGS: [&str; 4] =
    ["GRPO-λ recent", "GRPO-λ both", "GRPO-λ recent, no clamp", "GRPO-λ both, no clamp"];
/// GRPO with nothing of GRPO-lambda but its clamp.
pub(crate) const CLAMP: &str = "GRPO, clamp -0.1";

/// At what learning rate a reading and GRPO meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regime {
    /// Each at its own best rate.
    Tuned,
    /// Each at its own best rate, the reading's weights divided by their mean over each response.
    TunedUnit,
    /// Both at GRPO's best rate.
    Equal,
    /// Both at GRPO's best rate, weights divided by their mean over each response.
    EqualUnit,
    /// Both at a sixteenth of GRPO's best rate.
    Cautious,
    /// Both at a sixteenth of GRPO's best rate, weights divided by their mean over each response.
    CautiousUnit,
}

impl Regime {
    /// In the order of tables.
    pub(crate) const ALL: [Regime; 6] = [
        Regime::Tuned,
        Regime::TunedUnit,
        Regime::Equal,
        Regime::EqualUnit,
        Regime::Cautious,
        Regime::CautiousUnit,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Regime::Tuned => "tuned",
            Regime::TunedUnit => "tuned_unit_mean",
            Regime::Equal => "equal_rate",
            Regime::EqualUnit => "equal_rate_unit_mean",
            Regime::Cautious => "equal_rate_16th",
            Regime::CautiousUnit => "equal_rate_16th_unit_mean",
        }
    }
}

/// A possible cause of a gain.
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    /// For a reader of the table of correlations.
    pub(crate) about: &'static str,
    /// True if a positive value should go with a gain.
    pub(crate) signed: bool,
}

const fn quantity(name: &'static str, about: &'static str, signed: bool) -> Quantity {
    Quantity { name, about, signed }
}

/// The quantities, of the reading against GRPO. All but the last two are exact and known before any training.
pub(crate) const QUANTITIES: [Quantity; 11] = [
    quantity("cosine", "cosine of E[g] with ∇J, less GRPO's, initial policy", true),
    quantity("cosine_half_learned", "the same at the half-learned policy", true),
    quantity("log2_step", "log2 of |E[g]| over GRPO's, initial policy", true),
    quantity("log2_snr", "log2 of the signal to noise of the update over GRPO's, initial policy", true),
    quantity("log2_snr_half", "the same at the half-learned policy", true),
    quantity("longer_is_better", "correlation of advantage and expected length, initial policy", false),
    quantity("length_bias", "correlation of credit and expected length, less GRPO's, initial policy", false),
    quantity("helpful_length_bias", "length_bias times longer_is_better", true),
    quantity("start", "J/J* of the initial policy", false),
    quantity("clamp_gain", "measured gain of GRPO with the clamp alone, each at its own best rate", true),
    quantity(
        "final_gain",
        "measured difference of J/J* after the last update, each at its own best rate",
        true,
    ),
];

/// Places in [`QUANTITIES`].
pub(crate) const LOG2_STEP: usize = 2;
pub(crate) const CLAMP_GAIN: usize = 9;

/// Quantities that take training to know.
pub(crate) const MEASURED: [&str; 2] = ["clamp_gain", "final_gain"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_of_their_quantities() {
        assert_eq!([LOG2_STEP, CLAMP_GAIN].map(|q| QUANTITIES[q].name), ["log2_step", "clamp_gain"]);
        assert!(MEASURED.iter().all(|name| QUANTITIES.iter().any(|q| q.name == *name)));
    }
}
