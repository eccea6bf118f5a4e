//! The decoder on a device: the log-probability of chosen tokens and its gradient, as [`grpo_lambda_decoder::model::Decoder`] gives them.
//!
//! Weights and activations are of the dtype `T` of the kernels; sums, logits, log-probabilities and gradients of weights are `f32`. The
//! stream between layers is `T`: what a projection adds to it is summed in `f32` and rounded once.
//!
//! # What is exact
//!
//! A step repeats to the bit, with or without recomputation. A token's log-probability does not have the same bits in every batch, as
//! it has on the CPU: the library behind [`Device::gemm`](super::Device::gemm) chooses its order of summation by the sizes of the
//! matrices.

use std::sync::{Arc, Mutex, PoisonError};

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::decoder::inverse;
use grpo_lambda_decoder::model::{Config, Options, Rows, Scores};

use super::batch::{Batch, ById, Lists, floats, room};
use super::device::Buffer;
use super::gradients::Gradients;
use super::kernels::Kernels;
use super::layer::{Activations, Pass};
use super::layout::Layout;
use super::log_prob::{self, Predictions};
use super::projection::Network;

/// What a pass on a device refuses.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed or has too little memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Rows that the model cannot take.
    #[error(transparent)]
    Rows(#[from] grpo_lambda_decoder::model::Error),
}

impl From<Error> for grpo_lambda_decoder::model::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Device(e) => grpo_lambda_decoder::model::Error::Device(e),
            Error::Rows(e) => e,
        }
    }
}

/// What temporary arrays may take at a time; smaller ones take more launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of `f32` scores of attention, unless one key head of one row needs more.
    pub scores: usize,
    /// Bytes of `f32` logits, unless one token needs more.
    pub logits: usize,
}

impl Default for Budget {
    /// 256 MiB of scores, 1 GiB of logits: every piece of them reads and writes the whole gradient of the output matrix.
    fn default() -> Self {
        Budget { scores: 256 << 20, logits: 1 << 30 }
    }
}

/// A model on a device, apart from its weights: policy and reference are two weights for one of these.
#[derive(Debug)]
pub struct GpuDecoder {
    kernels: Kernels,
    layout: Arc<Layout>,
    table: Mutex<Option<Arc<Table>>>,
    budget: Budget,
}

/// Cosines and sines of positions `0..positions`, `f32[positions][dim / 2][2]`.
#[derive(Debug)]
pub(super) struct Table {
    positions: usize,
    buffer: Buffer,
}

impl Table {
    pub(super) fn address(&self) -> u64 {
        self.buffer.address()
    }
}

/// One layer on the tape.
#[derive(Debug)]
enum Kept {
    Whole(Box<Activations>),
    Input(Buffer),
}

/// What the backward pass needs of a forward pass.
#[derive(Debug)]
pub struct Tape {
    batch: Batch,
    layers: Vec<Kept>,
    last: Last,
}

/// The end of a forward pass.
#[derive(Debug)]
struct Last {
    /// Stream after the last layer at the tokens that predict a target, the scale of its norm, and the stream normed.
    stream: Buffer,
    scale: Buffer,
    normed: Buffer,
    /// Output of [`log_prob::forward`].
    saved: Buffer,
    inverse_temperature: f32,
}

impl GpuDecoder {
    /// A decoder of this layout.
    pub fn new(kernels: Kernels, layout: Arc<Layout>, budget: Budget) -> Self {
        GpuDecoder { kernels, layout, table: Mutex::new(None), budget }
    }

    /// The layout of its weights.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Its shape.
    pub fn config(&self) -> &Config {
        self.layout.config()
    }

    /// Its kernels, and through them its device and dtype.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Its budget.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Turns of positions `0..len` at least. Angles are computed in `f64` and rounded once.
    pub(super) fn table(&self, len: usize) -> Result<Arc<Table>, DeviceError> {
        let mut kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = kept.as_ref().filter(|table| table.positions >= len) {
            return Ok(table.clone());
        }
        let positions = len.next_power_of_two().max(256);
        let frequencies = self.config().frequencies();
        let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |f| p as f64 * f));
        let turns: Vec<[f32; 2]> = angles.map(|a| [a.cos() as f32, a.sin() as f32]).collect();
        let table = Table { positions, buffer: Buffer::of(&self.kernels.device, "workspace", &turns)? };
        Ok(kept.insert(Arc::new(table)).clone())
    }

    /// The embeddings of the tokens.
    fn embed(&self, network: Network, batch: &Batch) -> Result<Buffer, DeviceError> {
        let h = self.config().hidden_size;
        let x = room(&self.kernels, "activations", batch.tokens() * h)?;
        let (ids, table) = (batch.ids(), network.weights.embedding());
        self.kernels.embed(ids, table, x.address(), batch.tokens() as u32, h as u32)?;
        Ok(x)
    }

    /// Log-probabilities of the scored tokens, without a tape: one layer's activations at a time. The numbers are those of
    /// [`GpuDecoder::forward`], to the bit.
    ///
    /// # Errors
    /// When the rows do not suit the model, or the device fails.
    pub fn score<'a>(
        &self,
        network: impl Into<Network<'a>>,
        rows: &Rows,
        options: Options,
    ) -> Result<Scores, Error> {
        let mut unused = |_: Activations| {};
        let (scores, ..) = self.pass(network.into(), rows, options, &mut unused)?;
        Ok(scores)
    }

    /// Log-probabilities of the scored tokens, with the tape for [`GpuDecoder::backward`].
    ///
    /// # Errors
    /// When the rows do not suit the model, or the device fails.
    pub fn forward<'a>(
        &self,
        network: impl Into<Network<'a>>,
        rows: &Rows,
        options: Options,
    ) -> Result<(Scores, Tape), Error> {
        let mut layers = Vec::with_capacity(self.config().num_hidden_layers);
        let mut keep = |activations: Activations| {
            layers.push(match options.checkpoint {
                true => Kept::Input(activations.into_input()),
                false => Kept::Whole(Box::new(activations)),
            });
        };
        let (scores, batch, last) = self.pass(network.into(), rows, options, &mut keep)?;
        Ok((scores, Tape { batch, layers, last }))
    }

    fn pass(
        &self,
        network: Network,
        rows: &Rows,
        options: Options,
        keep: &mut dyn FnMut(Activations),
    ) -> Result<(Scores, Batch, Last), Error> {
        rows.check(self.config())?;
        let batch = Batch::packed(&self.kernels.device, rows)?;
        let table = self.table(batch.longest())?;
        let pass = Pass::new(&self.kernels, network, &batch, table.address(), self.budget.scores)?;
        let mut x = self.embed(network, &batch)?;
        for l in 0..self.config().num_hidden_layers {
            let (next, activations) = pass.layer(l, x)?;
            keep(activations);
            x = next;
        }
        drop(pass);
        let (scores, last) = self.log_probs(network, &batch, x, options)?;
        Ok((scores, batch, last))
    }

    fn predictions(&self, network: Network, batch: &Batch, normed: &Buffer, inverse: f32) -> Predictions {
        Predictions {
            hidden: normed.address(),
            head: network.weights.head(),
            targets: batch.targets(),
            scored: batch.scored(),
            width: self.config().hidden_size,
            vocabulary: self.config().vocab_size,
            inverse_temperature: inverse,
            bytes: self.budget.logits,
        }
    }

    fn log_probs(
        &self,
        network: Network,
        batch: &Batch,
        x: Buffer,
        options: Options,
    ) -> Result<(Scores, Last), DeviceError> {
        let (k, h, scored) = (&self.kernels, self.config().hidden_size, batch.scored());
        let stream = room(k, "activations", scored * h)?;
        k.gather_rows(x.address(), batch.places(), stream.address(), scored as u32, h as u32)?;
        drop(x);
        let normed = room(k, "activations", scored * h)?;
        let scale = floats(k, "activations", scored)?;
        let eps = self.config().rms_norm_eps as f32;
        let (x, y) = (stream.address(), normed.address());
        let weight = network.weights.final_norm();
        k.rms_norm(x, weight, y, scale.address(), scored as u32, h as u32, eps)?;
        let saved = floats(k, "activations", 4 * scored)?;
        let inverse_temperature = inverse(options.temperature);
        let predictions = self.predictions(network, batch, &normed, inverse_temperature);
        log_prob::forward(k, &predictions, options.entropy, saved.address())?;

        let numbers: Vec<f32> = saved.read(0, 4 * scored)?;
        let mut each = numbers.chunks_exact(4);
        let rows = batch.rows();
        let mut scores = Scores { logps: Vec::with_capacity(rows.len()), entropies: Vec::new() };
        for i in 0..rows.len() {
            let row = each.by_ref().take(rows.scored(i));
            let (logps, entropies) = row.map(|s| (f64::from(s[0]), f64::from(s[1]))).unzip();
            scores.logps.push(logps);
            if options.entropy {
                scores.entropies.push(entropies);
            }
        }
        Ok((scores, Last { stream, scale, normed, saved, inverse_temperature }))
    }

    /// Adds to `gradients` the sum over scored tokens of `dlogps` times the gradient of their log-probability. `network` is that of the
    /// forward pass.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When `dlogps` has not one number per scored token.
    pub fn backward<'a>(
        &self,
        network: impl Into<Network<'a>>,
        tape: Tape,
        dlogps: &[Vec<f64>],
        gradients: &Gradients,
    ) -> Result<(), Error> {
        let (network, Tape { batch, layers, last }) = (network.into(), tape);
        assert_eq!(dlogps.len(), batch.rows().len(), "rows of d loss / d log-probability");
        for (i, d) in dlogps.iter().enumerate() {
            assert_eq!(d.len(), batch.rows().scored(i), "scored tokens of row {i}");
        }
        let dx = self.head_backward(network, &batch, last, dlogps, gradients)?;
        let table = self.table(batch.longest())?;
        let pass = Pass::new(&self.kernels, network, &batch, table.address(), self.budget.scores)?;
        for (l, kept) in layers.into_iter().enumerate().rev() {
            let activations = match kept {
                Kept::Whole(activations) => *activations,
                Kept::Input(input) => pass.activations(l, input)?,
            };
            let wanted = l > 0 || gradients.dense().is_some();
            pass.layer_backward(l, activations, &dx, gradients, wanted)?;
        }
        drop(pass);
        if let Some(d) = gradients.dense() {
            let ById { order, starts, ids } = ById::new(batch.laid());
            let (distinct, h) = (ids.len() as u32, self.config().hidden_size as u32);
            let lists = Lists::new(&self.kernels.device, &[order, starts, ids])?;
            let (order, starts, ids) = (lists.at(0), lists.at(1), lists.at(2));
            self.kernels.embed_backward(dx.address(), order, starts, ids, d.embedding(), distinct, h)?;
        }
        Ok(())
    }

    /// The gradient of the stream after the last layer.
    fn head_backward(
        &self,
        network: Network,
        batch: &Batch,
        last: Last,
        dlogps: &[Vec<f64>],
        gradients: &Gradients,
    ) -> Result<Buffer, DeviceError> {
        let Last { stream, scale, normed, saved, inverse_temperature } = last;
        let (k, h, scored) = (&self.kernels, self.config().hidden_size, batch.scored());
        let slopes = floats(k, "workspace", scored)?;
        slopes.write(0, &dlogps.iter().flatten().map(|d| *d as f32).collect::<Vec<f32>>())?;
        let dnormed = room(k, "activations", scored * h)?;
        let predictions = self.predictions(network, batch, &normed, inverse_temperature);
        let dhead = gradients.dense().map(|d| d.head());
        let (saved_at, slopes_at) = (saved.address(), slopes.address());
        log_prob::backward(k, &predictions, saved_at, slopes_at, dhead, dnormed.address())?;
        drop((normed, saved, slopes));

        let (tokens, width) = (scored as u32, h as u32);
        let (x, scale_at, dy) = (stream.address(), scale.address(), dnormed.address());
        if let Some(d) = gradients.dense() {
            k.rms_norm_weight(x, scale_at, dy, d.final_norm(), tokens, width)?;
        }
        let dlast = room(k, "activations", scored * h)?;
        dlast.clear()?;
        let weight = network.weights.final_norm();
        k.rms_norm_backward(x, scale_at, weight, dy, dlast.address(), tokens, width)?;
        drop((stream, scale, dnormed));
        let dx = room(k, "activations", batch.tokens() * h)?;
        dx.clear()?;
        k.scatter_rows(dlast.address(), batch.places(), dx.address(), tokens, width)?;
        Ok(dx)
    }
}
