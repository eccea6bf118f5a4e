//! The seam between a computation and its device: memory by address, kernels by name, matrix products.

use std::fmt::Debug;

use super::gemm::Gemm;
use super::ledger::Ledger;
use super::ptr::Arg;
use grpo_lambda_decoder::device::{DeviceError, Dtype};

/// Takes a device's lines for the user, such as a directory of kernels.
pub(crate) type Report = fn(&str);

/// A captured sequence of launches that runs again as one: what CUDA calls a graph.
pub trait Graph: Send {
    /// Launches it, in order after what was launched before.
    fn replay(&self) -> Result<(), DeviceError>;
}

/// Memory as the driver of a device counts it, in bytes: with what its pages round up to and what lies idle between allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverMemory {
    /// Held for allocations now.
    pub held: u64,
    /// Most held for allocations since the start or [`Device::restart_driver_peak`].
    pub peak: u64,
    /// Other memory in use on the device: by the driver's context, machine code, graphs, and other processes.
    pub outside: u64,
}

/// Work of the host for a step, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostWork {
    /// Sent between host and device.
    pub link: f64,
    /// Read and written in the host's memory.
    pub memory: f64,
}

/// Memory and work of one device: CUDA, or a dry run that counts.
///
/// It works on bare addresses; [`super::ptr`] and [`super::kernels`] give them types. Everything is done in the order of the calls, as on
/// one stream; only [`Device::upload`], [`Device::download`] and [`Device::synchronize`] wait.
pub trait Device: Send + Sync + Debug {
    /// Its name, for people: `NVIDIA H200`.
    fn name(&self) -> String;

    /// The card, its driver and its libraries, on whom depends whether it computes what it should; `None` if there is nothing to prove.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Memory for `bytes`, at an address aligned to 256; its content is undefined. `what` names its use in [`super::ledger`].
    fn allocate(&self, what: &'static str, bytes: usize) -> Result<u64, DeviceError>;

    /// Gives memory back.
    fn free(&self, what: &'static str, address: u64, bytes: usize);

    /// The account of allocations, now and at the peak.
    fn ledger(&self) -> &Ledger;

    /// Free and total bytes of the device; what other processes hold is not free.
    fn memory(&self) -> Result<(u64, u64), DeviceError>;

    /// The driver's account of memory; [`Device::ledger`] has the requests.
    fn driver_memory(&self) -> Result<DriverMemory, DeviceError>;

    /// Gives the memory kept for later allocations back to the driver; [`DriverMemory::peak`] begins again.
    fn restart_driver_peak(&self) -> Result<(), DeviceError>;

    /// Host to device.
    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Device to host, after all that was launched.
    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Device to device; the two do not overlap.
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), DeviceError>;

    /// Zero bytes.
    fn clear(&self, address: u64, bytes: usize) -> Result<(), DeviceError>;

    /// Runs `name` of [`super::kernels`], built for `dtype`, on `grid` blocks of `block` threads.
    fn launch(
        &self,
        name: &'static str,
        dtype: Dtype,
        grid: (u32, u32),
        block: u32,
        args: &[Arg],
    ) -> Result<(), DeviceError>;

    /// Tells a device that counts of the kernel launched next: its name, its operations in matrix products, and the bytes it moves.
    fn count(&self, _name: &'static str, _operations: f64, _bytes: f64) {}

    /// Does work of the host that the device waits for. A device that only counts does not do it.
    fn on_host(
        &self,
        _amount: HostWork,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        work()
    }

    /// A matrix product.
    fn gemm(&self, gemm: &Gemm) -> Result<(), DeviceError>;

    /// Captures launches, products, copies and clears instead of running them, until [`Device::end_capture`]. Nothing may be
    /// allocated, freed, uploaded or downloaded in between.
    fn begin_capture(&self) -> Result<(), DeviceError>;

    /// The captured graph. Its addresses must stay allocated as long as it is replayed.
    fn end_capture(&self) -> Result<Box<dyn Graph>, DeviceError>;

    /// Waits for all that was launched.
    fn synchronize(&self) -> Result<(), DeviceError>;
}
