use super::{Assignment, counted};
use crate::advantage::all_equal;
use crate::equation::{Part, inner, number};
use crate::group::Group;

/// Another assignment, centred and scaled over every token of the batch that carries weight and a reward.
///
/// ```text
/// A' = (A - mean A) / sqrt(var A + 1e-8)          var with ddof 1
/// ```
/// Long responses have more tokens, hence more say in both statistics. Without spread the result is 0.
///
/// Source: verl `masked_whiten`.
#[derive(Debug)]
pub struct Whitened {
    /// The assignment whose advantages are whitened.
    pub inner: Box<dyn Assignment>,
    /// True if a batch whose rewards agree has the same inner advantage at every token, which whitening turns into 0.
    pub uniform: bool,
}

/// Added to the variance before its root is taken.
const EPSILON: f64 = 1e-8;

impl Assignment for Whitened {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let mut advantages = self.inner.advantages(batch, active);
        let counts: Vec<bool> = counted(batch, active).map(|(_, counts)| counts).collect();
        let rows = advantages.iter().zip(&counts).filter(|(_, counts)| **counts);
        let all: Vec<f64> = rows.flat_map(|(row, _)| row.iter().copied()).collect();
        let n = all.len() as f64;
        let first = all.iter().sum::<f64>() / n;
        let mean = first + all.iter().map(|a| a - first).sum::<f64>() / n;
        let variance = all.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let scale = if all_equal(&all) { 0.0 } else { 1.0 / (variance + EPSILON).sqrt() };
        for (row, counts) in advantages.iter_mut().zip(counts) {
            row.iter_mut().for_each(|a| *a = if counts && scale > 0.0 { (*a - mean) * scale } else { 0.0 });
        }
        advantages
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let raw = inner(token);
        let whitened = format!(
            "{token} = ({raw} - m) / sqrt(v + {}), m and v the mean and variance (over n - 1) of {raw} over every token of the batch; \
             0 where all agree",
            number(EPSILON)
        );
        [vec![("whitened", whitened)], self.inner.equation(&raw)].concat()
    }

    fn needs_others(&self) -> bool {
        self.inner.needs_others()
    }

    fn compares(&self) -> bool {
        self.uniform || self.inner.compares()
    }
}
