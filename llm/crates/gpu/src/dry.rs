//! The dry run: a device that computes nothing and counts everything.
//!
//! A step on it goes through the same code as on a GPU: the same buffers at the same times, the same launches. So its ledger is the memory
//! of the step, and its counters are the work. Its numbers are zeros.

use std::collections::BTreeMap;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use grpo_lambda_decoder::device::{DeviceError, Dtype};

use super::device::{Device, DriverMemory, Graph, HostWork};
use super::gemm::Gemm;
use super::ledger::Ledger;
use super::ptr::Arg;

/// A device that counts memory and work.
#[derive(Debug, Default)]
pub struct Dry {
    ledger: Ledger,
    next: AtomicU64,
    ceilings: Ceilings,
    work: Mutex<Work>,
    kernels: Mutex<BTreeMap<&'static str, f64>>,
}

/// The rates that no launch exceeds and the gap between launches, from which the seconds of [`Work`] are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes read and written a second.
    pub bandwidth: f64,
    /// Operations of matrix products a second.
    pub operations: f64,
    /// Seconds between the end of a launch and the beginning of the next.
    pub gap: f64,
    /// Bytes a second between host and device.
    pub link: f64,
    /// Bytes a second that the host reads and writes in its own memory.
    pub host: f64,
}

impl Default for Ceilings {
    /// An H100: 3.0 TB/s in a large copy and 798 Tflop/s in a large product of bf16, as measured on one; 1.35 microseconds between two
    /// nodes of a graph, assumed (0.35 ms for 260). Of its host, assumed: 10 GB/s to and from memory that is not page-locked, and 100 GB/s in its
    /// own memory, with a core or more for each 10 of them.
    fn default() -> Self {
        Ceilings { bandwidth: 3.0e12, operations: 7.98e14, gap: 1.35e-6, link: 1.0e10, host: 1.0e11 }
    }
}

/// Work done by a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Kernels launched.
    pub launches: u64,
    /// Matrix products launched.
    pub products: u64,
    /// Operations of these and of the products within kernels, a multiply-add as two.
    pub operations: f64,
    /// Bytes that launches, copies and clears must read and write: each array of each of them once.
    pub bytes: f64,
    /// Bytes of [`HostWork`] between host and device.
    pub link: f64,
    /// Seconds that they take at least: each the longer of its bytes and its operations at the [`Ceilings`], and a gap after it. No card
    /// keeps its ceilings at every size, so the true time is longer. Of what the host does, and copies from and to it, [`HostWork`] alone is in
    /// it.
    pub seconds: f64,
}

impl Work {
    /// So many times this work.
    pub fn times(self, n: u64) -> Work {
        let factor = n as f64;
        Work {
            launches: n * self.launches,
            products: n * self.products,
            operations: factor * self.operations,
            bytes: factor * self.bytes,
            link: factor * self.link,
            seconds: factor * self.seconds,
        }
    }
}

impl Add for Work {
    type Output = Work;

    fn add(self, other: Work) -> Work {
        Work {
            launches: self.launches + other.launches,
            products: self.products + other.products,
            operations: self.operations + other.operations,
            bytes: self.bytes + other.bytes,
            link: self.link + other.link,
            seconds: self.seconds + other.seconds,
        }
    }
}

impl Sub for Work {
    type Output = Work;

    /// The work after `before`.
    fn sub(self, before: Work) -> Work {
        Work {
            launches: self.launches - before.launches,
            products: self.products - before.products,
            operations: self.operations - before.operations,
            bytes: self.bytes - before.bytes,
            link: self.link - before.link,
            seconds: self.seconds - before.seconds,
        }
    }
}

impl Dry {
    /// A dry device whose seconds follow these rates.
    pub fn at(ceilings: Ceilings) -> Self {
        Dry { ceilings, ..Dry::default() }
    }

    /// The rates.
    pub fn ceilings(&self) -> Ceilings {
        self.ceilings
    }

    /// The work so far.
    pub fn work(&self) -> Work {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seconds of [`Work`] so far by kernel, with those of products, copies and clears.
    pub fn kernels(&self) -> BTreeMap<&'static str, f64> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, name: &'static str, operations: f64, bytes: f64, change: impl FnOnce(&mut Work)) {
        let Ceilings { bandwidth, operations: rate, gap, .. } = self.ceilings;
        let seconds = (bytes / bandwidth).max(operations / rate) + gap;
        *self.kernels.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += seconds;
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.operations += operations;
        work.bytes += bytes;
        work.seconds += seconds;
        change(&mut work);
    }
}

/// A captured graph: counted when captured, not when replayed.
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
    fn copy(&self, _: u64, _: u64, bytes: usize) -> Result<(), DeviceError> {
        self.add("copies", 0.0, 2.0 * bytes as f64, |_| {});
        Ok(())
    }
    fn clear(&self, _: u64, bytes: usize) -> Result<(), DeviceError> {
        self.add("clears", 0.0, bytes as f64, |_| {});
        Ok(())
    }
    fn launch(&self, _: &'static str, _: Dtype, _: (u32, u32), _: u32, _: &[Arg]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn count(&self, name: &'static str, operations: f64, bytes: f64) {
        self.add(name, operations, bytes, |work| work.launches += 1);
    }
    fn on_host(
        &self,
        amount: HostWork,
        _: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Ceilings { link, host, .. } = self.ceilings;
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.link += amount.link;
        work.seconds += amount.link / link + amount.memory / host;
        Ok(())
    }
    fn gemm(&self, gemm: &Gemm) -> Result<(), DeviceError> {
        self.add("products", gemm.operations(), gemm.bytes(), |work| work.products += 1);
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
