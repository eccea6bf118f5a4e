//! Arrays of one element type in device memory.

use std::marker::PhantomData;
use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::device::Dtype;

use super::buffer::Buffer;
use super::device::Device;
use super::ptr::{Access, Element, ElementType, Plain, Ptr, PtrMut};

/// Elements one after the other; their memory is freed when the array is dropped.
///
/// Like a [`Cell`](std::cell::Cell) it is written through a shared reference: the device does everything in the order of the calls.
#[derive(Debug)]
pub struct Array<T> {
    buffer: Buffer,
    stored: ElementType,
    len: usize,
    kind: PhantomData<fn() -> T>,
}

impl<T: Element> Array<T> {
    /// `len` elements of undefined content, in a run of this dtype. `what` names their use in [`super::ledger`].
    ///
    /// # Errors
    /// Errors if there is too little memory.
    pub fn new(
        device: &Arc<dyn Device>,
        what: &'static str,
        dtype: Dtype,
        len: usize,
    ) -> Result<Self, DeviceError> {
        Self::stored_as(device, what, T::stored(dtype), len)
    }

    fn stored_as(
        device: &Arc<dyn Device>,
        what: &'static str,
        stored: ElementType,
        len: usize,
    ) -> Result<Self, DeviceError> {
        // A device has no memory of zero bytes.
        let buffer = Buffer::new(device, what, len.max(1) * stored.bytes())?;
        Ok(Array { buffer, stored, len, kind: PhantomData })
    }

    /// The number of its elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Its memory.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Its first element, for reading.
    pub fn ptr(&self) -> Ptr<T> {
        self.at(0)
    }

    /// Its first element, for writing.
    pub fn ptr_mut(&self) -> PtrMut<T> {
        self.at_mut(0)
    }

    /// Element `i`, for reading.
    pub(crate) fn at(&self, i: usize) -> Ptr<T> {
        self.pointer(i)
    }

    /// Element `i`, for writing.
    ///
    /// # Panics
    /// Panics if it has fewer than `i` elements.
    pub fn at_mut(&self, i: usize) -> PtrMut<T> {
        self.pointer(i)
    }

    fn pointer<A: Access>(&self, i: usize) -> Ptr<T, A> {
        assert!(i <= self.len, "element {i} of {}", self.len);
        Ptr::stored_as(self.buffer.address(), self.stored).offset(i)
    }

    /// Zeros all of it.
    pub(crate) fn clear(&self) -> Result<(), DeviceError> {
        self.buffer.clear()
    }

    /// Becomes a copy of `other`.
    pub(crate) fn copy_from(&self, other: &Array<T>) -> Result<(), DeviceError> {
        assert_eq!(self.len, other.len, "elements to copy");
        self.buffer.device().copy(self.buffer.address(), other.buffer.address(), self.buffer.bytes())
    }
}

impl<T: Plain> Array<T> {
    /// A copy of `data` on the device.
    ///
    /// # Errors
    /// Errors if there is too little memory or the device fails.
    pub fn from_slice(device: &Arc<dyn Device>, what: &'static str, data: &[T]) -> Result<Self, DeviceError> {
        let array = Self::stored_as(device, what, T::STORED, data.len())?;
        array.write(data)?;
        Ok(array)
    }

    /// `len` zeros.
    pub(crate) fn zeros(
        device: &Arc<dyn Device>,
        what: &'static str,
        len: usize,
    ) -> Result<Self, DeviceError> {
        let array = Self::stored_as(device, what, T::STORED, len)?;
        array.clear()?;
        Ok(array)
    }

    /// Overwrites the first elements.
    pub(crate) fn write(&self, data: &[T]) -> Result<(), DeviceError> {
        assert!(data.len() <= self.len, "{} elements into {}", data.len(), self.len);
        self.buffer.write(0, data)
    }

    /// Overwrites elements from element `from` on.
    pub(crate) fn write_from(&self, from: usize, data: &[T]) -> Result<(), DeviceError> {
        assert!(from + data.len() <= self.len, "{} elements from {from} of {}", data.len(), self.len);
        self.buffer.write(from * self.stored.bytes(), data)
    }

    /// All elements.
    ///
    /// # Errors
    /// Errors if the device fails.
    pub fn read(&self) -> Result<Vec<T>, DeviceError> {
        self.read_from(0, self.len)
    }

    /// `len` elements from element `from` on.
    pub(crate) fn read_from(&self, from: usize, len: usize) -> Result<Vec<T>, DeviceError> {
        assert!(from + len <= self.len, "{len} elements from {from} of {}", self.len);
        self.buffer.read(from * self.stored.bytes(), len)
    }
}
