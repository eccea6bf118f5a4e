//! One worker.

use super::{Collective, CollectiveError};

/// A team of one worker: every call returns its input.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleWorker;

impl Collective for SingleWorker {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_reduce(&mut self, _values: &mut [f32]) -> Result<(), CollectiveError> {
        Ok(())
    }

    fn gather(&mut self, rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, CollectiveError> {
        Ok(rows.to_vec())
    }

    fn broadcast(&mut self, root: usize, _values: &mut [f32]) -> Result<(), CollectiveError> {
        if root > 0 {
            return Err(CollectiveError::Root { root, workers: 1 });
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        Ok(())
    }

    fn abort(&mut self, _reason: &str) {}
}
