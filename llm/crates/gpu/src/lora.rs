//! Low-rank adapters on a device: `y = x W^T + s (x A^T) B^T`, with `W` frozen and never merged.
//!
//! Settings, names and initial values are those of [`grpo_lambda_decoder::lora`], which computes `W + s B A` once. Here the thin products are
//! computed beside the wide one, so `W` has no gradient buffer, and the weights without the adapter are the reference of a KL term.
//!
//! The `A`s of projections that read one input (queries, keys and values; gate and up) are rows of one matrix, so `x A^T` is one
//! product; every `B` adds to its own columns of the packed output.

use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::lora::{LoraError, LoraSettings, a_name, b_name};
use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::config::parameter;
use grpo_lambda_decoder::model::weights::Parameters;

use super::device::Device;
use super::flat::{Builder, FlatLayout};
use super::layout::Packed;
use super::ptr::{Float, Real};
use super::weights::Tensors;

/// The offsets of an adapter's tensors in one flat array.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterLayout {
    settings: LoraSettings,
    flat: Arc<FlatLayout>,
    layers: Vec<[Option<PackedAdapter>; Packed::ALL.len()]>,
}

/// The adapters of one packed matrix.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PackedAdapter {
    /// Offset of the `A`s, `[projections rank, in]`.
    pub(super) a: u64,
    /// One for every adapted projection.
    pub(super) projections: Vec<AdaptedProjection>,
}

/// One adapted projection in a packed matrix.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AdaptedProjection {
    /// First column of the packed output.
    pub(super) column: usize,
    /// Columns.
    pub(super) out: usize,
    /// Offset of `B`, `[out, rank]`.
    pub(super) b: u64,
}

impl AdapterLayout {
    /// The layout of this adapter on this model.
    ///
    /// # Errors
    /// The errors of [`LoraSettings::shapes`].
    pub fn new(settings: &LoraSettings, config: &ModelConfig) -> Result<AdapterLayout, LoraError> {
        let shapes = settings.shapes(config)?;
        let mut builder = Builder::default();
        let mut packed_adapter = |l: usize, packed: Packed| {
            let (mut column, mut adapted) = (0, Vec::new());
            for (name, out) in packed.projections(config) {
                let module = parameter(l, name);
                if shapes.contains_key(&a_name(&module)) {
                    adapted.push((module, column, out));
                }
                column += out;
            }
            let shaped = |name: String| {
                let shape = shapes[&name].to_vec();
                (name, shape)
            };
            let a = builder.segment(adapted.iter().map(|(module, ..)| shaped(a_name(module))));
            let projection = |(module, column, out): (String, usize, usize)| {
                let b = builder.segment([shaped(b_name(&module))]);
                AdaptedProjection { column, out, b }
            };
            let projections: Vec<_> = adapted.into_iter().map(projection).collect();
            (!projections.is_empty()).then_some(PackedAdapter { a, projections })
        };
        let layer = |l| Packed::ALL.map(|packed| packed_adapter(l, packed));
        let layers = (0..config.num_hidden_layers).map(layer).collect();
        Ok(AdapterLayout { settings: settings.clone(), flat: Arc::new(builder.finish()), layers })
    }

    /// Its settings.
    pub fn settings(&self) -> &LoraSettings {
        &self.settings
    }

    /// Tensors by name.
    pub(crate) fn flat(&self) -> &Arc<FlatLayout> {
        &self.flat
    }

    pub(super) fn packed(&self, l: usize, packed: Packed) -> Option<&PackedAdapter> {
        self.layers[l][packed as usize].as_ref()
    }

    /// Columns of the widest `x A^T`.
    pub(super) fn widest(&self) -> usize {
        let all = self.layers.iter().flatten().flatten();
        all.map(|packed| packed.projections.len() * self.settings.rank).max().unwrap_or(0)
    }
}

/// An adapter on a device, or an element for each of its own, such as gradients.
#[derive(Debug)]
pub struct Adapter<T = Real> {
    layout: Arc<AdapterLayout>,
    tensors: Tensors<T>,
}

impl<T: Float> Adapter<T> {
    fn new(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<AdapterLayout>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let tensors = Tensors::zeros(device, what, layout.flat(), dtype)?;
        Ok(Adapter { layout: layout.clone(), tensors })
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<AdapterLayout> {
        &self.layout
    }

    /// The tensors, by name.
    pub fn tensors(&self) -> &Tensors<T> {
        &self.tensors
    }
}

impl Adapter<f32> {
    /// Gradients, at zero.
    pub(super) fn gradients(
        device: &Arc<dyn Device>,
        layout: &Arc<AdapterLayout>,
    ) -> Result<Self, DeviceError> {
        Self::new(device, "gradients", layout, Dtype::F32)
    }
}

impl Adapter {
    /// Zeros. `what` names their use in the ledger: `weights`, `gradients`.
    ///
    /// # Errors
    /// Errors if there is too little memory or the device fails.
    pub fn zeros(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<AdapterLayout>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        Self::new(device, what, layout, dtype)
    }

    /// These tensors, rounded to `dtype`.
    ///
    /// # Errors
    /// Errors if there is too little memory or the device fails.
    ///
    /// # Panics
    /// Panics if they are not those of the layout.
    pub fn upload(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<AdapterLayout>,
        parameters: &Parameters<f32>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let adapter = Self::new(device, what, layout, dtype)?;
        assert_eq!(parameters.len(), layout.flat().tensors().count(), "tensors of the adapter");
        adapter.tensors.write(parameters)?;
        Ok(adapter)
    }
}
