//! Arrays of a case: numbers on a device, guard bytes after them, and the numbers put there.

use std::marker::PhantomData;
use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use half::bf16;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::ptr::{Element, ElementType, Ptr, PtrMut};

type Result<T = ()> = std::result::Result<T, DeviceError>;

/// Bytes after every array that nothing may write, and that are no number in `f32` or bf16: a kernel that reads them shows it.
const GUARD: [u8; 256] = {
    let mut guard = [0xA5; 256];
    let mut i = 1;
    while i < 256 {
        guard[i] = 0x7F;
        i += 2;
    }
    guard
};

/// An array on the device, and the numbers put there.
pub(super) struct TestArray<T> {
    buffer: Buffer,
    /// The first byte of its elements.
    from: usize,
    dtype: Dtype,
    pub(super) stored: ElementType,
    /// The numbers at first, after rounding; NaN if it was blank.
    pub(super) initial: Vec<f64>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Element> TestArray<T> {
    /// These numbers, rounded as they are stored, `shift` elements from an aligned address.
    pub(super) fn new(
        device: &Arc<dyn Device>,
        dtype: Dtype,
        shift: usize,
        numbers: Vec<f64>,
    ) -> Result<Self> {
        let stored = T::stored(dtype);
        let (from, bytes) = (shift * stored.bytes(), numbers.len() * stored.bytes());
        let buffer = Buffer::new(device, "check", from + bytes + GUARD.len())?;
        let initial = numbers.into_iter().map(|x| rounded(x, stored)).collect();
        let array = TestArray { buffer, from, dtype, stored, initial, kind: PhantomData };
        array.write(&array.initial)?;
        array.buffer.write(from + bytes, &GUARD)?;
        Ok(array)
    }
    pub(super) fn ptr(&self) -> Ptr<T> {
        self.out().read()
    }
    pub(super) fn out(&self) -> PtrMut<T> {
        PtrMut::new(self.buffer.address() + self.from as u64, self.dtype)
    }
    /// The numbers on the device.
    pub(super) fn read(&self) -> Result<Vec<f64>> {
        let (from, n) = (self.from, self.initial.len());
        let wide = |bits: u16| f64::from(bf16::from_bits(bits).to_f32());
        Ok(match self.stored {
            ElementType::F32 => self.buffer.read::<f32>(from, n)?.into_iter().map(f64::from).collect(),
            ElementType::Bf16 => self.buffer.read::<u16>(from, n)?.into_iter().map(wide).collect(),
            ElementType::F64 => self.buffer.read::<f64>(from, n)?,
            ElementType::U32 => self.buffer.read::<u32>(from, n)?.into_iter().map(f64::from).collect(),
        })
    }
    /// True if nothing was written beyond its end.
    pub(super) fn guarded(&self) -> Result<bool> {
        let end = self.from + self.initial.len() * self.stored.bytes();
        Ok(self.buffer.read::<u8>(end, GUARD.len())? == GUARD)
    }
    /// Overwrites the numbers.
    pub(super) fn write(&self, numbers: &[f64]) -> Result {
        let (buffer, from) = (&self.buffer, self.from);
        let narrow = |x: &f64| bf16::from_f32(*x as f32).to_bits();
        match self.stored {
            ElementType::F32 => buffer.write(from, &single(numbers)),
            ElementType::Bf16 => buffer.write(from, &numbers.iter().map(narrow).collect::<Vec<_>>()),
            ElementType::F64 => buffer.write(from, numbers),
            ElementType::U32 => buffer.write(from, &whole(numbers)),
        }
    }
    /// Its first numbers as whole numbers.
    pub(super) fn whole(&self) -> Vec<u32> {
        whole(&self.initial)
    }
}

/// Numbers in single precision.
pub(super) fn single(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|x| *x as f32).collect()
}

fn whole(numbers: &[f64]) -> Vec<u32> {
    numbers.iter().map(|x| *x as u32).collect()
}

/// A number as it is stored.
pub(super) fn rounded(x: f64, stored: ElementType) -> f64 {
    match stored {
        ElementType::Bf16 => f64::from(bf16::from_f32(x as f32).to_f32()),
        ElementType::F32 => f64::from(x as f32),
        ElementType::F64 | ElementType::U32 => x,
    }
}
