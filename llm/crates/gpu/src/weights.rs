//! Named tensors in one flat array on a device: weights, gradients, moments.

use std::ops::Range;
use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::weights::{Parameters, Tensor};
use half::bf16;
use rayon::prelude::*;

use super::array::Array;
use super::device::Device;
use super::flat::{Flat, FlatLayout, TensorInfo};
use super::layout::{Layer, Layout};
use super::ptr::{Float, Ptr, PtrMut, Real};

/// Elements converted and sent at a time: 64 MiB of `f32` on the host.
const CHUNK: usize = 1 << 24;

/// Tensors by name in one array.
#[derive(Debug)]
pub struct Tensors<T = Real> {
    flat: Arc<FlatLayout>,
    array: Array<T>,
}

impl<T: Float> Tensors<T> {
    /// Zeros, in a run of this dtype. `what` names their use in the ledger.
    pub(crate) fn zeros(
        device: &Arc<dyn Device>,
        what: &'static str,
        flat: &Arc<FlatLayout>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let array = Array::new(device, what, dtype, flat.len() as usize)?;
        array.clear()?;
        Ok(Tensors { flat: flat.clone(), array })
    }

    /// Their layout.
    pub fn flat(&self) -> &Arc<FlatLayout> {
        &self.flat
    }

    /// Their dtype.
    pub fn dtype(&self) -> Dtype {
        self.array.ptr().dtype()
    }

    /// The element at this offset, for reading.
    pub(crate) fn at(&self, offset: u64) -> Ptr<T> {
        self.array.at(offset as usize)
    }

    /// The element at this offset, for writing.
    pub(crate) fn at_mut(&self, offset: u64) -> PtrMut<T> {
        self.array.at_mut(offset as usize)
    }

    /// Zeros all.
    pub(crate) fn clear(&self) -> Result<(), DeviceError> {
        self.array.clear()
    }

    /// Overwrites the tensors that `parameters` has, rounded to the dtype (to nearest even), in chunks: nothing as large as the
    /// model is made on the host.
    ///
    /// # Errors
    /// Errors if the device fails.
    ///
    /// # Panics
    /// Panics if a name is unknown or a size differs.
    pub fn write(&self, parameters: &Parameters<f32>) -> Result<(), DeviceError> {
        parameters.iter().try_for_each(|(name, tensor)| self.write_tensor(name, &tensor.data))
    }

    /// [`Tensors::write`] of one tensor.
    pub(crate) fn write_tensor(&self, name: &str, data: &[f32]) -> Result<(), DeviceError> {
        let tensor = self.tensor(name);
        assert_eq!(data.len(), tensor.elements(), "numbers of {name}");
        let mut offset = tensor.offset as usize;
        for chunk in data.chunks(CHUNK) {
            self.write_from(offset, chunk)?;
            offset += chunk.len();
        }
        Ok(())
    }

    /// [`Tensors::write_tensor`] of the numbers from `from` on.
    pub(super) fn write_part(&self, name: &str, from: usize, data: &[f32]) -> Result<(), DeviceError> {
        let tensor = self.tensor(name);
        assert!(from + data.len() <= tensor.elements(), "numbers of {name}");
        self.write_from(tensor.offset as usize + from, data)
    }

    /// Overwrites elements from this one on, rounded to the dtype.
    pub(super) fn write_from(&self, offset: usize, data: &[f32]) -> Result<(), DeviceError> {
        let (buffer, byte) = (self.array.buffer(), offset * self.dtype().bytes());
        match self.dtype() {
            Dtype::F32 => buffer.write(byte, data),
            Dtype::Bf16 => {
                let rounded: Vec<u16> = data.par_iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
                buffer.write(byte, &rounded)
            }
        }
    }

    /// One tensor, on the host.
    pub(crate) fn read_tensor(&self, name: &str) -> Result<Vec<f32>, DeviceError> {
        self.read_part(name, 0..self.tensor(name).elements())
    }

    /// [`Tensors::read_tensor`] of some numbers.
    pub(super) fn read_part(&self, name: &str, range: Range<usize>) -> Result<Vec<f32>, DeviceError> {
        let tensor = self.tensor(name);
        assert!(range.end <= tensor.elements(), "numbers of {name}");
        let byte = (tensor.offset as usize + range.start) * self.dtype().bytes();
        let buffer = self.array.buffer();
        Ok(match self.dtype() {
            Dtype::F32 => buffer.read(byte, range.len())?,
            Dtype::Bf16 => {
                let bits: Vec<u16> = buffer.read(byte, range.len())?;
                bits.into_par_iter().map(|bits| bf16::from_bits(bits).to_f32()).collect()
            }
        })
    }

    /// All tensors, on the host.
    ///
    /// # Errors
    /// Errors if the device fails.
    pub fn read(&self) -> Result<Parameters<f32>, DeviceError> {
        let tensor = |(name, info): (&str, &TensorInfo)| {
            Ok((name.to_owned(), Tensor { shape: info.shape.clone(), data: self.read_tensor(name)? }))
        };
        self.flat.tensors().map(tensor).collect()
    }

    fn tensor(&self, name: &str) -> &TensorInfo {
        self.flat.tensor(name).unwrap_or_else(|| panic!("`{name}` is no parameter here"))
    }
}

/// Parameters on a device in the places of their layout, or an element for each of theirs, such as gradients.
#[derive(Debug)]
pub struct Laid<L, T = Real> {
    layout: Arc<L>,
    tensors: Tensors<T>,
}

/// A decoder's parameters on a device, or an element for each of theirs. The [`Layout`] has their offsets. Matrices are `[out, in]` by rows.
pub type Weights<T = Real> = Laid<Layout, T>;

impl<L: Flat, T: Float> Laid<L, T> {
    fn new(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<L>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let tensors = Tensors::zeros(device, what, layout.flat(), dtype)?;
        Ok(Laid { layout: layout.clone(), tensors })
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<L> {
        &self.layout
    }

    /// The tensors, by name.
    pub fn tensors(&self) -> &Tensors<T> {
        &self.tensors
    }
}

impl<T: Float> Weights<T> {
    /// The shape of the decoder.
    pub(crate) fn config(&self) -> &ModelConfig {
        self.layout.config()
    }

    /// The offsets of layer `l`.
    pub(crate) fn layer(&self, l: usize) -> &Layer {
        self.layout.layer(l)
    }

    /// The element at an offset of the layout, for reading.
    pub(crate) fn at(&self, offset: u64) -> Ptr<T> {
        self.tensors.at(offset)
    }

    /// The element at an offset of the layout, for writing.
    pub(crate) fn at_mut(&self, offset: u64) -> PtrMut<T> {
        self.tensors.at_mut(offset)
    }
}

impl<L: Flat> Laid<L, f32> {
    /// Gradients, at zero.
    pub(super) fn gradients(device: &Arc<dyn Device>, layout: &Arc<L>) -> Result<Self, DeviceError> {
        Self::new(device, "gradients", layout, Dtype::F32)
    }
}

impl<L: Flat> Laid<L> {
    /// Zeros. `what` names their use in the ledger: `weights`, `reference`.
    ///
    /// # Errors
    /// Errors if there is too little memory or the device fails.
    pub fn zeros(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<L>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        Self::new(device, what, layout, dtype)
    }

    /// These parameters, rounded to `dtype`.
    ///
    /// # Errors
    /// Errors if there is too little memory or the device fails.
    ///
    /// # Panics
    /// Panics if they are not those of the layout; [`grpo_lambda_decoder::model::weights::check`] refuses such with a message.
    pub fn upload(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<L>,
        parameters: &Parameters<f32>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let laid = Self::new(device, what, layout, dtype)?;
        assert_eq!(parameters.len(), layout.flat().tensors().count(), "parameters of the layout");
        laid.tensors.write(parameters)?;
        Ok(laid)
    }
}
