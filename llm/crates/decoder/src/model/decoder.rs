//! The decoder: embedding, layers of attention and gated MLP with RMSNorm, and the log-probability of chosen tokens.
//!
//! One forward source: `Decoder::layer` is a layer in training, scoring and decoding alike; only where the keys come from
//! differs. One backward source, written beside it in the same order reversed.

use std::sync::{Arc, Mutex, PoisonError};

use super::config::{Config, EMBEDDING, FINAL_NORM, parameter};
use super::error::Result;
use super::gradients::Gradients;
use super::ops::buffer::{Buffer, Pool};
use super::ops::matmul::{Left, Panels, matmul, pack_rows, pack_transposed, packed_len};
use super::ops::{Real, attention, log_prob, norm, rope, swiglu};
use super::rows::Rows;
use super::weights::{self, Parameters};

/// A model: its parameters, and their packed form for the forward pass.
pub struct Decoder<T: Real> {
    config: Config,
    parameters: Parameters<T>,
    layers: Vec<PackedLayer<T>>,
    head: Vec<T>,
    table: Mutex<Arc<rope::Table<T>>>,
    pool: Pool<T>,
}

/// The matrices of a layer, packed for `x W^T`; those that share their input lie side by side.
#[derive(Default)]
struct PackedLayer<T> {
    qkv: Vec<T>,
    qkv_bias: Vec<T>,
    output: Vec<T>,
    gate_up: Vec<T>,
    gate_up_bias: Vec<T>,
    down: Vec<T>,
}

/// Projections that read the normed stream of the attention.
const QKV: [&str; 3] = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
/// Projections that read the normed stream of the MLP.
const GATE_UP: [&str; 2] = ["mlp.gate_proj", "mlp.up_proj"];

/// Their full names in layer `l`, without `.weight` and `.bias`.
fn of(l: usize, projections: &[&str]) -> Vec<String> {
    projections.iter().map(|p| parameter(l, p)).collect()
}

/// How to run a forward pass whose gradient is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Divides the logits.
    pub temperature: f64,
    /// Whether to compute entropies.
    pub entropy: bool,
    /// Keep only each layer's input and compute the layer again in the backward pass: a fraction of the memory for a third
    /// more time, the same bits.
    pub checkpoint: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { temperature: 1.0, entropy: false, checkpoint: false }
    }
}

/// Per row, per scored token.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// `log pi(token | tokens before it)` at the temperature asked for, in nats.
    pub logps: Vec<Vec<f64>>,
    /// Entropy of the distribution it was drawn from, in nats; empty unless asked for.
    pub entropies: Vec<Vec<f64>>,
}

/// What the backward pass needs of a forward pass.
pub struct Tape<T: Real> {
    rows: Rows,
    layers: Vec<Kept<T>>,
    /// Stream after the last layer, at the tokens that predict a target.
    last: Buffer<T>,
    scale: Buffer<T>,
    normed: Buffer<T>,
    /// Output of [`log_prob::forward`].
    saved: Buffer<T>,
    inverse_temperature: T,
}

impl<T: Real> Tape<T> {
    /// Bytes it holds.
    pub fn bytes(&self) -> usize {
        let of = |buffers: &[&Buffer<T>]| buffers.iter().map(|b| b.len() * size_of::<T>()).sum::<usize>();
        let layer = |kept: &Kept<T>| match kept {
            Kept::Input(input) => of(&[input]),
            Kept::Whole(a) => of(&[
                &a.input,
                &a.input_scale,
                &a.qkv,
                &a.attended,
                &a.log_sum,
                &a.middle,
                &a.middle_scale,
                &a.gate_up,
            ]),
        };
        self.layers.iter().map(layer).sum::<usize>()
            + of(&[&self.last, &self.scale, &self.normed, &self.saved])
    }
}

/// One layer on the tape.
pub(super) enum Kept<T> {
    Whole(Box<Activations<T>>),
    Input(Buffer<T>),
}

/// Everything of a layer that its backward pass reads and that is not cheap to compute again.
pub(crate) struct Activations<T> {
    /// The stream at its entry, and the scale of its norm.
    input: Buffer<T>,
    input_scale: Buffer<T>,
    /// Queries, keys and values, rotated.
    qkv: Buffer<T>,
    /// Attention's output and log-sums.
    attended: Buffer<T>,
    log_sum: Buffer<T>,
    /// The stream after attention, and the scale of its norm.
    middle: Buffer<T>,
    middle_scale: Buffer<T>,
    gate_up: Buffer<T>,
}

impl<T: Real> Decoder<T> {
    /// A decoder of this shape with these parameters.
    ///
    /// # Errors
    /// When they do not fit together, naming the parameter.
    pub fn new(config: Config, parameters: Parameters<T>) -> Result<Self> {
        weights::check(&config, &parameters)?;
        let mut decoder = Self {
            table: Mutex::new(Arc::new(rope::Table::new(&config.frequencies(), 0))),
            layers: (0..config.num_hidden_layers).map(|_| PackedLayer::default()).collect(),
            head: Vec::new(),
            pool: Pool::default(),
            config,
            parameters,
        };
        decoder.pack();
        Ok(decoder)
    }

    /// Its shape.
    pub fn config(&self) -> &Config {
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

    /// Gives work space not in use back to the system.
    pub fn release(&self) {
        self.pool.clear();
    }

    pub(crate) fn pool(&self) -> &Pool<T> {
        &self.pool
    }

    pub(super) fn weight(&self, name: &str) -> &[T] {
        &self.parameters[name].data
    }

    /// `weight` or `bias` of these projections, end to end.
    fn joined(&self, projections: &[String], kind: &str) -> Vec<T> {
        let found = projections.iter().filter_map(|p| self.parameters.get(&format!("{p}.{kind}")));
        found.flat_map(|t| t.data.iter().copied()).collect()
    }

    fn pack(&mut self) {
        let (h, f, v) = (self.config.hidden_size, self.config.intermediate_size, self.config.vocab_size);
        let heads = self.config.heads();
        let (qkv, width) = (heads.stride(), heads.width());
        fn pack<T: Real>(weight: &[T], k: usize, n: usize, out: &mut Vec<T>) {
            out.resize(packed_len(k, n), T::ZERO);
            pack_transposed(weight, k, k, n, out);
        }
        let mut layers = std::mem::take(&mut self.layers);
        for (l, packed) in layers.iter_mut().enumerate() {
            pack(&self.joined(&of(l, &QKV), "weight"), h, qkv, &mut packed.qkv);
            pack(self.weight(&parameter(l, "self_attn.o_proj.weight")), width, h, &mut packed.output);
            pack(&self.joined(&of(l, &GATE_UP), "weight"), h, 2 * f, &mut packed.gate_up);
            pack(self.weight(&parameter(l, "mlp.down_proj.weight")), f, h, &mut packed.down);
            packed.qkv_bias = self.joined(&of(l, &QKV), "bias");
            packed.gate_up_bias = self.joined(&of(l, &GATE_UP), "bias");
        }
        self.layers = layers;
        let mut head = std::mem::take(&mut self.head);
        pack(self.weight(weights::head_name(&self.config)), h, v, &mut head);
        self.head = head;
    }

    /// Rotations of positions `0..len` at least.
    pub(crate) fn table(&self, len: usize) -> Arc<rope::Table<T>> {
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

    /// `x W^T` with a packed matrix.
    fn project(&self, x: &[T], k: usize, packed: &[T], n: usize) -> Buffer<T> {
        let tokens = x.len() / k;
        let mut out = self.pool.take(tokens * n);
        matmul(&self.pool, Left::rows(x, k), tokens, Panels::new(packed, k, n), &mut out, n, false);
        out
    }

    /// Layer `l`: from the stream at its entry to the stream at its exit.
    ///
    /// `attend(qkv, out, log_sum)` is where training and decoding differ: in the keys it reads.
    pub(crate) fn layer(
        &self,
        l: usize,
        input: Buffer<T>,
        positions: &[u32],
        table: &rope::Table<T>,
        attend: impl FnOnce(&[T], &mut [T], &mut [T]),
    ) -> (Buffer<T>, Activations<T>) {
        let config = &self.config;
        let (h, f, heads) = (config.hidden_size, config.intermediate_size, config.heads());
        let (tokens, eps) = (positions.len(), T::from_f64(config.rms_norm_eps));
        let packed = &self.layers[l];

        let mut normed = self.pool.take(tokens * h);
        let mut input_scale = self.pool.take(tokens);
        let weight = self.weight(&parameter(l, "input_layernorm.weight"));
        norm::forward(&input, weight, eps, &mut normed, &mut input_scale);
        let mut qkv = self.project(&normed, h, &packed.qkv, heads.stride());
        if !packed.qkv_bias.is_empty() {
            norm::add_bias(&mut qkv, &packed.qkv_bias);
        }
        rope::rotate(&mut qkv, heads.stride(), heads.query + heads.key, positions, table, false);
        let mut attended = self.pool.take(tokens * heads.width());
        let mut log_sum = self.pool.take(tokens * heads.query);
        attend(&qkv, &mut attended, &mut log_sum);
        let mut middle = self.project(&attended, heads.width(), &packed.output, h);
        self.add_output_bias(l, "self_attn.o_proj.bias", &mut middle);
        norm::add(&mut middle, &input);

        let mut middle_scale = self.pool.take(tokens);
        let weight = self.weight(&parameter(l, "post_attention_layernorm.weight"));
        norm::forward(&middle, weight, eps, &mut normed, &mut middle_scale);
        let mut gate_up = self.project(&normed, h, &packed.gate_up, 2 * f);
        if !packed.gate_up_bias.is_empty() {
            norm::add_bias(&mut gate_up, &packed.gate_up_bias);
        }
        drop(normed);
        let mut gated = self.pool.take(tokens * f);
        swiglu::forward(&gate_up, f, &mut gated);
        let mut output = self.project(&gated, f, &packed.down, h);
        self.add_output_bias(l, "mlp.down_proj.bias", &mut output);
        norm::add(&mut output, &middle);
        (output, Activations { input, input_scale, qkv, attended, log_sum, middle, middle_scale, gate_up })
    }

    fn add_output_bias(&self, l: usize, name: &str, x: &mut [T]) {
        if let Some(bias) = self.parameters.get(&parameter(l, name)) {
            norm::add_bias(x, &bias.data);
        }
    }

    /// Layer `l` over whole rows.
    pub(super) fn row_layer(
        &self,
        l: usize,
        x: Buffer<T>,
        rows: &Rows,
        positions: &[u32],
    ) -> (Buffer<T>, Activations<T>) {
        let longest = positions.iter().max().map_or(0, |p| *p as usize + 1);
        let table = self.table(longest);
        self.layer(l, x, positions, &table, |qkv, out, log_sum| {
            attention::forward(&self.pool, self.config.heads(), qkv, rows.offsets(), out, log_sum);
        })
    }

    /// [`Decoder::row_layer`] with what its backward pass needs: its input alone where it is to be computed again.
    pub(super) fn kept_layer(
        &self,
        l: usize,
        x: Buffer<T>,
        rows: &Rows,
        positions: &[u32],
        checkpoint: bool,
    ) -> (Buffer<T>, Kept<T>) {
        let (next, activations) = self.row_layer(l, x, rows, positions);
        let kept = match checkpoint {
            true => Kept::Input(activations.input),
            false => Kept::Whole(Box::new(activations)),
        };
        (next, kept)
    }

    /// The logits of these streams: final norm and output matrix.
    pub(crate) fn head(&self, stream: &[T]) -> Buffer<T> {
        let (normed, _) = self.final_norm(stream);
        self.packed_head(&normed)
    }

    /// The logits of normed streams.
    pub(super) fn packed_head(&self, normed: &[T]) -> Buffer<T> {
        self.project(normed, self.config.hidden_size, &self.head, self.config.vocab_size)
    }

    pub(super) fn final_norm(&self, stream: &[T]) -> (Buffer<T>, Buffer<T>) {
        let h = self.config.hidden_size;
        let mut normed = self.pool.take(stream.len());
        let mut scale = self.pool.take(stream.len() / h);
        let eps = T::from_f64(self.config.rms_norm_eps);
        norm::forward(stream, self.weight(FINAL_NORM), eps, &mut normed, &mut scale);
        (normed, scale)
    }

    /// Log-probabilities of the scored tokens, without a tape: one layer's activations at a time.
    ///
    /// # Errors
    /// When the rows do not suit the model.
    pub fn score(&self, rows: &Rows, options: Options) -> Result<Scores> {
        rows.check(&self.config)?;
        let positions = rows.positions();
        let mut x = self.embed(rows.tokens());
        for l in 0..self.config.num_hidden_layers {
            x = self.row_layer(l, x, rows, &positions).0;
        }
        Ok(self.log_probs(rows, &x, options).0)
    }

    /// Log-probabilities of the scored tokens, with the tape for [`Decoder::backward`].
    ///
    /// # Errors
    /// When the rows do not suit the model.
    pub fn forward(&self, rows: &Rows, options: Options) -> Result<(Scores, Tape<T>)> {
        rows.check(&self.config)?;
        let positions = rows.positions();
        let mut x = self.embed(rows.tokens());
        let mut layers = Vec::with_capacity(self.config.num_hidden_layers);
        for l in 0..self.config.num_hidden_layers {
            let (next, kept) = self.kept_layer(l, x, rows, &positions, options.checkpoint);
            layers.push(kept);
            x = next;
        }
        let (scores, last) = self.log_probs(rows, &x, options);
        let Last { last, scale, normed, saved, inverse_temperature } = last;
        Ok((scores, Tape { rows: rows.clone(), layers, last, scale, normed, saved, inverse_temperature }))
    }

    /// The streams at these places, one after the other.
    pub(super) fn streams_at(&self, places: &[usize], x: &[T]) -> Buffer<T> {
        let h = self.config.hidden_size;
        let mut streams = self.pool.take(places.len() * h);
        for (out, place) in streams.chunks_exact_mut(h).zip(places) {
            out.copy_from_slice(&x[place * h..(place + 1) * h]);
        }
        streams
    }

    fn log_probs(&self, rows: &Rows, x: &[T], options: Options) -> (Scores, Last<T>) {
        let h = self.config.hidden_size;
        let (places, targets) = rows.targets();
        let last = self.streams_at(&places, x);
        let (normed, scale) = self.final_norm(&last);
        let mut saved = self.pool.zeros(4 * targets.len());
        let v = self.config.vocab_size;
        let head = Panels::new(&self.head, h, v);
        let inverse_temperature = inverse(options.temperature);
        let entropy = options.entropy;
        log_prob::forward(
            &self.pool,
            &normed,
            h,
            head,
            v,
            &targets,
            inverse_temperature,
            entropy,
            &mut saved,
        );
        let mut each = saved.chunks_exact(4);
        let mut scores = Scores { logps: Vec::with_capacity(rows.len()), entropies: Vec::new() };
        for i in 0..rows.len() {
            let (logps, entropies) =
                each.by_ref().take(rows.scored(i)).map(|s| (s[0].to_f64(), s[1].to_f64())).unzip();
            scores.logps.push(logps);
            if entropy {
                scores.entropies.push(entropies);
            }
        }
        (scores, Last { last, scale, normed, saved, inverse_temperature })
    }

    /// The logits of every token of every row, `[tokens, vocabulary]`: for tests and for looking at small inputs.
    ///
    /// # Errors
    /// When the rows do not suit the model.
    pub fn logits(&self, rows: &Rows) -> Result<Vec<T>> {
        rows.check(&self.config)?;
        let positions = rows.positions();
        let mut x = self.embed(rows.tokens());
        for l in 0..self.config.num_hidden_layers {
            x = self.row_layer(l, x, rows, &positions).0;
        }
        Ok(self.head(&x).to_vec())
    }

    /// Adds to `gradients` the sum over scored tokens of `dlogps` times the gradient of their log-probability.
    ///
    /// # Panics
    /// When `dlogps` has not one number per scored token.
    pub fn backward(&self, tape: Tape<T>, dlogps: &[Vec<f64>], gradients: &mut Gradients<T>) {
        let Tape { rows, layers, last, scale, normed, saved, inverse_temperature } = tape;
        assert_eq!(dlogps.len(), rows.len(), "rows of d loss / d log-probability");
        for (i, d) in dlogps.iter().enumerate() {
            assert_eq!(d.len(), rows.scored(i), "scored tokens of row {i}");
        }
        let h = self.config.hidden_size;
        let slopes: Vec<T> = dlogps.iter().flatten().map(|&d| T::from_f64(d)).collect();
        let (places, targets) = rows.targets();
        let mut dnormed = self.pool.take(normed.len());
        let head = Panels::new(&self.head, h, self.config.vocab_size);
        let weight = self.weight(weights::head_name(&self.config));
        let (pool, dhead) = (&self.pool, gradients.head());
        log_prob::backward(
            pool,
            &normed,
            h,
            head,
            weight,
            &targets,
            inverse_temperature,
            &saved,
            &slopes,
            dhead,
            &mut dnormed,
        );
        if let Some(dw) = gradients.get(FINAL_NORM) {
            norm::backward_weight(&last, &scale, &dnormed, dw);
        }
        let mut dlast = self.pool.zeros(last.len());
        norm::backward(&last, &scale, self.weight(FINAL_NORM), &dnormed, &mut dlast);
        drop((last, scale, normed, saved, dnormed));
        let positions = rows.positions();
        let mut dx = self.spread(&places, &dlast, positions.len());
        drop(dlast);
        for (l, kept) in layers.into_iter().enumerate().rev() {
            if !gradients.reaches(l) {
                return;
            }
            let wanted = l > 0 || gradients.contains(EMBEDDING);
            self.kept_backward(l, kept, &rows, &positions, &mut dx, gradients, wanted);
        }
        if let Some(dw) = gradients.get(EMBEDDING) {
            for (d, &token) in dx.chunks_exact(h).zip(rows.tokens()) {
                norm::add(&mut dw[token as usize * h..(token as usize + 1) * h], d);
            }
        }
    }

    /// The gradient of a stream of `tokens` tokens of which those at `places` have the gradients `d` and the others none.
    pub(super) fn spread(&self, places: &[usize], d: &[T], tokens: usize) -> Buffer<T> {
        let h = self.config.hidden_size;
        let mut dx = self.pool.zeros(tokens * h);
        for (d, place) in d.chunks_exact(h).zip(places) {
            dx[place * h..(place + 1) * h].copy_from_slice(d);
        }
        dx
    }

    /// [`Decoder::kept_layer`] backwards: `dx` holds the gradient at its exit, then at its entry where that is `wanted`.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn kept_backward(
        &self,
        l: usize,
        kept: Kept<T>,
        rows: &Rows,
        positions: &[u32],
        dx: &mut Buffer<T>,
        gradients: &mut Gradients<T>,
        wanted: bool,
    ) {
        let activations = match kept {
            Kept::Whole(activations) => *activations,
            Kept::Input(input) => self.row_layer(l, input, rows, positions).1,
        };
        self.layer_backward(l, activations, rows, positions, dx, gradients, wanted);
    }

    /// `d loss / d input` of `y = x W^T`: `dy W`, for projections that lie side by side.
    fn project_back(&self, projections: &[String], dy: &[T], n: usize, k: usize) -> Buffer<T> {
        let tokens = dy.len() / n;
        let mut packed = self.pool.take(packed_len(n, k));
        if let [one] = projections {
            pack_rows(self.weight(&format!("{one}.weight")), k, n, k, &mut packed);
        } else {
            pack_rows(&self.joined(projections, "weight"), k, n, k, &mut packed);
        }
        let mut dx = self.pool.take(tokens * k);
        matmul(&self.pool, Left::rows(dy, n), tokens, Panels::new(&packed, n, k), &mut dx, k, false);
        dx
    }

    /// Adds `dy^T x` to the gradients of these projections, and the sums of `dy` to those of their biases.
    fn weight_gradients(
        &self,
        projections: &[String],
        dy: &[T],
        n: usize,
        x: &[T],
        k: usize,
        gradients: &mut Gradients<T>,
    ) {
        let tokens = dy.len() / n;
        let mut packed = None;
        if projections.iter().any(|name| gradients.contains(&format!("{name}.weight"))) {
            let mut buffer = self.pool.take(packed_len(tokens, k));
            pack_rows(x, k, tokens, k, &mut buffer);
            packed = Some(buffer);
        }
        let mut from = 0;
        for name in projections {
            let rows = self.parameters[&format!("{name}.weight")].shape[0];
            if let (Some(dw), Some(packed)) = (gradients.get(&format!("{name}.weight")), &packed) {
                let left = Left::transposed(&dy[from..], n);
                matmul(&self.pool, left, rows, Panels::new(packed, tokens, k), dw, k, true);
            }
            if let Some(db) = gradients.get(&format!("{name}.bias")) {
                norm::backward_bias(dy, n, from, db);
            }
            from += rows;
        }
    }

    /// [`Decoder::layer`] backwards: `dx` holds the gradient at its exit, then at its entry where that is `wanted`.
    #[allow(clippy::too_many_arguments)]
    fn layer_backward(
        &self,
        l: usize,
        activations: Activations<T>,
        rows: &Rows,
        positions: &[u32],
        dx: &mut Buffer<T>,
        gradients: &mut Gradients<T>,
        wanted: bool,
    ) {
        let Activations { input, input_scale, qkv, attended, log_sum, middle, middle_scale, mut gate_up } =
            activations;
        let (h, f, heads) = (self.config.hidden_size, self.config.intermediate_size, self.config.heads());
        let tokens = positions.len();
        let (qkv_names, gate_up_names) = (of(l, &QKV), of(l, &GATE_UP));
        let (output, down) = (of(l, &["self_attn.o_proj"]), of(l, &["mlp.down_proj"]));

        let mut gated = self.pool.take(tokens * f);
        swiglu::forward(&gate_up, f, &mut gated);
        self.weight_gradients(&down, dx, h, &gated, f, gradients);
        drop(gated);
        let dgated = self.project_back(&down, dx, h, f);
        swiglu::backward(&mut gate_up, f, &dgated);
        drop(dgated);
        let name = parameter(l, "post_attention_layernorm.weight");
        let mut normed = self.pool.take(tokens * h);
        norm::again(&middle, &middle_scale, self.weight(&name), &mut normed);
        self.weight_gradients(&gate_up_names, &gate_up, 2 * f, &normed, h, gradients);
        let dnormed = self.project_back(&gate_up_names, &gate_up, 2 * f, h);
        drop(gate_up);
        if let Some(dw) = gradients.get(&name) {
            norm::backward_weight(&middle, &middle_scale, &dnormed, dw);
        }
        norm::backward(&middle, &middle_scale, self.weight(&name), &dnormed, dx);
        drop((middle, middle_scale, dnormed));

        self.weight_gradients(&output, dx, h, &attended, heads.width(), gradients);
        let dattended = self.project_back(&output, dx, h, heads.width());
        let mut dqkv = self.pool.take(qkv.len());
        let offsets = rows.offsets();
        attention::backward(&self.pool, heads, &qkv, offsets, &attended, &log_sum, &dattended, &mut dqkv);
        drop((qkv, attended, log_sum, dattended));
        let table = self.table(positions.iter().max().map_or(0, |p| *p as usize + 1));
        rope::rotate(&mut dqkv, heads.stride(), heads.query + heads.key, positions, &table, true);
        let name = parameter(l, "input_layernorm.weight");
        norm::again(&input, &input_scale, self.weight(&name), &mut normed);
        self.weight_gradients(&qkv_names, &dqkv, heads.stride(), &normed, h, gradients);
        if !wanted && !gradients.contains(&name) {
            return;
        }
        let dnormed = self.project_back(&qkv_names, &dqkv, heads.stride(), h);
        if let Some(dw) = gradients.get(&name) {
            norm::backward_weight(&input, &input_scale, &dnormed, dw);
        }
        norm::backward(&input, &input_scale, self.weight(&name), &dnormed, dx);
    }
}

/// `1 / temperature`, as the logits are multiplied by it everywhere.
pub fn inverse<T: Real>(temperature: f64) -> T {
    T::from_f64(1.0 / temperature)
}

/// The end of a forward pass, for its tape.
struct Last<T: Real> {
    last: Buffer<T>,
    scale: Buffer<T>,
    normed: Buffer<T>,
    saved: Buffer<T>,
    inverse_temperature: T,
}
