//! Low-rank adapters on a device: `y = x W^T + s (x A^T) B^T`, with `W` frozen and never merged.
//!
//! Settings, names and initial values are those of [`grpo_lambda_decoder::lora`], which computes `W + s B A` once. Here the thin products are
//! computed next to the wide one, so `W` has no gradient buffer, and the weights without the adapter are the reference of a KL term.
//!
//! The `A`s of projections that read one input (queries, keys and values; gate and up) are rows of one matrix, so `x A^T` is one
//! product; every `B` adds to its own columns of the packed output.

use std::sync::Arc;

use grpo_lambda_decoder::lora::{LoraError, LoraSettings, a_name, b_name};
use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::config::parameter;

use super::flat::{Builder, Flat, FlatLayout};
use super::layout::Packed;
use super::ptr::Real;
use super::weights::Laid;

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

    pub(super) fn packed(&self, l: usize, packed: Packed) -> Option<&PackedAdapter> {
        self.layers[l][packed as usize].as_ref()
    }

    /// Columns of the widest `x A^T`.
    pub(super) fn widest(&self) -> usize {
        let all = self.layers.iter().flatten().flatten();
        all.map(|packed| packed.projections.len() * self.settings.rank).max().unwrap_or(0)
    }
}

impl Flat for AdapterLayout {
    fn flat(&self) -> &Arc<FlatLayout> {
        &self.flat
    }
}

/// An adapter on a device, or an element for each of its own, such as gradients.
pub type Adapter<T = Real> = Laid<AdapterLayout, T>;
