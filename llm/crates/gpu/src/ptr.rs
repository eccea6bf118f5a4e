//! Typed pointers into device memory.
//!
//! A kernel takes addresses. Here an address has the type of its elements ([`Ptr<f32>`], [`Ptr<u32>`], ...) and says whether they may be
//! written ([`PtrMut`]), as the kernel's parameter does (`const float*`, `u32*`). [`Real`] stands for the dtype of a run, `REAL` in the kernels,
//! which is known only when the program runs. An array that may be absent is an [`Option`], never the address 0.
//!
//! ```
//! use grpo_lambda_gpu::kernels::{Embed, Kernels};
//! use grpo_lambda_gpu::{DeviceError, Ptr, PtrMut, Real};
//!
//! fn embed(k: &Kernels, ids: Ptr<u32>, table: Ptr<Real>, out: PtrMut<Real>) -> Result<(), DeviceError> {
//!     k.launch(Embed { ids, table, out, tokens: 5, width: 64 })
//! }
//! ```
//!
//! Two exchanged pointers do not compile, be it for their elements,
//!
//! ```compile_fail,E0308
//! # use grpo_lambda_gpu::kernels::{Embed, Kernels};
//! # use grpo_lambda_gpu::{DeviceError, Ptr, PtrMut, Real};
//! fn embed(k: &Kernels, ids: Ptr<u32>, table: Ptr<Real>, out: PtrMut<Real>) -> Result<(), DeviceError> {
//!     k.launch(Embed { ids: table, table: ids, out, tokens: 5, width: 64 })
//! }
//! ```
//!
//! or because an array that is only read would be written:
//!
//! ```compile_fail,E0308
//! # use grpo_lambda_gpu::kernels::{Embed, Kernels};
//! # use grpo_lambda_gpu::{DeviceError, Ptr, PtrMut, Real};
//! fn embed(k: &Kernels, ids: Ptr<u32>, table: Ptr<Real>, out: PtrMut<Real>) -> Result<(), DeviceError> {
//!     k.launch(Embed { ids, table: out, out: table, tokens: 5, width: 64 })
//! }
//! ```
//!
//! Nor does a launch that forgets the bias, present or absent:
//!
//! ```
//! use grpo_lambda_gpu::kernels::{Kernels, Swiglu};
//! use grpo_lambda_gpu::{DeviceError, Ptr, PtrMut, Real};
//!
//! fn gate(k: &Kernels, gate_up: Ptr<Real>, y: PtrMut<Real>) -> Result<(), DeviceError> {
//!     k.launch(Swiglu { gate_up, bias: None, y, tokens: 5, width: 64 })
//! }
//! ```
//!
//! ```compile_fail,E0063
//! # use grpo_lambda_gpu::kernels::{Kernels, Swiglu};
//! # use grpo_lambda_gpu::{DeviceError, Ptr, PtrMut, Real};
//! fn gate(k: &Kernels, gate_up: Ptr<Real>, y: PtrMut<Real>) -> Result<(), DeviceError> {
//!     k.launch(Swiglu { gate_up, y, tokens: 5, width: 64 })
//! }
//! ```

use std::fmt::Debug;
use std::marker::PhantomData;

use grpo_lambda_decoder::device::Dtype;

/// The storage of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// 32-bit floats.
    F32,
    /// bfloat16.
    Bf16,
    /// 64-bit floats.
    F64,
    /// Unsigned 32-bit integers.
    U32,
}

impl ElementType {
    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            ElementType::Bf16 => 2,
            ElementType::F32 | ElementType::U32 => 4,
            ElementType::F64 => 8,
        }
    }
}

impl From<Dtype> for ElementType {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => ElementType::F32,
            Dtype::Bf16 => ElementType::Bf16,
        }
    }
}

/// An element of device memory.
pub trait Element: Copy + Debug + PartialEq + Send + Sync + 'static {
    /// Its storage in a run of this dtype.
    fn stored(dtype: Dtype) -> ElementType;
}

/// An [`Element`] with the same storage in every run.
pub trait Plain: Element + bytemuck::Pod {
    /// Its storage.
    const STORED: ElementType;
}

/// An [`Element`] that matrices are made of.
pub trait Float: Element {}

/// A number of the run's dtype, [`Dtype::F32`] or [`Dtype::Bf16`]: weights and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real {}

impl Element for Real {
    fn stored(dtype: Dtype) -> ElementType {
        dtype.into()
    }
}

impl Float for Real {}
impl Float for f32 {}

macro_rules! plain {
    ($($element:ty: $stored:ident),*) => {$(
        impl Plain for $element {
            const STORED: ElementType = ElementType::$stored;
        }
        impl Element for $element {
            fn stored(_: Dtype) -> ElementType {
                Self::STORED
            }
        }
    )*};
}

plain!(f32: F32, f64: F64, u32: U32);

/// The access that a pointer allows.
pub trait Access: Copy + Debug + PartialEq + 'static {
    /// True if elements may be written.
    const WRITES: bool;
}

/// Reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {}

/// Reading and writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {}

impl Access for Read {
    const WRITES: bool = false;
}

impl Access for Write {
    const WRITES: bool = true;
}

/// The address of elements of type `T` on a device. It does not keep the memory allocated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ptr<T, A = Read> {
    address: u64,
    stored: ElementType,
    kind: PhantomData<fn() -> (T, A)>,
}

/// A [`Ptr`] that may be written through.
pub type PtrMut<T> = Ptr<T, Write>;

impl<T: Element, A: Access> Ptr<T, A> {
    /// The element at an address, in a run of this dtype.
    pub fn new(address: u64, dtype: Dtype) -> Self {
        Self::stored_as(address, T::stored(dtype))
    }

    pub(super) fn stored_as(address: u64, stored: ElementType) -> Self {
        Ptr { address, stored, kind: PhantomData }
    }

    /// The address.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Bytes of so many of its elements.
    pub(crate) fn bytes(self, elements: usize) -> f64 {
        elements as f64 * self.stored.bytes() as f64
    }

    /// The pointer to so many elements further.
    pub(crate) fn offset(self, elements: usize) -> Self {
        Ptr { address: self.address + (elements * self.stored.bytes()) as u64, ..self }
    }
}

impl<T: Float, A: Access> Ptr<T, A> {
    /// The dtype of its numbers.
    pub(crate) fn dtype(self) -> Dtype {
        if self.stored == ElementType::Bf16 { Dtype::Bf16 } else { Dtype::F32 }
    }
}

impl<T: Element> PtrMut<T> {
    /// The pointer for reading.
    pub(crate) fn read(self) -> Ptr<T> {
        Ptr::stored_as(self.address, self.stored)
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A pointer.
    Pointer {
        /// Its address.
        address: u64,
        /// The storage of its elements.
        to: ElementType,
        /// True if the kernel may write them.
        writes: bool,
        /// Elements there that the kernel may access, if the launch knows; 0 otherwise.
        elements: usize,
    },
    /// A pointer to an absent array.
    Null,
    /// `unsigned int`.
    U32(u32),
    /// `unsigned long long`.
    U64(u64),
    /// `float`.
    F32(f32),
}

impl Arg {
    /// Sets the number of a pointer's elements.
    pub(crate) fn to_elements(mut self, n: usize) -> Self {
        if let Arg::Pointer { elements, .. } = &mut self {
            *elements = n;
        }
        self
    }

    /// Bytes of a pointer's elements; 0 for other arguments.
    pub fn bytes(self) -> usize {
        match self {
            Arg::Pointer { to, elements, .. } => elements * to.bytes(),
            _ => 0,
        }
    }
}

impl<T: Element, A: Access> From<Ptr<T, A>> for Arg {
    fn from(ptr: Ptr<T, A>) -> Self {
        Arg::Pointer { address: ptr.address, to: ptr.stored, writes: A::WRITES, elements: 0 }
    }
}

impl<T: Element, A: Access> From<Option<Ptr<T, A>>> for Arg {
    fn from(ptr: Option<Ptr<T, A>>) -> Self {
        ptr.map_or(Arg::Null, Arg::from)
    }
}

impl From<u32> for Arg {
    fn from(x: u32) -> Self {
        Arg::U32(x)
    }
}

impl From<u64> for Arg {
    fn from(x: u64) -> Self {
        Arg::U64(x)
    }
}

impl From<f32> for Arg {
    fn from(x: f32) -> Self {
        Arg::F32(x)
    }
}

impl From<bool> for Arg {
    fn from(x: bool) -> Self {
        Arg::U32(u32::from(x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_steps_by_its_elements_as_they_are_stored() {
        let real = |dtype| Ptr::<Real>::new(512, dtype).offset(3).address();
        assert_eq!((real(Dtype::F32), real(Dtype::Bf16)), (524, 518));
        assert_eq!(PtrMut::<f64>::new(512, Dtype::Bf16).offset(2).read().address(), 528);
    }

    #[test]
    fn an_argument_says_what_it_points_at_and_what_is_absent_is_null() {
        let ptr = PtrMut::<Real>::new(512, Dtype::Bf16);
        let arg = |writes| Arg::Pointer { address: 512, to: ElementType::Bf16, writes, elements: 0 };
        assert_eq!((Arg::from(ptr), Arg::from(Some(ptr.read()))), (arg(true), arg(false)));
        assert_eq!(Arg::from(None::<Ptr<Real>>), Arg::Null);
    }
}
