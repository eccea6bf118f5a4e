//! The seam between what is computed and where: memory by address, kernels by name, matrix products.

use std::fmt::Debug;
use std::sync::Arc;

use bytemuck::Pod;
use grpo_lambda_decoder::device::{DeviceError, Dtype};

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A pointer; 0 is null.
    Address(u64),
    /// `unsigned int`.
    U32(u32),
    /// `unsigned long long`.
    U64(u64),
    /// `float`.
    F32(f32),
}

/// A matrix, or a batch of them, in row-major order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matrix {
    /// Where its first number is.
    pub address: u64,
    /// Its numbers' type.
    pub dtype: Dtype,
    /// From one row as stored to the next, in numbers.
    pub stride: usize,
    /// From one matrix of the batch to the next, in numbers.
    pub batch_stride: usize,
    /// Whether it is read transposed; never for a result.
    pub transposed: bool,
}

impl Matrix {
    /// One matrix of this row stride.
    pub fn new(address: u64, dtype: Dtype, stride: usize) -> Self {
        Matrix { address, dtype, stride, batch_stride: 0, transposed: false }
    }

    /// Read transposed.
    pub fn t(self) -> Self {
        Matrix { transposed: !self.transposed, ..self }
    }

    /// One of a batch, each `numbers` after the one before.
    pub fn every(self, numbers: usize) -> Self {
        Matrix { batch_stride: numbers, ..self }
    }
}

/// `C = alpha A B + beta C` with `A` `m x k`, `B` `k x n`, `C` `m x n` (after transposition), for each of a batch.
///
/// `A` and `B` have one dtype; products are summed in `f32`. With `beta` = 0, `C` is not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// Left factor.
    pub a: Matrix,
    /// Right factor.
    pub b: Matrix,
    /// Result.
    pub c: Matrix,
    /// How many products.
    pub batch: usize,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of what is in `C`.
    pub beta: f32,
}

impl Gemm {
    /// `C = A B`.
    pub fn new((m, n, k): (usize, usize, usize), a: Matrix, b: Matrix, c: Matrix) -> Self {
        Gemm { m, n, k, a, b, c, batch: 1, alpha: 1.0, beta: 0.0 }
    }

    /// `C += A B`.
    pub fn accumulate(self) -> Self {
        Gemm { beta: 1.0, ..self }
    }

    /// A multiply-add counts two.
    pub fn operations(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64 * self.batch as f64
    }
}

/// A sequence of launches that runs again as one.
pub trait Recording: Send {
    /// Launches it, in order after what was launched before.
    ///
    /// # Errors
    /// When the device fails.
    fn replay(&self) -> Result<(), DeviceError>;
}

/// Memory and work of one device. Everything is done in the order of the calls; only [`Device::upload`], [`Device::download`] and
/// [`Device::synchronize`] wait.
pub trait Device: Send + Sync + Debug {
    /// What it is, for people: `NVIDIA H200`.
    fn name(&self) -> String;

    /// Memory for `bytes`, at an address aligned to 256; its content is undefined. `what` names its use in [`super::ledger`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn allocate(&self, what: &'static str, bytes: usize) -> Result<u64, DeviceError>;

    /// Gives memory back.
    fn free(&self, what: &'static str, address: u64, bytes: usize);

    /// What is allocated now and was at the peak.
    fn ledger(&self) -> &super::ledger::Ledger;

    /// Free and total bytes of the device; what other processes hold is not free.
    ///
    /// # Errors
    /// When the device fails.
    fn memory(&self) -> Result<(u64, u64), DeviceError>;

    /// Host to device.
    ///
    /// # Errors
    /// When the device fails.
    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Device to host, after all that was launched.
    ///
    /// # Errors
    /// When the device fails.
    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Device to device; the two do not overlap.
    ///
    /// # Errors
    /// When the device fails.
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), DeviceError>;

    /// Zero bytes.
    ///
    /// # Errors
    /// When the device fails.
    fn clear(&self, address: u64, bytes: usize) -> Result<(), DeviceError>;

    /// Runs `name` of [`super::kernels`], built for `dtype`, on `grid` blocks of `block` threads.
    ///
    /// # Errors
    /// When the device fails.
    fn launch(
        &self,
        name: &'static str,
        dtype: Dtype,
        grid: (u32, u32),
        block: u32,
        args: &[Arg],
    ) -> Result<(), DeviceError>;

    /// A matrix product.
    ///
    /// # Errors
    /// When the device fails.
    fn gemm(&self, gemm: &Gemm) -> Result<(), DeviceError>;

    /// From here on, launches, products, copies and clears are recorded instead of run, until [`Device::end_recording`]. Nothing may be
    /// allocated, freed, uploaded or downloaded in between.
    ///
    /// # Errors
    /// When the device fails.
    fn begin_recording(&self) -> Result<(), DeviceError>;

    /// What was recorded. The addresses in it must stay allocated as long as it is replayed.
    ///
    /// # Errors
    /// When the device fails.
    fn end_recording(&self) -> Result<Box<dyn Recording>, DeviceError>;

    /// Waits for all that was launched.
    ///
    /// # Errors
    /// When the device fails, now or earlier.
    fn synchronize(&self) -> Result<(), DeviceError>;
}

/// Memory that is given back when dropped.
#[derive(Debug)]
pub struct Buffer {
    device: Arc<dyn Device>,
    what: &'static str,
    address: u64,
    bytes: usize,
}

impl Buffer {
    /// `bytes` of undefined content. `what` names its use: `weights`, `activations`.
    ///
    /// # Errors
    /// When there is too little memory.
    pub fn new(device: &Arc<dyn Device>, what: &'static str, bytes: usize) -> Result<Self, DeviceError> {
        let address = device.allocate(what, bytes)?;
        Ok(Buffer { device: device.clone(), what, address, bytes })
    }

    /// `bytes` of zeros.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub fn zeros(device: &Arc<dyn Device>, what: &'static str, bytes: usize) -> Result<Self, DeviceError> {
        let buffer = Self::new(device, what, bytes)?;
        buffer.clear()?;
        Ok(buffer)
    }

    /// These numbers.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub fn of<T: Pod>(device: &Arc<dyn Device>, what: &'static str, data: &[T]) -> Result<Self, DeviceError> {
        let buffer = Self::new(device, what, size_of_val(data))?;
        buffer.write(0, data)?;
        Ok(buffer)
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Where byte `offset` of it is.
    ///
    /// # Panics
    /// When it has fewer.
    pub fn at(&self, offset: usize) -> u64 {
        assert!(offset <= self.bytes, "byte {offset} of {} bytes", self.bytes);
        self.address + offset as u64
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device it is on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Zeros all of it.
    ///
    /// # Errors
    /// When the device fails.
    pub fn clear(&self) -> Result<(), DeviceError> {
        self.device.clear(self.address, self.bytes)
    }

    /// Overwrites from byte `offset` on.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When it ends before.
    pub fn write<T: Pod>(&self, offset: usize, data: &[T]) -> Result<(), DeviceError> {
        assert!(
            offset + size_of_val(data) <= self.bytes,
            "{} bytes from {offset} of {}",
            size_of_val(data),
            self.bytes
        );
        self.device.upload(self.address + offset as u64, bytemuck::cast_slice(data))
    }

    /// `len` numbers from byte `offset` on.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When it ends before.
    pub fn read<T: Pod>(&self, offset: usize, len: usize) -> Result<Vec<T>, DeviceError> {
        assert!(
            offset + len * size_of::<T>() <= self.bytes,
            "{len} numbers from byte {offset} of {}",
            self.bytes
        );
        let mut out = vec![T::zeroed(); len];
        self.device.download(self.address + offset as u64, bytemuck::cast_slice_mut(&mut out))?;
        Ok(out)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.device.free(self.what, self.address, self.bytes);
    }
}
