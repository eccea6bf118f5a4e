//! A worked case: one state with three actions.

use super::divergence::{ESTIMATORS, forward, moments, reverse};
use crate::experiments::common::vectors::{EXACT, cosine, gap, norm};

/// The distributions. A published table gives only the gradients, to four digits; these two are the one solution of
/// `π - ref = (0.1509, 0.2927, -0.4436)` and `∇KL(π||ref) = (0.0033, 0.2365, -0.2398)`, by Newton's method from every point
/// of a grid.
const PI: [f64; 3] = [0.404_936_202_1, 0.475_715_477_3, 0.119_348_320_6];
const REF: [f64; 3] = [0.254_036_202_1, 0.183_015_477_3, 0.562_948_320_6];
/// Expected gradients as published: true and `k2`, `ratio_k3`; `k3`.
const PUBLISHED_REVERSE: [f64; 3] = [0.0033, 0.2365, -0.2398];
const PUBLISHED_K3: [f64; 3] = [0.1509, 0.2927, -0.4436];

pub(super) struct Hand {
    pub(super) rows: Vec<Row>,
    /// The largest difference from the published table.
    pub(super) off: f64,
    /// Of the published rows of k3 and of the true gradient.
    pub(super) published_cosine: f64,
}

/// A gradient of the case.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) gradient: Vec<f64>,
    /// `None` where it is not an expectation.
    pub(super) variance: Option<f64>,
    /// With `∇KL(π||ref)`; `None` where the gradient is 0.
    pub(super) cosine: Option<f64>,
}

impl Row {
    fn new(name: &'static str, gradient: Vec<f64>, variance: Option<f64>) -> Row {
        let cosine = (norm(&gradient) > EXACT).then(|| cosine(&gradient, &reverse(&PI, &REF)));
        Row { name, gradient, variance, cosine }
    }
}

pub(super) fn hand() -> Hand {
    let want = reverse(&PI, &REF);
    let mut off = gap(&want, &PUBLISHED_REVERSE);
    let mut rows = vec![
        Row::new("true ∇KL(π||ref)", want, None),
        Row::new("true ∇KL(ref||π)", forward(&PI, &REF), None),
    ];
    let published = [[0.0; 3], PUBLISHED_REVERSE, PUBLISHED_K3, PUBLISHED_REVERSE];
    for ((name, kl), published) in ESTIMATORS.into_iter().zip(published) {
        let (mean, variance) = moments(kl, &PI, &PI, &REF);
        off = off.max(gap(&mean, &published));
        rows.push(Row::new(name, mean, Some(variance)));
    }
    Hand { rows, off, published_cosine: cosine(&PUBLISHED_K3, &PUBLISHED_REVERSE) }
}
