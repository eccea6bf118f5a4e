//! Low-rank adapters (LoRA, arXiv 2106.09685): a frozen matrix `W` plus a trained product of two thin ones.
//!
//! ```text
//! W_eff = W + s B A,     s = alpha / rank,     A [rank, in] uniform in ±1/sqrt(in),     B [out, rank] zero at the start
//! dL/dB = s (dL/dW_eff) A^T,                   dL/dA = s B^T (dL/dW_eff)
//! ```
//!
//! The decoder computes with `W_eff` and knows nothing of adapters. Its gradient of `W_eff` is summed over the micro-batches as for any
//! parameter and then propagated to `A` and `B`: adapters keep the exactness of the decoder in any batch, micro-batch and number of threads.
//! They cost a dense gradient of the adapted matrices, and save the optimiser's state (three numbers a weight) and the second model of a KL
//! term, because the reference is the same model [without](Lora::without) its adapter.
//!
//! There is no dropout: it would give sampler and trainer different policies, and ratios other than 1 on-policy.

mod peft;

pub use crate::lora_error::{LoraError, TARGETS};
pub use peft::{CONFIG_FILE, WEIGHTS_FILE, load, save, save_on};

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use crate::model::config::layer::Projection;
use crate::model::config::parameter;
use crate::model::weights::{self, Parameters, Tensor};
use crate::model::{Decoder, Gradients, ModelConfig};

/// The shape of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraSettings {
    /// Rows of `A` and columns of `B`, at least 1.
    pub rank: usize,
    /// `s = alpha / rank`.
    pub alpha: f64,
    /// Names of [`TARGETS`], each once.
    pub targets: Vec<String>,
}

impl LoraSettings {
    /// `s`.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    /// The adapted matrices of a model, as parameter names without `.weight`, in the order of names.
    pub fn modules(&self, config: &ModelConfig) -> Vec<String> {
        self.matrices(config).into_keys().collect()
    }

    /// `[out, in]` of the adapted matrices, in the order of [`LoraSettings::modules`].
    pub fn sizes(&self, config: &ModelConfig) -> Vec<[usize; 2]> {
        self.matrices(config).into_values().collect()
    }

    fn matrices(&self, config: &ModelConfig) -> BTreeMap<String, [usize; 2]> {
        let layer = config.layer();
        let chosen = |p: &&Projection| self.targets.iter().any(|t| TARGETS.contains(&(t.as_str(), p.name)));
        let adapted: Vec<&Projection> = layer.projections().filter(chosen).collect();
        let in_layer = |l| adapted.iter().map(move |p| (parameter(l, p.name), [p.outputs, p.inputs]));
        (0..config.num_hidden_layers).flat_map(in_layer).collect()
    }

    /// Size of the adapted matrices.
    pub fn adapted(&self, config: &ModelConfig) -> usize {
        self.sizes(config).iter().map(|[out, inner]| out * inner).sum()
    }

    /// Size of the adapter.
    pub fn parameters(&self, config: &ModelConfig) -> usize {
        self.sizes(config).iter().map(|[out, inner]| self.rank * (out + inner)).sum()
    }

    /// Names and shapes of the adapter's tensors, sorted.
    ///
    /// # Errors
    /// An unknown target, a rank of 0 or larger than a matrix allows, a scale that is not a finite number.
    pub fn shapes(&self, config: &ModelConfig) -> Result<BTreeMap<String, [usize; 2]>, LoraError> {
        if !self.alpha.is_finite() {
            return Err(LoraError::Alpha { alpha: self.alpha });
        }
        if let Some(other) = self.targets.iter().find(|t| TARGETS.iter().all(|(name, _)| name != t)) {
            return Err(LoraError::Target { name: other.clone() });
        }
        if self.targets.is_empty() {
            return Err(LoraError::NoTarget);
        }
        let mut shapes = BTreeMap::new();
        for (module, [out, inner]) in self.modules(config).into_iter().zip(self.sizes(config)) {
            if !(1..=out.min(inner)).contains(&self.rank) {
                return Err(LoraError::Rank { rank: self.rank, module, size: [out, inner] });
            }
            shapes.insert(a_name(&module), [self.rank, inner]);
            shapes.insert(b_name(&module), [out, self.rank]);
        }
        Ok(shapes)
    }

    /// Fresh tensors: `A` from the seed and its name alone, `B` zero, which leaves the model unchanged.
    ///
    /// # Errors
    /// The errors of [`LoraSettings::shapes`].
    pub fn initialise(&self, config: &ModelConfig, seed: u64) -> Result<Parameters<f32>, LoraError> {
        let fill = |(name, shape): (String, [usize; 2])| {
            let mut tensor = Tensor::<f32>::zeros(&shape);
            if name.ends_with(A) {
                let mut rng = ChaCha8Rng::seed_from_u64(seed ^ weights::fnv(&name));
                let bound = 1.0 / (shape[1] as f64).sqrt();
                for x in &mut tensor.data {
                    let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                    *x = (bound * (2.0 * unit - 1.0)) as f32;
                }
            }
            (name, tensor)
        };
        Ok(self.shapes(config)?.into_iter().map(fill).collect())
    }
}

const A: &str = ".lora_A.weight";
const B: &str = ".lora_B.weight";

/// The name of the matrix `A` of a projection.
pub fn a_name(module: &str) -> String {
    format!("{module}{A}")
}

/// The name of the matrix `B` of a projection.
pub fn b_name(module: &str) -> String {
    format!("{module}{B}")
}

/// Merges an adapter into weights, with the bits of [`Lora::merge`].
///
/// # Errors
/// The errors of [`LoraSettings::shapes`], and naming a matrix that would hold a number that is not finite.
///
/// # Panics
/// When a tensor of the adapter is missing or of another size, or the weights are not those of `config`.
pub fn merge(
    settings: &LoraSettings,
    adapter: &Parameters<f32>,
    config: &ModelConfig,
    parameters: &mut Parameters<f32>,
) -> Result<(), LoraError> {
    settings.shapes(config)?;
    let look = |name: &str| adapter.get(name).map(|t| t.data.as_slice());
    for module in settings.modules(config) {
        let (a, b) = (tensor(&look, &a_name(&module)), tensor(&look, &b_name(&module)));
        let name = format!("{module}.weight");
        let base = parameters.get_mut(&name).unwrap_or_else(|| panic!("the weights have no `{name}`"));
        let data = merged(base, a, b, settings.rank, settings.scale() as f32);
        if let Some(place) = data.iter().position(|x| !x.is_finite()) {
            let (merged, base, alpha) = (data[place], base.data[place], settings.alpha);
            return Err(LoraError::NotFinite { name, place, merged, base, alpha });
        }
        base.data = data;
    }
    Ok(())
}

/// The frozen matrices under an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    settings: LoraSettings,
    /// `W` by module.
    base: BTreeMap<String, Tensor<f32>>,
}

/// Looks up a tensor of the adapter.
pub type TensorLookup<'a> = dyn Fn(&str) -> Option<&'a [f32]> + Sync + 'a;

impl Lora {
    /// Keeps copies of the matrices that will be adapted.
    ///
    /// # Errors
    /// The errors of [`LoraSettings::shapes`].
    pub fn new(settings: LoraSettings, model: &Decoder<f32>) -> Result<Lora, LoraError> {
        settings.shapes(model.config())?;
        let keep = |module: String| {
            let weight = model.parameters()[&format!("{module}.weight")].clone();
            (module, weight)
        };
        let base = settings.modules(model.config()).into_iter().map(keep).collect();
        Ok(Lora { settings, base })
    }

    /// Its shape.
    pub fn settings(&self) -> &LoraSettings {
        &self.settings
    }

    /// True if a parameter of the model is under the adapter, so that it needs a gradient.
    pub fn adapts(&self, name: &str) -> bool {
        name.strip_suffix(".weight").is_some_and(|module| self.base.contains_key(module))
    }

    /// Moves the model to `W + s B A`.
    ///
    /// # Panics
    /// When a tensor of the adapter is missing or of another size.
    pub fn merge(&self, model: &mut Decoder<f32>, adapter: &TensorLookup) {
        self.set(model, |module, base| {
            let (a, b) = (tensor(adapter, &a_name(module)), tensor(adapter, &b_name(module)));
            merged(base, a, b, self.settings.rank, self.settings.scale() as f32)
        });
    }

    /// Runs `work` on the frozen reference, the model without its adapter, and restores the model's bits.
    pub fn without<R>(&self, model: &mut Decoder<f32>, work: impl FnOnce(&Decoder<f32>) -> R) -> R {
        let adapted: BTreeMap<String, Vec<f32>> = self
            .base
            .keys()
            .map(|module| (module.clone(), model.parameters()[&format!("{module}.weight")].data.clone()))
            .collect();
        self.set(model, |_, base| base.data.clone());
        let result = work(model);
        self.set(model, |module, _| adapted[module].clone());
        result
    }

    /// The model's weights without the adapter.
    pub fn under(&self, model: &Decoder<f32>) -> Parameters<f32> {
        let mut parameters = model.parameters().clone();
        for (module, base) in &self.base {
            parameters.insert(format!("{module}.weight"), base.clone());
        }
        parameters
    }

    fn set(&self, model: &mut Decoder<f32>, weight: impl Fn(&str, &Tensor<f32>) -> Vec<f32>) {
        model.update(|parameters| {
            for (module, base) in &self.base {
                if let Some(tensor) = parameters.get_mut(&format!("{module}.weight")) {
                    tensor.data = weight(module, base);
                }
            }
        });
    }

    /// The gradients of `A` and `B` from those of the adapted matrices, complete and sorted by name.
    ///
    /// # Panics
    /// When `dense` lacks an adapted matrix, or a tensor of the adapter is missing.
    pub fn gradients(&self, dense: &mut Gradients<f32>, adapter: &TensorLookup) -> Parameters<f32> {
        let (rank, scale) = (self.settings.rank, self.settings.scale() as f32);
        let dense = dense.parameters();
        let mut gradients = Parameters::new();
        for (module, base) in &self.base {
            let dw = &dense[&format!("{module}.weight")].data;
            let (a, b) = (tensor(adapter, &a_name(module)), tensor(adapter, &b_name(module)));
            let (out, inner) = (base.shape[0], base.shape[1]);
            let mut da = Tensor::<f32>::zeros(&[rank, inner]);
            da.data.par_chunks_mut(inner).enumerate().for_each(|(k, da)| {
                for (dw, b) in dw.chunks_exact(inner).zip(b.chunks_exact(rank)) {
                    add_scaled(da, scale * b[k], dw);
                }
            });
            let mut db = Tensor::<f32>::zeros(&[out, rank]);
            db.data.par_chunks_mut(rank).zip(dw.par_chunks(inner)).for_each(|(db, dw)| {
                for (db, a) in db.iter_mut().zip(a.chunks_exact(inner)) {
                    *db = scale * dot(dw, a);
                }
            });
            gradients.insert(a_name(module), da);
            gradients.insert(b_name(module), db);
        }
        gradients
    }
}

fn tensor<'a>(adapter: &TensorLookup<'a>, name: &str) -> &'a [f32] {
    adapter(name).unwrap_or_else(|| panic!("the adapter has no `{name}`"))
}

/// `W + s B A`, a row at a time: one order of summation whatever the number of threads.
fn merged(base: &Tensor<f32>, a: &[f32], b: &[f32], rank: usize, scale: f32) -> Vec<f32> {
    let inner = base.shape[1];
    let mut weight = base.data.clone();
    weight.par_chunks_mut(inner).zip(b.par_chunks(rank)).for_each(|(row, b)| {
        let mut delta = vec![0.0; inner];
        for (a, b) in a.chunks_exact(inner).zip(b) {
            add_scaled(&mut delta, *b, a);
        }
        add_scaled(row, scale, &delta);
    });
    weight
}

fn add_scaled(to: &mut [f32], factor: f32, x: &[f32]) {
    for (to, x) in to.iter_mut().zip(x) {
        *to += factor * x;
    }
}

/// Eight partial sums, so that the compiler can use vectors; always in this order.
fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (xs, ys) = (x.chunks_exact(8), y.chunks_exact(8));
    let rest: f32 = xs.remainder().iter().zip(ys.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in xs.zip(ys) {
        for i in 0..8 {
            sums[i] += x[i] * y[i];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests;
