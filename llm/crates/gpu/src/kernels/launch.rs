//! How a kernel is launched: its name, its grid and its arguments in order.

use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::device::Dtype;

use crate::array::Array;
use crate::device::Device;
use crate::gemm::Gemm;
use crate::ptr::{Arg, Element};

/// One launch of a kernel: its arguments by name.
///
/// Every implementor stands beside the source of its kernel. Outputs overlap neither each other nor inputs, unless the comment on the
/// implementor says that they may.
pub trait Kernel {
    /// Name of the kernel; its entry is `NAME_f32` or `NAME_bf16`.
    const NAME: &'static str;
    /// Threads of a block.
    const BLOCK: u32;

    /// Blocks, in two dimensions. With none there is nothing to launch.
    fn grid(&self) -> (u32, u32);

    /// The arguments, in the order of the kernel's parameters.
    fn args(&self) -> Vec<Arg>;

    /// What it must read and write: every array once, of the cache as much as a row can hold.
    fn bytes(&self) -> f64;

    /// What it computes in matrix products, a multiply-add as two operations.
    fn operations(&self) -> f64 {
        0.0
    }

    /// What must be so before the launch.
    ///
    /// # Errors
    /// When it cannot be launched with these arguments, or the device fails.
    fn prepare(&self, _device: &dyn Device) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// The kernels for one dtype on one device.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// Where they run.
    pub device: Arc<dyn Device>,
    /// How weights and activations are stored.
    pub dtype: Dtype,
}

impl Kernels {
    /// Launches a kernel, after all that was launched before.
    ///
    /// # Errors
    /// When the device fails, or the kernel cannot be launched with these arguments.
    pub fn launch<K: Kernel>(&self, kernel: K) -> Result<(), DeviceError> {
        kernel.prepare(&*self.device)?;
        let grid = kernel.grid();
        if grid.0 == 0 || grid.1 == 0 {
            return Ok(());
        }
        self.device.count(kernel.operations(), kernel.bytes());
        self.device.launch(K::NAME, self.dtype, grid, K::BLOCK, &kernel.args())
    }

    /// Launches a matrix product, unless it is of nothing.
    ///
    /// # Errors
    /// When the device fails.
    pub fn gemm(&self, gemm: Gemm) -> Result<(), DeviceError> {
        if gemm.m == 0 || gemm.n == 0 || gemm.k == 0 || gemm.batch == 0 {
            return Ok(());
        }
        self.device.gemm(&gemm)
    }

    /// An array of undefined content. `what` names its use in [`crate::ledger`].
    ///
    /// # Errors
    /// When there is too little memory.
    pub fn array<T: Element>(&self, what: &'static str, len: usize) -> Result<Array<T>, DeviceError> {
        Array::new(&self.device, what, self.dtype, len)
    }
}

/// Threads of a block where a block works on one row.
pub(super) const ROW: u32 = 256;

/// Blocks for `n` elements of a flat array, four to a thread, at most `most`.
pub(super) fn flat_blocks(n: u64, most: u32) -> u32 {
    n.div_ceil(4 * u64::from(ROW)).clamp(1, u64::from(most)) as u32
}
