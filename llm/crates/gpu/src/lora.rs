//! Low-rank adapters on a device: `y = x W^T + s (x A^T) B^T`, with `W` frozen and never merged.
//!
//! Settings, names and initial values are those of [`grpo_lambda_decoder::lora`]. There `W + s B A` is computed once and the decoder knows nothing of
//! it; here the thin products are computed beside the wide one, so `W` has no gradient, not even in memory, and the same weights without
//! the adapter are the reference of a KL term.
//!
//! The `A`s of projections that read one input (queries, keys and values; gate and up) are rows of one matrix, so `x A^T` is one
//! product; every `B` adds to its own columns of the packed output.

use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::lora::{LoraSettings, TARGETS, a_name, b_name};
use grpo_lambda_decoder::model::Config;
use grpo_lambda_decoder::model::config::parameter;
use grpo_lambda_decoder::model::weights::Parameters;

use super::device::Device;
use super::layout::{Builder, Flat};
use super::projection::Packed;
use super::weights::Tensors;

/// Where an adapter's tensors are in one flat array.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterLayout {
    settings: LoraSettings,
    flat: Arc<Flat>,
    stacks: Vec<[Option<Stack>; Packed::ALL.len()]>,
}

/// The adapters of one packed matrix.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stack {
    /// Offset of the `A`s, `[parts rank, in]`.
    pub(super) a: u64,
    /// One for every adapted projection.
    pub(super) parts: Vec<Part>,
}

/// One adapted projection in a packed matrix.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
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
    /// As [`LoraSettings::shapes`].
    pub fn new(settings: &LoraSettings, config: &Config) -> Result<AdapterLayout, String> {
        let shapes = settings.shapes(config)?;
        let mut builder = Builder::default();
        let mut stacks = Vec::with_capacity(config.num_hidden_layers);
        for l in 0..config.num_hidden_layers {
            stacks.push(Packed::ALL.map(|packed| {
                let mut column = 0;
                let mut adapted = Vec::new();
                for (target, out) in packed.projections(config) {
                    let place = TARGETS.iter().find(|(name, _)| *name == target).map(|(_, place)| *place);
                    let module = parameter(l, place.unwrap_or_default());
                    if shapes.contains_key(&a_name(&module)) {
                        adapted.push((module, column, out));
                    }
                    column += out;
                }
                let of = |name: String| {
                    let shape = shapes[&name].to_vec();
                    (name, shape)
                };
                let a = builder.segment(adapted.iter().map(|(module, ..)| of(a_name(module))));
                let part = |(module, column, out): (String, usize, usize)| Part {
                    column,
                    out,
                    b: builder.segment([of(b_name(&module))]),
                };
                let parts: Vec<Part> = adapted.into_iter().map(part).collect();
                (!parts.is_empty()).then_some(Stack { a, parts })
            }));
        }
        Ok(AdapterLayout { settings: settings.clone(), flat: Arc::new(builder.finish()), stacks })
    }

    /// Its settings.
    pub fn settings(&self) -> &LoraSettings {
        &self.settings
    }

    /// Tensors by name.
    pub fn flat(&self) -> &Arc<Flat> {
        &self.flat
    }

    pub(super) fn stack(&self, l: usize, packed: Packed) -> Option<&Stack> {
        self.stacks[l][packed as usize].as_ref()
    }

    /// Columns of the widest `x A^T`.
    pub(super) fn widest(&self) -> usize {
        let stacks = self.stacks.iter().flatten().flatten();
        stacks.map(|stack| stack.parts.len() * self.settings.rank).max().unwrap_or(0)
    }
}

/// An adapter on a device, or numbers for each of its own, such as gradients.
#[derive(Debug)]
pub struct Adapter {
    layout: Arc<AdapterLayout>,
    tensors: Tensors,
}

impl Adapter {
    /// Zeros. `what` names their use in the ledger: `weights`, `gradients`.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub fn zeros(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<AdapterLayout>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let tensors = Tensors::zeros(device, what, layout.flat(), dtype)?;
        Ok(Adapter { layout: layout.clone(), tensors })
    }

    /// These tensors, rounded to `dtype`.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    ///
    /// # Panics
    /// When they are not those of the layout.
    pub fn upload(
        device: &Arc<dyn Device>,
        what: &'static str,
        layout: &Arc<AdapterLayout>,
        parameters: &Parameters<f32>,
        dtype: Dtype,
    ) -> Result<Self, DeviceError> {
        let adapter = Self::zeros(device, what, layout, dtype)?;
        assert_eq!(parameters.len(), layout.flat().places().count(), "tensors of the adapter");
        adapter.tensors.write(parameters)?;
        Ok(adapter)
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<AdapterLayout> {
        &self.layout
    }

    /// By name.
    pub fn tensors(&self) -> &Tensors {
        &self.tensors
    }
}
