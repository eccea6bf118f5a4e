//! [`Std`]: the standard deviation that rewards are divided by.

/// A standard deviation kept away from zero: `std = sqrt(sum (r - mean)^2 / (n - ddof)) + epsilon`.
///
/// Every public implementation chooses differently; the presets are theirs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Std {
    /// Delta degrees of freedom: 1 (Bessel, `torch.std`) or 0.
    pub ddof: u8,
    /// Added to the standard deviation.
    pub epsilon: f64,
}

impl Std {
    /// Hugging Face TRL: ddof 1, 1e-4.
    pub const TRL: Std = Std { ddof: 1, epsilon: 1e-4 };
    /// verl (and TEMPO): ddof 1, 1e-6.
    pub const VERL: Std = Std { ddof: 1, epsilon: 1e-6 };
    /// understand-r1-zero: ddof 1, 1e-8.
    pub const UNDERSTAND_R1_ZERO: Std = Std { ddof: 1, epsilon: 1e-8 };
    /// OpenRLHF's `group_norm`: ddof 1, 1e-9.
    pub const OPENRLHF: Std = Std { ddof: 1, epsilon: 1e-9 };
    /// DeepSeekMath, as printed: no epsilon. The text does not say which ddof; 0, the plain definition of std, is our choice.
    pub const DEEPSEEKMATH: Std = Std { ddof: 0, epsilon: 0.0 };

    /// The mean of these values, not all equal, and the divisor of the differences from it.
    pub(crate) fn centre_and_divisor(self, values: &[f64]) -> (f64, f64) {
        (mean(values), self.divisor(values))
    }

    /// The divisor for these values, not all equal. In two passes: the one-pass form `E[x^2] - E[x]^2` loses all digits when
    /// rewards are close to each other. In units of the largest deviation: the square of 1e-200 would be 0, and that of 1e200
    /// infinite.
    pub(super) fn divisor(self, values: &[f64]) -> f64 {
        let mean = mean(values);
        let largest = values.iter().fold(0.0, |m, r| f64::max(m, (r - mean).abs()));
        let squares: f64 = values.iter().map(|r| ((r - mean) / largest).powi(2)).sum();
        largest * (squares / (values.len() as f64 - f64::from(self.ddof))).sqrt() + self.epsilon
    }
}

/// The mean, corrected once by the mean of what it leaves over, so that close rewards keep their differences.
pub(super) fn mean(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    mean + values.iter().map(|r| r - mean).sum::<f64>() / n
}
