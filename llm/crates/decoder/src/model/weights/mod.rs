//! Parameters by their Hugging Face names, read from and written to safetensors.
//!
//! A [`BTreeMap`] keeps them sorted, so that sums, norms, optimiser state and files have one order in every process. Master
//! weights are `f32` whatever the file holds.

mod read;
mod write;

pub(crate) use read::decode;
pub use read::{CheckpointSummary, inspect, load};
pub(crate) use write::write_file;
pub use write::{SaveDtype, save, save_on};

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::config::layer::{Kind, Parameter};
use super::config::{EMBEDDING, HEAD, ModelConfig};
use super::error::{Error, Result};
use super::ops::Real;

/// A dense array.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<T> {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements by rows.
    pub data: Vec<T>,
}

impl<T: Real> Tensor<T> {
    /// Zeros.
    pub fn zeros(shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), data: vec![T::ZERO; shape.iter().product()] }
    }

    /// The row of this token of a matrix.
    pub(crate) fn row_mut(&mut self, token: u32) -> &mut [T] {
        let width = self.shape[1];
        &mut self.data[token as usize * width..][..width]
    }
}

/// Parameters, or their gradients, by name and sorted.
pub type Parameters<T> = BTreeMap<String, Tensor<T>>;

/// Fresh parameters: matrices normal with this standard deviation (0.02 is usual), norms 1, biases 0.
///
/// Each parameter has a generator of its own, ChaCha8 keyed by the seed and its name, so no order enters and a larger model
/// shares the parameters of a smaller one where shapes agree.
pub fn initialise(config: &ModelConfig, seed: u64, deviation: f64) -> Parameters<f32> {
    let fill = |Parameter { name, shape, kind }| {
        let mut tensor = Tensor::<f32>::zeros(&shape);
        match kind {
            Kind::Norm => tensor.data.fill(1.0),
            Kind::Matrix => fill_normal(&mut tensor.data, seed ^ fnv(&name), deviation),
            Kind::Bias => {}
        }
        (name, tensor)
    };
    config.parameters().into_iter().map(fill).collect()
}

/// Normal numbers, by Box-Muller on (0, 1]; both halves are used.
fn fill_normal(data: &mut [f32], seed: u64, deviation: f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut unit = || ((rng.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    for pair in data.chunks_mut(2) {
        let (radius, angle) = ((-2.0 * unit().ln()).sqrt(), std::f64::consts::TAU * unit());
        for (x, part) in pair.iter_mut().zip([angle.cos(), angle.sin()]) {
            *x = (deviation * radius * part) as f32;
        }
    }
}

/// FNV-1a: a hash that stays the same from release to release.
pub fn fnv(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Converts parameters to another precision.
pub fn cast<A: Real, B: Real>(parameters: &Parameters<A>) -> Parameters<B> {
    let cast = |t: &Tensor<A>| Tensor {
        shape: t.shape.clone(),
        data: t.data.iter().map(|x| B::from_f64(x.to_f64())).collect(),
    };
    parameters.iter().map(|(name, tensor)| (name.clone(), cast(tensor))).collect()
}

/// Refuses parameters that are not exactly those of `config`.
///
/// # Errors
/// Naming the first tensor that is missing, unexpected or of another shape.
pub fn check<T>(config: &ModelConfig, parameters: &Parameters<T>) -> Result<()> {
    let fail = |tensor: &str, reason: String| Error::Tensor {
        file: "parameters".into(),
        tensor: tensor.into(),
        reason,
    };
    let shapes: BTreeMap<String, Vec<usize>> = config.parameter_shapes().into_iter().collect();
    for (name, shape) in &shapes {
        match parameters.get(name) {
            None => return Err(fail(name, format!("missing; expected shape {shape:?}"))),
            Some(t) if t.shape != *shape || t.data.len() != shape.iter().product::<usize>() => {
                return Err(fail(name, format!("expected shape {shape:?}, found {:?}", t.shape)));
            }
            Some(_) => {}
        }
    }
    match parameters.keys().find(|name| !shapes.contains_key(*name)) {
        Some(name) => Err(fail(name, "not a parameter of this configuration".into())),
        None => Ok(()),
    }
}

/// The output matrix: the embedding when tied.
pub fn head_name(config: &ModelConfig) -> &'static str {
    if config.tie_word_embeddings { EMBEDDING } else { HEAD }
}

#[cfg(test)]
mod tests;
