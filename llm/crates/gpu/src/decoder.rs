//! The decoder on a device: the log-probability of chosen tokens and its gradient, as [`grpo_lambda_decoder::model::Decoder`] gives them.
//!
//! Weights and activations have the dtype of the run; sums, logits, log-probabilities and gradients of weights are `f32`. The hidden
//! state between layers has the dtype of the run: what a projection adds to it is summed in `f32` and rounded once.
//!
//! # Exactness
//!
//! A step repeats to the bit, with or without recomputation. A token's log-probability does not have the same bits in every batch, as
//! it has on the CPU: the library of [`Device::gemm`](super::Device::gemm) chooses its order of summation by the sizes of the
//! matrices.

use std::sync::{Arc, Mutex, PoisonError};

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::inverse;
use grpo_lambda_decoder::model::{Cotangents, ForwardOptions, ModelConfig, Rows, TokenScores};

use super::array::Array;
use super::batch::{Batch, IndexLists, TokensById};
use super::gradients::Gradients;
use super::heads::RotaryTable;
use super::kernels::{
    Embed, EmbedBackward, GatherRows, Kernels, RmsNorm, RmsNormBackward, RmsNormWeight, ScatterRows,
};
use super::layer::{Activations, Pass};
use super::layout::Layout;
use super::ledger::ACTIVATIONS;
use super::lm_head::{HeadGradients, LmHead};
use super::projection::Network;
use super::ptr::Real;

/// Why a pass on a device failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed or has too little memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The rows do not suit the model.
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

/// The sizes of temporary arrays; smaller ones take more launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of `f32` logits, unless one token needs more.
    pub logits: usize,
}

impl Default for Budget {
    /// 1 GiB of logits: every chunk of them reads and writes the whole gradient of the output matrix.
    fn default() -> Self {
        Budget { logits: 1 << 30 }
    }
}

/// A model on a device without its weights: policy and reference are two weights of one decoder.
#[derive(Debug)]
pub struct GpuDecoder {
    kernels: Kernels,
    layout: Arc<Layout>,
    table: Mutex<Option<Arc<RotaryTable>>>,
    budget: Budget,
}

/// One layer on the tape.
#[derive(Debug)]
enum SavedLayer {
    Activations(Box<Activations>),
    /// The activations are computed again.
    Input(Array<Real>),
}

/// The arrays that a forward pass keeps for the backward pass.
#[derive(Debug)]
pub struct Tape {
    batch: Batch,
    layers: Vec<SavedLayer>,
    head: SavedHead,
}

/// The end of a forward pass.
#[derive(Debug)]
struct SavedHead {
    /// Hidden state after the last layer at the tokens that predict a target, the scale of its norm, and the hidden state normed.
    hidden: Array<Real>,
    scale: Array<f32>,
    normed: Array<Real>,
    /// Output of [`LmHead::forward`].
    saved: Array<f32>,
    inverse_temperature: f32,
    /// True if `saved` has entropies.
    entropy: bool,
}

impl GpuDecoder {
    /// A decoder of this layout.
    pub fn new(kernels: Kernels, layout: Arc<Layout>, budget: Budget) -> Self {
        GpuDecoder { kernels, layout, table: Mutex::new(None), budget }
    }

    /// Its shape.
    pub fn config(&self) -> &ModelConfig {
        self.layout.config()
    }

    /// Its kernels, and through them its device and dtype.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Rotations of positions `0..len` at least.
    pub(super) fn table(&self, len: usize) -> Result<Arc<RotaryTable>, DeviceError> {
        let mut kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = kept.as_ref().filter(|table| table.positions() >= len) {
            return Ok(table.clone());
        }
        let table = RotaryTable::new(&self.kernels.device, len, &self.config().frequencies())?;
        Ok(kept.insert(Arc::new(table)).clone())
    }

    /// The embeddings of the tokens.
    fn embed(&self, network: Network, batch: &Batch) -> Result<Array<Real>, DeviceError> {
        let width = self.config().hidden_size;
        let x = self.kernels.array(ACTIVATIONS, batch.tokens() * width)?;
        self.kernels.launch(Embed {
            ids: batch.ids(),
            table: network.weights.at(self.layout.embedding()),
            out: x.ptr_mut(),
            tokens: batch.tokens() as u32,
            width: width as u32,
        })?;
        Ok(x)
    }

    /// Log-probabilities of the scored tokens, without a tape: one layer's activations at a time. The numbers are those of
    /// [`GpuDecoder::forward`], to the bit.
    ///
    /// # Errors
    /// Errors if the rows do not suit the model, or the device fails.
    pub fn score<'a>(
        &self,
        network: impl Into<Network<'a>>,
        rows: &Rows,
        options: ForwardOptions,
    ) -> Result<TokenScores, Error> {
        let mut unused = |_: Activations| {};
        let (scores, ..) = self.pass(network.into(), rows, options, &mut unused)?;
        Ok(scores)
    }

    /// Log-probabilities of the scored tokens, with the tape for [`GpuDecoder::backward`].
    ///
    /// # Errors
    /// Errors if the rows do not suit the model, or the device fails.
    pub fn forward<'a>(
        &self,
        network: impl Into<Network<'a>>,
        rows: &Rows,
        options: ForwardOptions,
    ) -> Result<(TokenScores, Tape), Error> {
        let mut layers = Vec::with_capacity(self.config().num_hidden_layers);
        let mut keep = |activations: Activations| {
            layers.push(match options.recompute {
                true => SavedLayer::Input(activations.into_input()),
                false => SavedLayer::Activations(Box::new(activations.on_tape())),
            });
        };
        let (scores, batch, head) = self.pass(network.into(), rows, options, &mut keep)?;
        Ok((scores, Tape { batch, layers, head }))
    }

    fn pass(
        &self,
        network: Network,
        rows: &Rows,
        options: ForwardOptions,
        keep: &mut dyn FnMut(Activations),
    ) -> Result<(TokenScores, Batch, SavedHead), Error> {
        rows.check(self.config())?;
        let batch = Batch::new(&self.kernels.device, rows)?;
        let table = self.table(batch.longest())?;
        let pass = Pass::new(&self.kernels, network, &batch, table.ptr())?;
        let mut x = self.embed(network, &batch)?;
        for l in 0..self.config().num_hidden_layers {
            let (next, activations) = pass.layer(l, x)?;
            keep(activations);
            x = next;
        }
        drop(pass);
        let head = self.head(network, &batch, x, options)?;
        Ok((scores(&batch, &head.saved.read()?, options.entropy), batch, head))
    }

    /// The norm after the last layer and the log-probabilities of the scored tokens; `x` is the hidden state before it.
    fn head(
        &self,
        network: Network,
        batch: &Batch,
        x: Array<Real>,
        options: ForwardOptions,
    ) -> Result<SavedHead, DeviceError> {
        let (k, scored, width) = (&self.kernels, batch.scored(), self.config().hidden_size);
        let (rows, row) = (scored as u32, width as u32);
        let hidden: Array<Real> = k.array(ACTIVATIONS, scored * width)?;
        let index = batch.predicting();
        k.launch(GatherRows { x: x.ptr(), index, out: hidden.ptr_mut(), rows, width: row })?;
        drop(x);
        let normed: Array<Real> = k.array(ACTIVATIONS, scored * width)?;
        let scale: Array<f32> = k.array(ACTIVATIONS, scored)?;
        k.launch(RmsNorm {
            x: hidden.ptr(),
            weight: network.weights.at(self.layout.final_norm()),
            y: normed.ptr_mut(),
            scale: Some(scale.ptr_mut()),
            tokens: rows,
            width: row,
            eps: self.config().rms_norm_eps as f32,
        })?;
        let saved: Array<f32> = k.array(ACTIVATIONS, 4 * scored)?;
        let inverse_temperature = inverse(options.temperature);
        let head = SavedHead { hidden, scale, normed, saved, inverse_temperature, entropy: options.entropy };
        self.lm_head(network, batch, &head).forward(options.entropy, head.saved.ptr_mut())?;
        Ok(head)
    }

    fn lm_head(&self, network: Network, batch: &Batch, head: &SavedHead) -> LmHead<'_> {
        LmHead {
            kernels: &self.kernels,
            hidden: head.normed.ptr(),
            weight: network.weights.at(self.layout.head()),
            targets: batch.targets(),
            scored: batch.scored(),
            width: self.config().hidden_size,
            vocabulary: self.config().vocab_size,
            inverse_temperature: head.inverse_temperature,
            logit_bytes: self.budget.logits,
        }
    }

    /// Adds the gradient of the sum over scored tokens of log-probabilities and entropies times their cotangents. `network` is that of the forward
    /// pass.
    ///
    /// # Errors
    /// Errors if the device fails.
    ///
    /// # Panics
    /// Panics when there is not one cotangent of each kind per scored token, or some of entropies that the forward pass did not compute.
    pub fn backward<'a, 'c>(
        &self,
        network: impl Into<Network<'a>>,
        tape: Tape,
        cotangents: impl Into<Cotangents<'c>>,
        gradients: &Gradients,
    ) -> Result<(), Error> {
        let (network, Tape { batch, layers, head }) = (network.into(), tape);
        let dx = self.head_backward(network, &batch, head, cotangents.into(), gradients)?;
        let table = self.table(batch.longest())?;
        let pass = Pass::new(&self.kernels, network, &batch, table.ptr())?;
        for (l, saved) in layers.into_iter().enumerate().rev() {
            let activations = match saved {
                SavedLayer::Activations(activations) => *activations,
                SavedLayer::Input(input) => pass.activations(l, input)?,
            };
            let needed = l > 0 || gradients.dense().is_some();
            pass.layer_backward(l, activations, &dx, gradients, needed)?;
        }
        drop(pass);
        Ok(self.embed_backward(&batch, &dx, gradients)?)
    }

    /// Adds the gradient of the embedding, where it is trained.
    fn embed_backward(
        &self,
        batch: &Batch,
        dx: &Array<Real>,
        gradients: &Gradients,
    ) -> Result<(), DeviceError> {
        let Some(to) = gradients.dense() else { return Ok(()) };
        let TokensById { order, starts, ids } = TokensById::new(batch.token_ids());
        let distinct = ids.len() as u32;
        let lists = IndexLists::new(&self.kernels.device, &[order, starts, ids])?;
        self.kernels.launch(EmbedBackward {
            dx: dx.ptr(),
            order: lists.at(0),
            starts: lists.at(1),
            ids: lists.at(2),
            dtable: to.at_mut(self.layout.embedding()),
            tokens: batch.tokens() as u32,
            distinct,
            width: self.config().hidden_size as u32,
        })
    }

    /// The gradient of the hidden state after the last layer.
    fn head_backward(
        &self,
        network: Network,
        batch: &Batch,
        head: SavedHead,
        Cotangents { logps, entropies }: Cotangents<'_>,
        gradients: &Gradients,
    ) -> Result<Array<Real>, DeviceError> {
        let (k, h, scored) = (&self.kernels, self.config().hidden_size, batch.scored());
        let (tokens, width) = (scored as u32, h as u32);
        assert!(head.entropy || entropies.is_none(), "the forward pass computed no entropies");
        // Those of the log-probabilities, then those of the entropies.
        let kinds = std::iter::once(logps).chain(entropies);
        let numbers: Vec<f32> = kinds.flat_map(|d| batch.rows().flat_slopes(d)).map(|d| d as f32).collect();
        let slopes: Array<f32> = k.array("workspace", numbers.len())?;
        slopes.write(&numbers)?;
        let dnormed: Array<Real> = k.array(ACTIVATIONS, scored * h)?;
        self.lm_head(network, batch, &head).backward(HeadGradients {
            saved: head.saved.ptr(),
            slopes: slopes.ptr(),
            entropy_slopes: entropies.map(|_| slopes.at(scored)),
            dweight: gradients.dense().map(|to| to.at_mut(self.layout.head())),
            dhidden: dnormed.ptr_mut(),
        })?;
        let SavedHead { hidden, scale, normed, saved, .. } = head;
        drop((normed, saved, slopes));

        let (x, scale_at, dy) = (hidden.ptr(), scale.ptr(), dnormed.ptr());
        if let Some(to) = gradients.dense() {
            let dweight = to.at_mut(self.layout.final_norm());
            k.launch(RmsNormWeight { x, scale: scale_at, dy, dweight, tokens, width })?;
        }
        let dlast: Array<Real> = k.array(ACTIVATIONS, scored * h)?;
        dlast.clear()?;
        let (weight, dx) = (network.weights.at(self.layout.final_norm()), dlast.ptr_mut());
        k.launch(RmsNormBackward { x, scale: scale_at, weight, dy, dx, tokens, width })?;
        drop((hidden, scale, dnormed));
        let dx: Array<Real> = k.array(ACTIVATIONS, batch.tokens() * h)?;
        dx.clear()?;
        let index = batch.predicting();
        k.launch(ScatterRows { x: dlast.ptr(), index, out: dx.ptr_mut(), rows: tokens, width })?;
        Ok(dx)
    }
}

/// Log-probabilities, and entropies if they are asked for, by row, of the output of [`LmHead::forward`].
fn scores(batch: &Batch, saved: &[f32], entropy: bool) -> TokenScores {
    let mut each = saved.chunks_exact(4);
    let rows = batch.rows();
    let mut scores = TokenScores { logps: Vec::with_capacity(rows.len()), entropies: Vec::new() };
    for i in 0..rows.len() {
        let row = each.by_ref().take(rows.scored(i));
        let (logps, entropies) = row.map(|s| (f64::from(s[0]), f64::from(s[1]))).unzip();
        scores.logps.push(logps);
        if entropy {
            scores.entropies.push(entropies);
        }
    }
    scores
}
