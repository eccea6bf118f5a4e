//! Named tensors in one flat array on a device: weights, gradients, moments.

use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model::Config;
use grpo_lambda_decoder::model::weights::{Parameters, Tensor};
use half::bf16;
use rayon::prelude::*;

use super::device::{Buffer, Device, Matrix};
use super::layout::{Flat, Layout, Place};

/// Numbers converted and sent at a time: 64 MiB of `f32` on the host.
const PIECE: usize = 1 << 24;

/// Tensors by name in one array of one dtype.
#[derive(Debug)]
pub struct Tensors {
    flat: Arc<Flat>,
    dtype: Dtype,
    buffer: Buffer,
}

impl Tensors {
    /// Zeros. `what` names their use in the ledger.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub fn zeros(
        device: &Arc<dyn Device>,
        what: &'static str,
        flat: &Arc<Flat>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let buffer = Buffer::zeros(device, what, flat.len() as usize * dtype.bytes())?;
        Ok(Tensors { flat: flat.clone(), dtype, buffer })
    }

    /// Their places.
    pub fn flat(&self) -> &Arc<Flat> {
        &self.flat
    }

    /// Their dtype.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Their memory.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Address of the number at this offset.
    pub fn at(&self, offset: u64) -> u64 {
        self.buffer.at(offset as usize * self.dtype.bytes())
    }

    /// Zeros all.
    ///
    /// # Errors
    /// When the device fails.
    pub fn clear(&self) -> Result<(), DeviceError> {
        self.buffer.clear()
    }

    /// Overwrites the tensors that `parameters` has, rounded to the dtype (to nearest even), in pieces: nothing as large as the
    /// model is made on the host.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When a name is unknown or a size differs.
    pub fn write(&self, parameters: &Parameters<f32>) -> Result<(), DeviceError> {
        parameters.iter().try_for_each(|(name, tensor)| self.write_tensor(name, &tensor.data))
    }

    /// [`Tensors::write`] of one tensor.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When the name is unknown or the size differs.
    pub fn write_tensor(&self, name: &str, data: &[f32]) -> Result<(), DeviceError> {
        let place = self.place(name);
        assert_eq!(data.len(), place.numbers(), "numbers of {name}");
        let mut at = place.offset as usize * self.dtype.bytes();
        for piece in data.chunks(PIECE) {
            match self.dtype {
                Dtype::F32 => self.buffer.write(at, piece)?,
                Dtype::Bf16 => {
                    let rounded: Vec<u16> = piece.par_iter().map(|x| bf16::from_f32(*x).to_bits()).collect();
                    self.buffer.write(at, &rounded)?;
                }
            }
            at += piece.len() * self.dtype.bytes();
        }
        Ok(())
    }

    /// One tensor, on the host.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When the name is unknown.
    pub fn read_tensor(&self, name: &str) -> Result<Vec<f32>, DeviceError> {
        let place = self.place(name);
        let at = place.offset as usize * self.dtype.bytes();
        Ok(match self.dtype {
            Dtype::F32 => self.buffer.read(at, place.numbers())?,
            Dtype::Bf16 => {
                let bits: Vec<u16> = self.buffer.read(at, place.numbers())?;
                bits.into_par_iter().map(|bits| bf16::from_bits(bits).to_f32()).collect()
            }
        })
    }

    /// All tensors, on the host.
    ///
    /// # Errors
    /// When the device fails.
    pub fn read(&self) -> Result<Parameters<f32>, DeviceError> {
        let tensor = |(name, place): (&str, &Place)| {
            Ok((name.to_owned(), Tensor { shape: place.shape.clone(), data: self.read_tensor(name)? }))
        };
        self.flat.places().map(tensor).collect()
    }

    fn place(&self, name: &str) -> &Place {
        self.flat.place(name).unwrap_or_else(|| panic!("`{name}` is no parameter here"))
    }
}

/// A decoder's parameters on a device, or numbers for each of them, such as gradients.
///
/// Accessors give addresses; a bias that the model does not have is at 0. Matrices are `[out, in]` by rows.
#[derive(Debug)]
pub struct Weights {
    layout: Arc<Layout>,
    tensors: Tensors,
}

impl Weights {
    /// Zeros. `what` names their use in the ledger: `weights`, `reference`, `gradients`.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub fn zeros(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<Layout>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let tensors = Tensors::zeros(device, what, layout.flat(), dtype)?;
        Ok(Weights { layout: layout.clone(), tensors })
    }

    /// These parameters, rounded to `dtype`.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    ///
    /// # Panics
    /// When they are not those of the layout; [`grpo_lambda_decoder::model::weights::check`] refuses such with a message.
    pub fn upload(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<Layout>,
        parameters: &Parameters<f32>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let weights = Self::zeros(device, what, layout, dtype)?;
        assert_eq!(parameters.len(), layout.flat().places().count(), "parameters of the model");
        weights.tensors.write(parameters)?;
        Ok(weights)
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The shape of the decoder.
    pub fn config(&self) -> &Config {
        self.layout.config()
    }

    /// By name.
    pub fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// Their dtype.
    pub fn dtype(&self) -> Dtype {
        self.tensors.dtype
    }

    /// Embedding, `[vocabulary, h]`.
    pub fn embedding(&self) -> u64 {
        self.tensors.at(self.layout.embedding())
    }

    /// Output matrix, `[vocabulary, h]`: the embedding when tied.
    pub fn head(&self) -> u64 {
        self.tensors.at(self.layout.head())
    }

    /// The last norm, `[h]`.
    pub fn final_norm(&self) -> u64 {
        self.tensors.at(self.layout.final_norm())
    }

    /// Queries, keys and values of layer `l`, `[(q + 2k) d, h]`.
    pub fn qkv(&self, l: usize) -> u64 {
        self.tensors.at(self.layout.layer(l).qkv)
    }

    /// Attention's output, `[h, q d]`.
    pub fn output(&self, l: usize) -> u64 {
        self.tensors.at(self.layout.layer(l).output)
    }

    /// Gate and up, `[2 f, h]`.
    pub fn gate_up(&self, l: usize) -> u64 {
        self.tensors.at(self.layout.layer(l).gate_up)
    }

    /// Down, `[h, f]`.
    pub fn down(&self, l: usize) -> u64 {
        self.tensors.at(self.layout.layer(l).down)
    }

    /// The norm before attention, `[h]`.
    pub fn input_norm(&self, l: usize) -> u64 {
        self.tensors.at(self.layout.layer(l).input_norm)
    }

    /// The norm before the MLP, `[h]`.
    pub fn middle_norm(&self, l: usize) -> u64 {
        self.tensors.at(self.layout.layer(l).middle_norm)
    }

    /// Biases of queries, keys and values, `[(q + 2k) d]`.
    pub fn qkv_bias(&self, l: usize) -> u64 {
        self.bias(self.layout.layer(l).qkv_bias)
    }

    /// Bias of attention's output, `[h]`.
    pub fn output_bias(&self, l: usize) -> u64 {
        self.bias(self.layout.layer(l).output_bias)
    }

    /// Biases of gate and up, `[2 f]`.
    pub fn gate_up_bias(&self, l: usize) -> u64 {
        self.bias(self.layout.layer(l).gate_up_bias)
    }

    /// Bias of down, `[h]`.
    pub fn down_bias(&self, l: usize) -> u64 {
        self.bias(self.layout.layer(l).down_bias)
    }

    fn bias(&self, offset: Option<u64>) -> u64 {
        offset.map_or(0, |offset| self.tensors.at(offset))
    }

    /// The matrix at this address, `columns` wide, as a factor of a product.
    pub fn matrix(&self, address: u64, columns: usize) -> Matrix {
        Matrix::new(address, self.dtype(), columns)
    }
}
