//! Bytes of device memory that are freed when dropped.

use std::sync::Arc;

use bytemuck::Pod;
use grpo_lambda_decoder::device::DeviceError;

use super::device::Device;

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
    /// Errors if there is too little memory.
    pub fn new(device: &Arc<dyn Device>, what: &'static str, bytes: usize) -> Result<Self, DeviceError> {
        let address = device.allocate(what, bytes)?;
        Ok(Buffer { device: device.clone(), what, address, bytes })
    }

    /// A copy of `data` on the device.
    ///
    /// # Errors
    /// Errors if there is too little memory or the device fails.
    pub fn from_slice<T: Pod>(
        device: &Arc<dyn Device>,
        what: &'static str,
        data: &[T],
    ) -> Result<Self, DeviceError> {
        let buffer = Self::new(device, what, size_of_val(data))?;
        buffer.write(0, data)?;
        Ok(buffer)
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The address of byte `offset`.
    pub(crate) fn at(&self, offset: usize) -> u64 {
        assert!(offset <= self.bytes, "byte {offset} of {} bytes", self.bytes);
        self.address + offset as u64
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device it is on.
    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Zeros all of it.
    ///
    /// # Errors
    /// Errors if the device fails.
    pub fn clear(&self) -> Result<(), DeviceError> {
        self.device.clear(self.address, self.bytes)
    }

    /// Overwrites from byte `offset` on.
    ///
    /// # Errors
    /// Errors if the device fails.
    ///
    /// # Panics
    /// Panics if it ends before.
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
    /// Errors if the device fails.
    ///
    /// # Panics
    /// Panics if it ends before.
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
