//! Gradients by parameter name.

use std::collections::BTreeMap;

use super::config::{EMBEDDING, HEAD, ModelConfig};
use super::ops::{Real, norm};
use super::weights::{Parameters, Tensor};

/// Accumulated gradients of the trained parameters; frozen parameters have no entry.
///
/// Accumulating micro-batches one after the other gives the bits of the whole batch: every element is one chain of sums over
/// tokens, and the next micro-batch continues it. A tied embedding has chains of its own for that reason, one per token that occurred,
/// added to those of the output matrix when the gradients are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients<T> {
    tensors: Parameters<T>,
    /// The rows of a tied embedding, by token.
    tied: Option<BTreeMap<u32, Vec<T>>>,
    pending: Vec<Pending<T>>,
    /// Most tokens of the rows of a pass that left something pending.
    largest_pass: usize,
}

/// A prefix that rows continue, with the gradient of its keys and values from the rows so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending<T> {
    pub(crate) tokens: Vec<u32>,
    /// By layer, `[tokens, 2 key dim]`.
    pub(crate) layers: Vec<Vec<T>>,
}

impl<T: Real> Gradients<T> {
    /// Zeros for every parameter of `config` that `trained` names.
    pub fn new(config: &ModelConfig, trained: impl Fn(&str) -> bool) -> Self {
        let shapes = config.parameter_shapes().into_iter().filter(|(name, _)| trained(name));
        let tensors: Parameters<T> = shapes.map(|(name, shape)| (name, Tensor::zeros(&shape))).collect();
        let tied = config.tie_word_embeddings && tensors.contains_key(EMBEDDING);
        Self { tensors, tied: tied.then(BTreeMap::new), pending: Vec::new(), largest_pass: 0 }
    }

    /// True if this parameter is trained.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The gradients, complete, sorted by name.
    ///
    /// # Panics
    /// When rows shared prefixes and [`Decoder::complete`](super::Decoder::complete) was not called.
    pub fn parameters(&mut self) -> &mut Parameters<T> {
        assert!(self.pending.is_empty(), "the gradient of shared prefixes is not complete");
        if let (Some(rows), Some(embedding)) = (&mut self.tied, self.tensors.get_mut(EMBEDDING)) {
            for (token, row) in std::mem::take(rows) {
                norm::add(embedding.row_mut(token), &row);
            }
        }
        &mut self.tensors
    }

    /// [`Gradients::parameters`] as an optimiser takes them.
    pub fn by_name(&mut self) -> Vec<(&str, &[T])> {
        self.parameters().iter().map(|(name, tensor)| (name.as_str(), tensor.data.as_slice())).collect()
    }

    /// Back to zero, for the next step.
    pub fn clear(&mut self) {
        self.tensors.values_mut().for_each(|t| t.data.fill(T::ZERO));
        self.tied.iter_mut().for_each(BTreeMap::clear);
        self.take_pending();
    }

    /// The index of a prefix of rows with `pass` tokens among the pending ones; equal tokens share one.
    pub(crate) fn pending(&mut self, pass: usize, tokens: &[u32], layers: usize, numbers: usize) -> usize {
        self.largest_pass = self.largest_pass.max(pass);
        let known = self.pending.iter().position(|p| p.tokens == tokens);
        known.unwrap_or_else(|| {
            let layers = vec![vec![T::ZERO; tokens.len() * numbers]; layers];
            self.pending.push(Pending { tokens: tokens.to_vec(), layers });
            self.pending.len() - 1
        })
    }

    /// All prefixes that are pending, in the order in which rows first continued them, and the most tokens of the rows of a pass that left
    /// some; none is left.
    pub(crate) fn take_pending(&mut self) -> (Vec<Pending<T>>, usize) {
        (std::mem::take(&mut self.pending), std::mem::take(&mut self.largest_pass))
    }

    /// The sums of layer `l`, by prefix, until [`Gradients::put_sums`].
    pub(crate) fn take_sums(&mut self, l: usize) -> Vec<Vec<T>> {
        self.pending.iter_mut().map(|p| std::mem::take(&mut p.layers[l])).collect()
    }

    /// Puts back what [`Gradients::take_sums`] gave.
    pub(crate) fn put_sums(&mut self, l: usize, sums: Vec<Vec<T>>) {
        self.pending.iter_mut().zip(sums).for_each(|(p, sum)| p.layers[l] = sum);
    }

    pub(crate) fn get(&mut self, name: &str) -> Option<&mut [T]> {
        self.tensors.get_mut(name).map(|t| t.data.as_mut_slice())
    }

    /// The output matrix, apart from the embedding even when tied.
    pub(crate) fn head(&mut self) -> Option<&mut [T]> {
        let name = if self.tied.is_some() { EMBEDDING } else { HEAD };
        self.get(name)
    }

    /// Adds `d`, `[tokens, width]`, to the embeddings of these tokens, if they are trained.
    pub(crate) fn add_to_embeddings(&mut self, tokens: &[u32], d: &[T]) {
        let Some(embedding) = self.tensors.get_mut(EMBEDDING) else { return };
        let width = embedding.shape[1];
        for (d, &token) in d.chunks_exact(width).zip(tokens) {
            let row = match &mut self.tied {
                Some(rows) => rows.entry(token).or_insert_with(|| vec![T::ZERO; width]),
                None => embedding.row_mut(token),
            };
            norm::add(row, d);
        }
    }

    /// True if a parameter in layer `layer` or below it is trained.
    pub(crate) fn reaches(&self, layer: usize) -> bool {
        self.contains(EMBEDDING)
            || (0..=layer).any(|l| {
                let prefix = format!("model.layers.{l}.");
                self.tensors.keys().any(|name| name.starts_with(&prefix))
            })
    }
}
