//! A small random model from tokens to gradients, against the decoder of the CPU or another implementation.

use std::collections::BTreeMap;
use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model::weights::{Parameters, initialise};
use grpo_lambda_decoder::model::{
    self,
    Architecture::{Qwen2, Qwen3},
    Cotangents, Decoder, ForwardOptions, Gradients, ModelConfig, ModelShape, Rows, TokenScores,
};
use grpo_lambda_decoder::rng::{below, normal};
use half::bf16;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::case::{Case, Checker};
use super::{Extent, Finding};
use crate::decoder::{Budget, Error, GpuDecoder};
use crate::device::Device;
use crate::gradients::Gradients as OnDevice;
use crate::layout::Layout;
use crate::weights::Weights;

/// Roundings of an activation per layer and direction.
const ROUNDINGS: f64 = 12.0;
const LAYERS: usize = 2;

/// An implementation of a decoder: the scores of rows, and the gradient of the scored tokens' log-probabilities and entropies times these
/// cotangents, by name.
pub type Reference<'a> = dyn Fn(
        &ModelConfig,
        &Parameters<f32>,
        &Rows,
        ForwardOptions,
        Cotangents<'_>,
    ) -> model::Result<(TokenScores, Parameters<f32>)>
    + 'a;

/// The decoder of the CPU.
fn by_cpu(
    config: &ModelConfig,
    weights: &Parameters<f32>,
    rows: &Rows,
    options: ForwardOptions,
    cotangents: Cotangents<'_>,
) -> model::Result<(TokenScores, Parameters<f32>)> {
    let (decoder, mut gradients) =
        (Decoder::new(config.clone(), weights.clone())?, Gradients::new(config, |_| true));
    let (scores, tape) = decoder.forward(rows, options)?;
    decoder.backward(tape, cotangents, &mut gradients);
    Ok((scores, std::mem::take(gradients.parameters())))
}

pub(super) fn check(checker: &mut Checker) {
    check_by(checker, "", &by_cpu);
}

/// [`check`] against another implementation, named after `by`.
pub(super) fn check_by(checker: &mut Checker, by: &str, reference: &Reference<'_>) {
    let tied = Qwen2.config(ModelShape { vocab: 97, hidden: 48, layers: LAYERS, heads: 6, kv_heads: 2 });
    let own_head = ModelConfig { tie_word_embeddings: false, ..tied.clone() };
    let normed = ModelConfig {
        qkv_bias: true,
        head_dim: 12,
        ..Qwen3.config(ModelShape { vocab: 97, hidden: 48, layers: LAYERS, heads: 6, kv_heads: 2 })
    };
    for (model, config, recompute) in [
        ("tied", &tied, false),
        ("tied", &tied, true),
        ("own head", &own_head, false),
        ("normed heads", &normed, false),
        ("normed heads", &normed, true),
    ] {
        let how = if recompute { " recomputed with entropy" } else { "" };
        let sizes = format!("{LAYERS} layers {model}{how}{by}");
        checker.case("decoder", sizes, |c| in_one_error(decoder(c, config, recompute, reference)));
    }
}

/// 64 tokens of a model of this shape, with two layers at most, against the decoder of the CPU.
pub(super) fn of_shape(device: &Arc<dyn Device>, dtype: Dtype, shape: &ModelConfig) -> Vec<Finding> {
    let config = ModelConfig { num_hidden_layers: shape.num_hidden_layers.min(LAYERS), ..shape.clone() };
    let mut checker = Checker::new(device, dtype, Extent::Odd, None);
    checker.case("decoder", "64 tokens of the run's model".to_owned(), |c| {
        in_one_error(decoder(c, &config, true, &by_cpu))
    });
    checker.findings
}

fn in_one_error(done: Result<(), Error>) -> Result<(), DeviceError> {
    done.map_err(|error| match error {
        Error::Device(error) => error,
        Error::Rows(error) => DeviceError::Missing(error.to_string()),
    })
}

/// Weights of which none is 0 or 1, as the device stores them.
///
/// Sums over a hidden state have variance 1 at every width, so that no softmax is saturated: a score of 30 turns the rounding of its terms
/// into an error of its exponential that no bound for a model holds.
fn weights(config: &ModelConfig, dtype: Dtype) -> Parameters<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let deviation = (0.5 / config.hidden_size as f64).sqrt();
    let mut weights = initialise(config, 0, deviation);
    // A hash map has no order; names have.
    let sorted: BTreeMap<_, _> = weights.iter_mut().collect();
    for x in sorted.into_values().flat_map(|tensor| &mut tensor.data) {
        *x += (deviation * normal(&mut rng)) as f32;
        if dtype == Dtype::Bf16 {
            *x = bf16::from_f32(*x).to_f32();
        }
    }
    weights
}

/// Rows of several lengths, of which one scores a single token.
fn rows(vocabulary: usize) -> Rows {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut rows = Rows::new();
    for (len, scored_from) in [(9, 3), (2, 1), (40, 17), (5, 4), (8, 2)] {
        let tokens: Vec<u32> = (0..len).map(|_| below(&mut rng, vocabulary as u64) as u32).collect();
        rows.push(&tokens, scored_from);
    }
    rows
}

fn decoder(
    c: &mut Case<'_>,
    config: &ModelConfig,
    recompute: bool,
    reference: &Reference<'_>,
) -> Result<(), Error> {
    let weights = weights(config, c.kernels.dtype);
    let rows = rows(config.vocab_size);
    let options = ForwardOptions { temperature: 0.8, entropy: true, recompute };
    let slopes: Vec<Vec<f64>> = (0..rows.len())
        .map(|row| (0..rows.scored(row)).map(|t| (row as f64 - 1.5) * 0.3 + t as f64 * 0.1).collect())
        .collect();

    // A bonus as small as those in use.
    let bonus: Vec<Vec<f64>> = slopes.iter().map(|row| row.iter().map(|x| 0.1 * x).collect()).collect();
    let cotangents = Cotangents { logps: &slopes, entropies: recompute.then_some(&bonus[..]) };

    let (scores, expected) = reference(config, &weights, &rows, options, cotangents)?;

    let device = c.device().clone();
    let layout = Arc::new(Layout::new(config));
    let own = Weights::upload(&device, "check", &layout, &weights, c.kernels.dtype)?;
    let gpu = GpuDecoder::new(c.kernels.clone(), layout.clone(), Budget::default());
    let gradients = OnDevice::weights(&device, &layout)?;
    let (found, tape) = gpu.forward(&own, &rows, options)?;
    gpu.backward(&own, tape, cotangents, &gradients)?;

    // Errors of roundings one after the other add up as a random walk does; twice that, since later layers amplify them.
    let rounding = match c.kernels.dtype {
        Dtype::F32 => 1.0 / f64::from(1 << 20),
        Dtype::Bf16 => 1.0 / 256.0,
    };
    let bound = 2.0 * rounding * (ROUNDINGS * LAYERS as f64).sqrt();
    for (found, expected) in [(&found.logps, &scores.logps), (&found.entropies, &scores.entropies)] {
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            c.number(*found, *expected, bound * (1.0 + expected.abs()));
        }
    }
    // Of a projection's gradient, how far all of it is off relative to its norm; the bias with its matrix, since what a bias of keys
    // gets is next to nothing: the same for all keys, it moves no softmax but for the rotations.
    let mut squares: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for (name, tensor) in &expected {
        let found = gradients.tensors().read_tensor(name)?;
        let projection = name.trim_end_matches(".weight").trim_end_matches(".bias");
        let [distance, size] = squares.entry(projection).or_default();
        for (a, b) in found.iter().zip(&tensor.data) {
            *distance += f64::from(a - b).powi(2);
            *size += f64::from(*b).powi(2);
        }
    }
    for [distance, size] in squares.into_values() {
        c.number((distance / size).sqrt(), 0.0, bound * 2.0f64.sqrt());
    }
    Ok(())
}
