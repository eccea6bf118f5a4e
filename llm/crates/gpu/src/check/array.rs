//! Arrays of a case: numbers on a device between guard bytes, and what was put there.

use std::marker::PhantomData;
use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use half::bf16;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::ptr::{Element, ElementType, Ptr, PtrMut};

type Result<T = ()> = std::result::Result<T, DeviceError>;

/// Bytes after every array that nothing may write.
const GUARD: [u8; 256] = [0xA5; 256];

/// An array on the device, and what was put there.
pub(super) struct TestArray<T> {
    buffer: Buffer,
    dtype: Dtype,
    pub(super) stored: ElementType,
    /// What it held at first, after rounding; NaN where it was blank.
    pub(super) initial: Vec<f64>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Element> TestArray<T> {
    /// These numbers, rounded as they are stored.
    pub(super) fn new(device: &Arc<dyn Device>, dtype: Dtype, numbers: Vec<f64>) -> Result<Self> {
        let stored = T::stored(dtype);
        let bytes = numbers.len() * stored.bytes();
        let buffer = Buffer::new(device, "check", bytes + GUARD.len())?;
        write(&buffer, stored, &numbers)?;
        buffer.write(bytes, &GUARD)?;
        let initial = numbers.into_iter().map(|x| rounded(x, stored)).collect();
        Ok(TestArray { buffer, dtype, stored, initial, kind: PhantomData })
    }
    pub(super) fn ptr(&self) -> Ptr<T> {
        Ptr::new(self.buffer.address(), self.dtype)
    }
    pub(super) fn ptr_mut(&self) -> PtrMut<T> {
        PtrMut::new(self.buffer.address(), self.dtype)
    }
    pub(super) fn bytes(&self) -> f64 {
        (self.initial.len() * self.stored.bytes()) as f64
    }
    /// What it holds now.
    pub(super) fn now(&self) -> Result<Vec<f64>> {
        let n = self.initial.len();
        Ok(match self.stored {
            ElementType::F32 => self.buffer.read::<f32>(0, n)?.into_iter().map(f64::from).collect(),
            ElementType::Bf16 => self
                .buffer
                .read::<u16>(0, n)?
                .into_iter()
                .map(|bits| f64::from(bf16::from_bits(bits).to_f32()))
                .collect(),
            ElementType::F64 => self.buffer.read::<f64>(0, n)?,
            ElementType::U32 => self.buffer.read::<u32>(0, n)?.into_iter().map(f64::from).collect(),
        })
    }
    /// Whether nothing was written beyond its end.
    pub(super) fn guarded(&self) -> Result<bool> {
        Ok(self.buffer.read::<u8>(self.initial.len() * self.stored.bytes(), GUARD.len())? == GUARD)
    }
    /// Other numbers in its place.
    pub(super) fn write(&self, numbers: &[f64]) -> Result {
        write(&self.buffer, self.stored, numbers)
    }
}

fn write(buffer: &Buffer, stored: ElementType, numbers: &[f64]) -> Result {
    match stored {
        ElementType::F32 => buffer.write(0, &numbers.iter().map(|x| *x as f32).collect::<Vec<_>>()),
        ElementType::Bf16 => {
            buffer.write(0, &numbers.iter().map(|x| bf16::from_f32(*x as f32).to_bits()).collect::<Vec<_>>())
        }
        ElementType::F64 => buffer.write(0, numbers),
        ElementType::U32 => buffer.write(0, &numbers.iter().map(|x| *x as u32).collect::<Vec<_>>()),
    }
}

/// As it is stored.
pub(super) fn rounded(x: f64, stored: ElementType) -> f64 {
    match stored {
        ElementType::Bf16 => f64::from(bf16::from_f32(x as f32).to_f32()),
        ElementType::F32 => f64::from(x as f32),
        ElementType::F64 | ElementType::U32 => x,
    }
}
