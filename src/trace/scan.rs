//! The linear-time building blocks of every trace, generic over the number type.
//!
//! They run on `f64` in training and on exact rationals in the proof of Theorem 1: it is the same code.

use num_traits::Num;

/// Decayed prefix sums, in place: `z_t = q z_{t-1} + x_t`, that is `z_t = sum_{k<=t} q^(t-k) x_k`.
///
/// GRPO-lambda's Eq. 15. `q = 1` gives cumulative sums, `q = 0` leaves the slice as it is.
///
/// ```
/// let mut x = [1.0, 1.0, 1.0];
/// grpo_lambda::trace::scan::decayed_prefix(0.5, &mut x);
/// assert_eq!(x, [1.0, 1.5, 1.75]);
/// ```
pub fn decayed_prefix<N: Num + Copy>(q: N, x: &mut [N]) {
    let mut z = N::zero();
    for x in x {
        z = q * z + *x;
        *x = z;
    }
}

/// Decayed suffix sums, in place: `g_k = y_k + q g_{k+1}`, the adjoint of [`decayed_prefix`] and the recursion of GAE.
///
/// ```
/// let mut y = [1.0, 1.0, 1.0];
/// grpo_lambda::trace::scan::decayed_suffix(0.5, &mut y);
/// assert_eq!(y, [1.75, 1.5, 1.0]);
/// ```
pub fn decayed_suffix<N: Num + Copy>(q: N, y: &mut [N]) {
    let mut g = N::zero();
    for y in y.iter_mut().rev() {
        g = *y + q * g;
        *y = g;
    }
}

/// `[1, q, q^2, .. q^(n-1)]`.
pub(super) fn powers(q: f64, n: usize) -> Vec<f64> {
    // Not collected from `successors`, which cannot announce its length: the vector would grow again and again.
    let mut powers = vec![1.0; n];
    for i in 1..n {
        powers[i] = powers[i - 1] * q;
    }
    powers
}

/// The geometric sum `1 + q + .. + q^(n-1)`, in closed form where that is accurate.
pub(super) fn geometric(q: f64, n: usize) -> f64 {
    if q == 1.0 || n < 2 {
        n as f64 // exact, which the quotient below is not
    } else {
        // -expm1(n ln q) = 1 - q^n without cancellation when q is close to 1.
        -((n as f64) * q.ln()).exp_m1() / (1.0 - q)
    }
}
