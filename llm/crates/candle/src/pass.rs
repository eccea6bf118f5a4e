//! Scores of rows and their gradients, a layer at a time.
//!
//! ```text
//! forward    x[0] = embeddings    x[l + 1] = layer l of x[l]         no graph; the inputs of the layers are kept
//! head       d logits = slope (onehot - p) / temperature             by hand, a chunk of tokens at a time; with a slope h of the entropy H
//!                       - h p (log p + H) / temperature
//! backward   y = layer l of a variable x[l]    d x[l], d W = those of sum(y dy)    one layer's graph at a time, from the last to the first
//! ```
//!
//! Gradients that candle gives are tensors of a graph themselves: each is detached, or it would keep the graphs of all layers above it.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor, Var, bail};
use grpo_lambda_decoder::model::config::{EMBEDDING, FINAL_NORM, parameter};
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{self, Cotangents, ForwardOptions, ModelConfig, Rows, TokenScores};

use crate::attention::{Attention, SCORES, Sequence};
use crate::failed;
use crate::model::Model;
use crate::ops::{self, Rotations, widened};

/// The most logits at a time: half a GiB in `f32`.
const LOGITS: usize = 1 << 27;

/// Gradients by name, in `f32` (`f64` for a model of that type).
pub type Slopes = BTreeMap<String, Tensor>;

/// Rows as a model on a device reads them: prefixes once, then the rows that continue them.
pub struct Batch {
    tokens: Tensor,
    rotations: Rotations,
    attention: Attention,
    /// Tokens whose hidden states predict those that are scored; none, if none is.
    places: Option<Tensor>,
    targets: Vec<u32>,
    /// Scored tokens, by row.
    scored: Vec<usize>,
}

impl Batch {
    /// The batch of these rows.
    pub fn new(model: &Model, rows: &Rows) -> Result<Self> {
        let (mut tokens, mut positions, mut sequences) = (Vec::new(), Vec::new(), Vec::new());
        for prefix in rows.prefixes() {
            sequences.push(Sequence { tokens: tokens.len()..tokens.len() + prefix.len(), prefix: 0..0 });
            tokens.extend_from_slice(prefix);
            positions.extend(0..prefix.len() as u32);
        }
        let shared = tokens.len();
        for (i, pair) in rows.offsets().windows(2).enumerate() {
            let prefix = rows.prefix(i).map_or(0..0, |p| sequences[p].tokens.clone());
            sequences.push(Sequence { tokens: shared + pair[0]..shared + pair[1], prefix });
        }
        tokens.extend_from_slice(rows.tokens());
        positions.extend(rows.positions());
        let (places, targets) = rows.targets();
        let places: Vec<u32> = places.into_iter().map(|at| (shared + at) as u32).collect();
        let scores = if model.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        Ok(Self {
            rotations: model.rotations(&positions)?,
            attention: Attention::new(model.config.heads(), &sequences, SCORES, scores, &model.device)?,
            tokens: Tensor::new(tokens, &model.device)?,
            places: if places.is_empty() { None } else { Some(Tensor::new(places, &model.device)?) },
            targets,
            scored: (0..rows.len()).map(|i| rows.scored(i)).collect(),
        })
    }

    /// By row.
    fn parted(&self, numbers: &[f64]) -> Vec<Vec<f64>> {
        let mut rest = numbers;
        let mut part = |&n: &usize| rest.split_off(..n).unwrap_or_default().to_vec();
        self.scored.iter().map(&mut part).collect()
    }

    fn layer(&self, model: &Model, l: usize, x: &Tensor) -> Result<Tensor> {
        model.layer(l, x, &self.rotations, &mut |qkv| self.attention.run(qkv))
    }

    /// The stream after the last layer, as one graph of the model's variables.
    pub fn stream(&self, model: &Model) -> Result<Tensor> {
        self.stream_watched(model, &mut |_| Ok(()))
    }

    /// [`Batch::stream`], where `watch` is shown the queries, keys and values of every layer.
    pub(crate) fn stream_watched(
        &self,
        model: &Model,
        watch: &mut dyn FnMut(&Tensor) -> Result<()>,
    ) -> Result<Tensor> {
        let mut attend = |qkv: &Tensor| {
            watch(qkv)?;
            self.attention.run(qkv)
        };
        let x = model.embed(&self.tokens)?;
        (0..model.config.num_hidden_layers)
            .try_fold(x, |x, l| model.layer(l, &x, &self.rotations, &mut attend))
    }

    /// The hidden states that predict the scored tokens, from the stream after the last layer.
    pub fn hidden(&self, model: &Model, last: &Tensor) -> Result<Option<Tensor>> {
        let hidden = |places| model.final_norm(&last.index_select(places, 0)?);
        self.places.as_ref().map(hidden).transpose()
    }

    /// The tokens that are scored.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }
}

/// A forward pass that can be differentiated: the input of every layer, and of the head.
pub struct Tape {
    batch: Batch,
    inputs: Vec<Tensor>,
    temperature: f64,
}

/// The scores of the rows.
pub fn score(model: &Model, rows: &Rows, options: ForwardOptions) -> Result<TokenScores> {
    let batch = Batch::new(model, rows)?;
    let last = batch.stream(model)?;
    head(model, &batch, &last, options)
}

/// Scores of rows, and the gradient of their sum times `cotangents`, by name: in double precision, on a CUDA card if this was built for
/// one and on the CPU otherwise. Another opinion on the numbers of a device.
///
/// # Errors
/// When the parameters are not those of `config`, or candle fails.
pub fn in_double_precision(
    config: &ModelConfig,
    parameters: &Parameters<f32>,
    rows: &Rows,
    options: ForwardOptions,
    cotangents: Cotangents<'_>,
) -> model::Result<(TokenScores, Parameters<f32>)> {
    let device = Device::cuda_if_available(0).map_err(|e| failed(&Device::Cpu, e))?;
    let done = || {
        let parameters: Parameters<f64> = weights::cast(parameters);
        let model = Model::new(config, &parameters, DType::F64, &device)?;
        let (scores, tape) = forward(&model, rows, options)?;
        let mut sums = Slopes::new();
        backward(&model, tape, cotangents, &|_| true, &mut sums)?;
        let narrow = |(name, sum): (String, Tensor)| {
            let data = sum.flatten_all()?.to_dtype(DType::F32)?.to_vec1()?;
            Ok((name, weights::Tensor { shape: sum.dims().to_vec(), data }))
        };
        Ok((scores, sums.into_iter().map(narrow).collect::<Result<_>>()?))
    };
    Ok(done().map_err(|e| failed(&device, e))?)
}

/// The scores of the rows, with the tape for [`backward`].
pub fn forward(model: &Model, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, Tape)> {
    let batch = Batch::new(model, rows)?;
    let mut inputs = vec![model.embed(&batch.tokens)?];
    for l in 0..model.config.num_hidden_layers {
        inputs.push(batch.layer(model, l, &inputs[l])?);
    }
    let scores = head(model, &batch, &inputs[model.config.num_hidden_layers], options)?;
    Ok((scores, Tape { batch, inputs, temperature: options.temperature }))
}

/// Ranges of scored tokens whose logits are computed together.
fn chunks(model: &Model, tokens: usize) -> impl Iterator<Item = (usize, usize)> {
    let most = (LOGITS / model.config.vocab_size).max(1);
    (0..tokens).step_by(most).map(move |from| (from, most.min(tokens - from)))
}

fn head(model: &Model, batch: &Batch, last: &Tensor, options: ForwardOptions) -> Result<TokenScores> {
    let (mut logps, mut entropies) = (Vec::new(), Vec::new());
    if let Some(hidden) = batch.hidden(model, last)? {
        for (from, len) in chunks(model, batch.targets.len()) {
            let scores = ops::log_probs(&hidden.narrow(0, from, len)?, model.head()?, options.temperature)?;
            let targets = Tensor::new(&batch.targets[from..from + len], &model.device)?.unsqueeze(1)?;
            let read = |x: Tensor| x.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>();
            logps.extend(read(scores.gather(&targets, 1)?)?);
            if options.entropy {
                entropies.extend(read(ops::p_log_p(&scores)?.sum(1)?.neg()?)?);
            }
        }
    }
    let entropies = if options.entropy { batch.parted(&entropies) } else { Vec::new() };
    Ok(TokenScores { logps: batch.parted(&logps), entropies })
}

/// Adds to `slopes` the gradients of the sum of log-probabilities and entropies times their cotangents by the tensors that `trains` names.
///
/// # Errors
/// When candle fails, or a trained tensor of a layer received no gradient.
///
/// # Panics
/// When there is not one cotangent of each kind per scored token.
pub fn backward<'a>(
    model: &Model,
    tape: Tape,
    cotangents: impl Into<Cotangents<'a>>,
    trains: &dyn Fn(&str) -> bool,
    slopes: &mut Slopes,
) -> Result<()> {
    let Tape { batch, mut inputs, temperature } = tape;
    let Cotangents { logps, entropies } = cotangents.into();
    let flat = |slopes: &[Vec<f64>]| {
        assert!(slopes.iter().map(Vec::len).eq(batch.scored.iter().copied()), "scored tokens by row");
        slopes.iter().flatten().map(|d| d / temperature).collect::<Vec<f64>>()
    };
    let by_kind = (flat(logps), entropies.map(flat));
    let Some(last) = inputs.pop().filter(|_| batch.places.is_some()) else { return Ok(()) };
    let mut dx = head_backward(model, &batch, &last, temperature, &by_kind, trains, slopes)?;
    for l in (0..inputs.len()).rev() {
        let start = parameter(l, "");
        let (with, variables) = model.tracking(|name| name.starts_with(&start) && trains(name))?;
        let x = inputs.pop().map_or_else(|| bail!("layer {l} has no input"), |x| Var::from_tensor(&x))?;
        let y = batch.layer(&with, l, &x)?;
        let mut store = (y * dx)?.sum_all()?.backward()?;
        for (name, variable) in variables {
            match store.remove(&variable) {
                Some(slope) => add(slopes, &name, &slope.detach())?,
                None => bail!("no gradient reached `{name}`"),
            }
        }
        dx = store
            .remove(&x)
            .map_or_else(|| bail!("no gradient reached the input of layer {l}"), |d| Ok(d.detach()))?;
    }
    if trains(EMBEDDING) {
        let zeros = || model.get(EMBEDDING).and_then(|e| widened(&e.zeros_like()?));
        let sum = slopes.remove(EMBEDDING).map_or_else(zeros, Ok)?;
        slopes.insert(EMBEDDING.to_owned(), sum.index_add(&batch.tokens, &widened(&dx)?, 0)?);
    }
    Ok(())
}

/// From the slopes of the scored tokens, divided by the temperature, to the gradient of the stream after the last layer; adds those of the head and
/// the norm before it.
fn head_backward(
    model: &Model,
    batch: &Batch,
    last: &Tensor,
    temperature: f64,
    (dlogps, dentropies): &(Vec<f64>, Option<Vec<f64>>),
    trains: &dyn Fn(&str) -> bool,
    slopes: &mut Slopes,
) -> Result<Tensor> {
    let (with, variables) = model.tracking(|name| name == FINAL_NORM && trains(name))?;
    let x = Var::from_tensor(last)?;
    let Some(tracked) = batch.hidden(&with, &x)? else { return last.zeros_like() };
    let (hidden, head, name) = (tracked.detach(), model.head()?, weights::head_name(&model.config));
    let mut dh = Vec::new();
    for (from, len) in chunks(model, dlogps.len()) {
        let hidden = hidden.narrow(0, from, len)?;
        let log_p = ops::log_probs(&hidden, head, temperature)?;
        let p = log_p.exp()?;
        let column = |slopes: &[f64]| {
            Tensor::from_slice(&slopes[from..from + len], (len, 1), &model.device)?.to_dtype(p.dtype())
        };
        let slope = column(dlogps)?;
        let targets = Tensor::new(&batch.targets[from..from + len], &model.device)?.unsqueeze(1)?;
        let mut d = p.neg()?.broadcast_mul(&slope)?.scatter_add(&targets, &slope, 1)?;
        if let Some(dentropies) = dentropies {
            let terms = ops::p_log_p(&log_p)?;
            // p (log p + H)
            let by_logit = (&terms - p.broadcast_mul(&terms.sum_keepdim(1)?)?)?;
            d = (d - by_logit.broadcast_mul(&column(dentropies)?)?)?;
        }
        let d = d.to_dtype(model.dtype)?;
        dh.push(ops::linear(&d, &head.t()?, None)?);
        if trains(name) {
            add(slopes, name, &ops::linear(&d.t()?, &hidden.t()?, None)?)?;
        }
    }
    let mut store = (tracked * Tensor::cat(&dh, 0)?)?.sum_all()?.backward()?;
    for (name, variable) in variables {
        let slope = store.remove(&variable);
        add(slopes, &name, &slope.map_or_else(|| variable.zeros_like(), |s| Ok(s.detach()))?)?;
    }
    store.remove(&x).map_or_else(|| bail!("no gradient reached the stream"), |d| Ok(d.detach()))
}

fn add(slopes: &mut Slopes, name: &str, slope: &Tensor) -> Result<()> {
    let slope = widened(slope)?;
    let sum = slopes.remove(name).map_or_else(|| Ok(slope.clone()), |sum| sum + &slope)?;
    slopes.insert(name.to_owned(), sum);
    Ok(())
}
