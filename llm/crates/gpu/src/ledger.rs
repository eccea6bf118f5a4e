//! The account of allocations on a device, by use, now and at the peak.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes by use.
pub type Uses = BTreeMap<&'static str, u64>;

/// The use of activations.
pub(crate) const ACTIVATIONS: &str = "activations";

/// Counts allocations. Sizes are rounded up to 256 bytes, as the device does.
#[derive(Debug, Default)]
pub struct Ledger {
    counts: Mutex<Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    now: Uses,
    total: u64,
    peak: u64,
    at_peak: Uses,
}

impl Ledger {
    /// Allocations are multiples of so many bytes.
    pub(crate) const GRANULARITY: u64 = 256;

    /// An allocation of this size, as it counts.
    pub fn rounded(bytes: usize) -> u64 {
        (bytes as u64).div_ceil(Self::GRANULARITY) * Self::GRANULARITY
    }

    /// Memory was taken.
    pub fn take(&self, what: &'static str, bytes: usize) {
        let bytes = Self::rounded(bytes);
        let mut counts = self.lock();
        *counts.now.entry(what).or_default() += bytes;
        counts.total += bytes;
        if counts.total > counts.peak {
            counts.peak = counts.total;
            counts.at_peak = counts.now.clone();
        }
    }

    /// Memory was given back.
    pub fn give(&self, what: &'static str, bytes: usize) {
        let bytes = Self::rounded(bytes);
        let mut counts = self.lock();
        if let Some(held) = counts.now.get_mut(what) {
            *held = held.saturating_sub(bytes);
        }
        counts.total = counts.total.saturating_sub(bytes);
    }

    /// Bytes held.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// Most bytes held at once since the start or [`Ledger::forget_peak`], and their uses.
    pub fn peak(&self) -> (u64, Uses) {
        let counts = self.lock();
        (counts.peak, counts.at_peak.clone())
    }

    /// The peak begins again with what is held now.
    pub fn forget_peak(&self) {
        let mut counts = self.lock();
        counts.peak = counts.total;
        counts.at_peak = counts.now.clone();
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_remembers_what_it_was_made_of() {
        let ledger = Ledger::default();
        ledger.take("weights", 1000);
        ledger.take("activations", 300);
        ledger.give("activations", 300);
        ledger.take("optimiser", 256);
        assert_eq!(ledger.total(), 1024 + 256);
        assert_eq!(ledger.peak(), (1024 + 512, BTreeMap::from([("weights", 1024), ("activations", 512)])));
        ledger.forget_peak();
        assert_eq!(ledger.peak().0, 1280);
    }
}
