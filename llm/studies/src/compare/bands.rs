//! Curves of several seeds as one line with a band.

use super::statistics::{IqmEstimate, spread};
use crate::curves::Points;

/// Interquartile mean and interval over seeds at every step that all curves have.
pub(super) fn bands(curves: &[Points]) -> Vec<(f64, IqmEstimate)> {
    let Some(first) = curves.first() else { return Vec::new() };
    let at = |x: f64| {
        let value = |c: &Points| c.iter().find(|p| p.0 == x).map(|p| p.1);
        curves.iter().map(value).collect::<Option<Vec<f64>>>()
    };
    first.iter().filter_map(|p| Some((p.0, spread(&at(p.0)?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_stand_where_all_seeds_have_a_value() {
        let curves = [vec![(0.0, 0.2), (5.0, 0.4), (10.0, 0.6)], vec![(0.0, 0.4), (10.0, 0.8)]];
        let bands = bands(&curves);
        assert_eq!(bands.iter().map(|b| b.0).collect::<Vec<_>>(), [0.0, 10.0]);
        // Of two seeds the interquartile mean is the mean, and the bootstrap reaches both.
        let (mid, ends) = (bands[1].1.mid, bands[1].1.ends);
        assert!((mid - 0.7).abs() < 1e-12);
        assert_eq!(ends, Some([0.6, 0.8]));
    }
}
