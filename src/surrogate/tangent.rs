//! The exponential of a log-ratio, kept finite.

/// A value and its derivative with respect to the log-ratio `z`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ValueAndSlope {
    /// The value.
    pub value: f64,
    /// `d value / d z`.
    pub slope: f64,
}

/// Log-ratio above which [`exp_tangent`] continues in a straight line.
///
/// `e^20 = 4.9e8`: far beyond any ratio a trust region could mean, and still small enough that sums over 16,384
/// tokens and an f32 cotangent hold it.
pub const LOG_RATIO_LIMIT: f64 = 20.0;

/// `exp(z)` up to [`LOG_RATIO_LIMIT`], its tangent above it; with its slope.
///
/// ```text
/// z <= 20   e^z                    slope e^z
/// z >  20   e^20 (1 + z - 20)      slope e^20
/// ```
/// A trace adds up log-ratios: 16,384 tokens at 20 nats each reach `z = 2 million` with `q` near 1, and `exp` overflows
/// to infinity from 710. Cutting the exponent off would make the gradient of a runaway token zero, exactly when it
/// should be pulled back; the tangent keeps the function continuously differentiable, every value finite and the
/// direction of the gradient right. Below the limit nothing changes. How many tokens lie beyond it is reported as
/// [`Metrics::saturated`](crate::metrics::Metrics::saturated). Downwards `exp` needs no care: it goes to 0.
pub fn exp_tangent(z: f64) -> ValueAndSlope {
    continue_tangent(z, exp_bounded(z))
}

/// The exponential in [`exp_tangent`]: its slope.
pub(crate) fn exp_bounded(z: f64) -> f64 {
    z.min(LOG_RATIO_LIMIT).exp()
}

/// [`exp_tangent`] from its slope `e = exp_bounded(z)`.
pub(super) fn continue_tangent(z: f64, e: f64) -> ValueAndSlope {
    ValueAndSlope { value: e * (1.0 + (z - LOG_RATIO_LIMIT).max(0.0)), slope: e }
}
