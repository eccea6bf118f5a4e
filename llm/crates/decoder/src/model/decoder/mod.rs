//! The decoder: embedding, layers of attention and gated MLP with RMSNorm, and the log-probability of chosen tokens.
//!
//! A [`Layer`] is a program. `Decoder::layer_forward` interprets it in training, scoring and decoding, with keys from the batch or from a
//! cache; `Decoder::layer_backward`, next to it, interprets it backward.
//!
//! | module | holds |
//! | --- | --- |
//! | `layer` | the interpreter of a layer's program |
//! | `linear` | its linear maps |
//! | `states` | the states after the final norm that predict scored tokens, which every head reads |
//! | `head` | from these states to logits and log-probabilities |
//! | `value` | from these states to a number, by a head of a critic |
//! | `tape` | the tape of a forward pass |
//! | `prefix` | prefixes that rows share |

mod head;
mod layer;
mod linear;
mod prefix;
mod states;
mod tape;
mod value;

pub(super) use tape::LayerTape;
pub use tape::Tape;
pub use value::{ValueHead, ValueTape};

use std::sync::{Arc, Mutex, PoisonError};

use layer::Positions;
use linear::{PackedLinear, PackedMatrix};
use prefix::Prefixes;
use tape::Step;

use super::config::layer::Op;
use super::config::{EMBEDDING, Layer, ModelConfig};
use super::error::Result;
use super::gradients::{Gradients, Pending};
use super::ops::buffer::{Buffer, Pool};
use super::ops::parallel::{self, in_pool};
use super::ops::{Real, attention as attention_op, rope};
use super::rows::Rows;
use super::weights::{self, Parameters};

/// A model: its parameters, and their packed form for the forward pass.
pub struct Decoder<T: Real> {
    config: ModelConfig,
    layer: Layer,
    parameters: Parameters<T>,
    /// By layer and operation.
    layers: Vec<Vec<PackedLinear<T>>>,
    head: PackedMatrix<T>,
    table: Mutex<Arc<rope::Table<T>>>,
    pool: Pool<T>,
}

/// Options of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForwardOptions {
    /// Divides the logits.
    pub temperature: f64,
    /// Computes entropies.
    pub entropy: bool,
    /// Keeps only each layer's input and recomputes the layer, and the logits, in the backward pass: a fraction of the memory for a third more
    /// time, the same bits.
    pub recompute: bool,
}

impl Default for ForwardOptions {
    fn default() -> Self {
        Self { temperature: 1.0, entropy: false, recompute: false }
    }
}

/// Per row, per scored token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenScores {
    /// `log pi(token | tokens before it)` at the temperature asked for, in nats.
    pub logps: Vec<Vec<f64>>,
    /// Entropy of the distribution it was drawn from, in nats; empty unless asked for.
    pub entropies: Vec<Vec<f64>>,
}

/// Rows on their way through the layers.
pub(super) struct Pass<'a, T> {
    pub(super) rows: &'a Rows,
    positions: Positions<T>,
    prefixes: Option<Prefixes<T>>,
    /// The pending sum of the gradient of every prefix, by index.
    sums: Vec<usize>,
    /// For every row, the gradients of its keys and values from rows that continue it; empty where none does.
    continued: &'a [Pending<T>],
}

impl<T: Real> Decoder<T> {
    /// A decoder of this shape with these parameters.
    ///
    /// # Errors
    /// When they do not fit together, naming the parameter.
    pub fn new(config: ModelConfig, parameters: Parameters<T>) -> Result<Self> {
        weights::check(&config, &parameters)?;
        let mut decoder = Self {
            table: Mutex::new(Arc::new(rope::Table::new(&config.frequencies(), 0))),
            layers: (0..config.num_hidden_layers).map(|_| Vec::new()).collect(),
            head: PackedMatrix::default(),
            pool: Pool::default(),
            layer: config.layer(),
            config,
            parameters,
        };
        decoder.pack();
        Ok(decoder)
    }

    /// Its shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Its parameters.
    pub fn parameters(&self) -> &Parameters<T> {
        &self.parameters
    }

    /// Changes parameters in place (an optimiser step); shapes must stay.
    ///
    /// # Panics
    /// When a shape changes.
    pub fn update(&mut self, change: impl FnOnce(&mut Parameters<T>)) {
        change(&mut self.parameters);
        assert!(
            weights::check(&self.config, &self.parameters).is_ok(),
            "an update changed the shape of a parameter"
        );
        self.pack();
    }

    /// Returns free work space to the system.
    pub fn release(&self) {
        self.pool.clear();
    }

    pub(crate) fn pool(&self) -> &Pool<T> {
        &self.pool
    }

    pub(super) fn weight(&self, name: &str) -> &[T] {
        &self.parameters[name].data
    }

    fn pack(&mut self) {
        let (layer, parameters) = (&self.layer, &self.parameters);
        let (head, h) = (&parameters[weights::head_name(&self.config)].data, self.config.hidden_size);
        self.head.pack(&head.chunks_exact(h).collect::<Vec<_>>(), h);
        parallel::each(self.layers.iter_mut().enumerate().collect(), |(l, packed)| {
            packed.resize_with(layer.program.len(), PackedLinear::default);
            for (packed, op) in packed.iter_mut().zip(&layer.program) {
                if let Op::Linear(linear) = op {
                    packed.pack(linear, l, parameters);
                }
            }
        });
    }

    /// Rotations of positions `0..len` at least.
    fn table(&self, len: usize) -> Arc<rope::Table<T>> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() < len {
            *table = Arc::new(rope::Table::new(&self.config.frequencies(), len.next_power_of_two().max(256)));
        }
        table.clone()
    }

    /// The embeddings of these tokens.
    pub(crate) fn embed(&self, tokens: &[u32]) -> Buffer<T> {
        let h = self.config.hidden_size;
        let table = self.weight(EMBEDDING);
        let mut x = self.pool.take(tokens.len() * h);
        for (x, &token) in x.chunks_exact_mut(h).zip(tokens) {
            x.copy_from_slice(&table[token as usize * h..(token as usize + 1) * h]);
        }
        x
    }

    /// Layer `l` over whole rows.
    fn row_layer(&self, l: usize, x: Buffer<T>, pass: &Pass<'_, T>) -> (Buffer<T>, Vec<Step<T>>) {
        self.layer_forward(l, x, &pass.positions, |qkv, out, log_sum| {
            let (heads, before) = (self.layer.heads, pass.all_before(l));
            attention_op::forward(&self.pool, heads, qkv, pass.rows.offsets(), &before, out, log_sum);
        })
    }

    /// A pass over these rows and their prefixes, if the model can take them.
    pub(super) fn pass<'a>(&self, rows: &'a Rows) -> Result<Pass<'a, T>> {
        rows.check(&self.config)?;
        Ok(Pass { prefixes: self.prefixes(rows), ..self.pass_of(rows) })
    }

    /// A pass over these rows without their prefixes.
    fn pass_of<'a>(&self, rows: &'a Rows) -> Pass<'a, T> {
        let positions = self.positions(rows.positions());
        Pass { rows, positions, prefixes: None, sums: Vec::new(), continued: &[] }
    }

    /// From embeddings to the stream after the last layer.
    pub(super) fn stream(&self, pass: &Pass<'_, T>, embedded: Buffer<T>) -> Buffer<T> {
        (0..self.config.num_hidden_layers).fold(embedded, |x, l| self.row_layer(l, x, pass).0)
    }

    /// [`Decoder::stream`] with the tape of every layer, which is its input alone with `recompute`.
    pub(super) fn taped_stream(
        &self,
        pass: &Pass<'_, T>,
        embedded: Buffer<T>,
        recompute: bool,
    ) -> (Buffer<T>, Vec<LayerTape<T>>) {
        let mut x = embedded;
        let mut tapes = Vec::with_capacity(self.config.num_hidden_layers);
        for l in 0..self.config.num_hidden_layers {
            let (next, steps) = self.row_layer(l, x, pass);
            tapes.push(LayerTape::new(steps, recompute));
            x = next;
        }
        (x, tapes)
    }

    /// Log-probabilities of the scored tokens, without a tape.
    ///
    /// # Errors
    /// When the rows do not suit the model.
    pub fn score(&self, rows: &Rows, options: ForwardOptions) -> Result<TokenScores> {
        in_pool(|| {
            let pass = self.pass(rows)?;
            let x = self.stream(&pass, self.embed(rows.tokens()));
            Ok(self.log_probs(rows, self.predicting(rows, &x).normed, options, false).0)
        })
    }

    /// Log-probabilities of the scored tokens, with the tape for [`Decoder::backward`].
    ///
    /// # Errors
    /// When the rows do not suit the model.
    pub fn forward(&self, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, Tape<T>)> {
        in_pool(|| {
            let (normed, states) = self.taped_states(rows, options.recompute)?;
            let (scores, head) = self.log_probs(rows, normed, options, true);
            Ok((scores, Tape { states, head }))
        })
    }

    /// The logits of every token of every row, `[tokens, vocabulary]`, for small inputs.
    ///
    /// # Errors
    /// When the rows do not suit the model.
    pub fn logits(&self, rows: &Rows) -> Result<Vec<T>> {
        in_pool(|| {
            let pass = self.pass(rows)?;
            let mut logits = vec![T::ZERO; rows.tokens().len() * self.config.vocab_size];
            self.logits_of(&self.stream(&pass, self.embed(rows.tokens())), &mut logits);
            Ok(logits)
        })
    }

    /// Adds the gradient of the sum over scored tokens of log-probabilities and entropies times their cotangents. [`Decoder::complete`] adds the
    /// part of shared prefixes.
    ///
    /// # Panics
    /// When there is not one cotangent of each kind per scored token, or some of entropies that the forward pass did not compute.
    pub fn backward<'a>(
        &self,
        tape: Tape<T>,
        cotangents: impl Into<Cotangents<'a>>,
        gradients: &mut Gradients<T>,
    ) {
        let (Tape { states, head }, Cotangents { logps, entropies }) = (tape, cotangents.into());
        assert!(head.entropy || entropies.is_none(), "the forward pass computed no entropies");
        let flat = |slopes: &[Vec<f64>]| states.rows.flat_slopes(slopes).map(T::from_f64).collect();
        let (slopes, of_entropy): (Vec<T>, Vec<T>) = (flat(logps), entropies.map_or(Vec::new(), flat));
        in_pool(|| {
            let dnormed = self.log_probs_backward(&states.rows, head, (&slopes, &of_entropy), gradients);
            self.states_backward(states, dnormed, gradients);
        });
    }

    /// From the gradient `dx` of the stream after the last layer to those of the parameters before it.
    fn stream_backward(
        &self,
        layers: Vec<LayerTape<T>>,
        pass: &Pass<'_, T>,
        mut dx: Buffer<T>,
        gradients: &mut Gradients<T>,
    ) {
        for (l, tape) in layers.into_iter().enumerate().rev() {
            if !gradients.reaches(l) {
                return;
            }
            let wanted = l > 0 || gradients.contains(EMBEDDING);
            self.layer_backward(l, tape, pass, &mut dx, gradients, wanted);
        }
        gradients.add_to_embeddings(pass.rows.tokens(), &dx);
    }
}

/// The derivatives of a loss by the scores of a forward pass, by row and scored token.
#[derive(Clone, Copy, Debug)]
pub struct Cotangents<'a> {
    /// By the log-probabilities.
    pub logps: &'a [Vec<f64>],
    /// By the entropies; the forward pass must have computed these.
    pub entropies: Option<&'a [Vec<f64>]>,
}

impl<'a, S: AsRef<[Vec<f64>]> + ?Sized> From<&'a S> for Cotangents<'a> {
    fn from(logps: &'a S) -> Self {
        Cotangents { logps: logps.as_ref(), entropies: None }
    }
}

/// The factor `1 / temperature` of the logits.
pub fn inverse<T: Real>(temperature: f64) -> T {
    T::from_f64(1.0 / temperature)
}
