//! The dry run: a device that computes nothing and counts everything.
//!
//! A step run on it goes through the same code as on a GPU: the same buffers at the same times, the same launches. So its
//! ledger is the memory the step takes, and its counters are the work. What it returns when asked for numbers are zeros.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use grpo_lambda_decoder::device::{DeviceError, Dtype};

use super::device::{Arg, Device, DriverMemory, Gemm, Graph};
use super::ledger::Ledger;

/// See the module.
#[derive(Debug, Default)]
pub struct Dry {
    ledger: Ledger,
    next: AtomicU64,
    work: Mutex<Work>,
}

/// What was asked of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Kernels launched.
    pub launches: u64,
    /// Matrix products launched.
    pub products: u64,
    /// Operations of these and of the products within kernels, a multiply-add as two.
    pub operations: f64,
}

impl Dry {
    /// What was asked so far.
    pub fn work(&self) -> Work {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, change: impl FnOnce(&mut Work)) {
        change(&mut self.work.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What was captured has been counted; replaying it is not counted again.
struct Counted;

impl Graph for Counted {
    fn replay(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Device for Dry {
    fn name(&self) -> String {
        "dry run".to_owned()
    }
    fn allocate(&self, what: &'static str, bytes: usize) -> Result<u64, DeviceError> {
        self.ledger.take(what, bytes);
        Ok(Ledger::GRANULARITY + self.next.fetch_add(Ledger::rounded(bytes), Ordering::Relaxed))
    }
    fn free(&self, what: &'static str, _: u64, bytes: usize) {
        self.ledger.give(what, bytes);
    }
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }
    fn memory(&self) -> Result<(u64, u64), DeviceError> {
        Ok((u64::MAX, u64::MAX))
    }
    /// A driver that rounds as the ledger does and keeps nothing.
    fn driver_memory(&self) -> Result<DriverMemory, DeviceError> {
        Ok(DriverMemory { held: self.ledger.total(), peak: self.ledger.peak().0, outside: 0 })
    }
    fn restart_driver_peak(&self) -> Result<(), DeviceError> {
        self.ledger.forget_peak();
        Ok(())
    }
    fn upload(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn download(&self, _: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        bytes.fill(0);
        Ok(())
    }
    fn copy(&self, _: u64, _: u64, _: usize) -> Result<(), DeviceError> {
        Ok(())
    }
    fn clear(&self, _: u64, _: usize) -> Result<(), DeviceError> {
        Ok(())
    }
    fn launch(&self, _: &'static str, _: Dtype, _: (u32, u32), _: u32, _: &[Arg]) -> Result<(), DeviceError> {
        self.add(|work| work.launches += 1);
        Ok(())
    }
    fn count(&self, operations: f64) {
        self.add(|work| work.operations += operations);
    }
    fn gemm(&self, gemm: &Gemm) -> Result<(), DeviceError> {
        self.add(|work| {
            work.products += 1;
            work.operations += gemm.operations();
        });
        Ok(())
    }
    fn begin_capture(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn end_capture(&self) -> Result<Box<dyn Graph>, DeviceError> {
        Ok(Box::new(Counted))
    }
    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}
