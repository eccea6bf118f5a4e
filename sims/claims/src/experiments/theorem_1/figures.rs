//! The figure.

use super::measure::{Length, Numbers};
use crate::experiments::common::text::rounding_error;
use crate::experiments::common::vectors::largest;
use crate::figure::{Axis, Figure, Panel};

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let of = |part: fn(&Length) -> f64| {
        let undiscounted = n.lengths.iter().filter(|l| l.q == 1.0);
        undiscounted.map(move |l| (l.len as f64, part(l)))
    };
    let counted = Panel::new("How often the return r - V(s₀) enters Σ δ_t")
        .x(Axis::new("tokens T").log())
        .y(Axis::new("Σ δ_t / (r - V(s₀))").log())
        .line("TD errors of any critic", of(|l| l.counted_td))
        .line("A_NAE at every token", of(|l| l.counted_nae));
    let most = largest(n.lengths.iter().map(|l| l.difference));
    let figure = Figure::new("Theorem 1 is exact for any numbers; it does not license δ_t = A_NAE, which counts the return T times")
        .caption(format!(
            "γ = 1, TD errors of a random critic. The theorem itself has no picture: the largest difference of its two sides is {} of Σ|terms| in f64 (random numbers, T up to {}, \
             γλ = 0.9, 0.99 and 1), and 0 in exact rationals.",
            rounding_error(most),
            n.lengths.iter().map(|l| l.len).max().unwrap_or(0)
        ))
        .panel_size(700, 340)
        .panel(counted);
    vec![(String::new(), figure)]
}
