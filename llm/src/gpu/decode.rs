//! Decoding on a device: keys and values are kept, and a step reads one token of every row.
//!
//! Rows are the responses of a rollout, `group` to a prompt, in order. A prompt is computed once and its keys and values are copied to
//! the rows of its group. A step is a fixed sequence of launches on fixed addresses, whatever has ended: it can be recorded once
//! and replayed.
//!
//! # Memory
//!
//! Per layer, keys and values are each `T[rows][key heads][capacity][dim]`, with `capacity` the longest prompt and its most new tokens:
//! see [`cache_bytes`]. All of it is given back when a [`Decoding`] is dropped, before an update begins.

use std::ops::Range;
use std::sync::Arc;

use super::device::{Buffer, Device, DeviceError, Dtype, Gemm, Matrix};
use super::kernels::{Kernels, Places, Shape};
use super::weights::Weights;
use crate::model::Config;

type Result<T = ()> = std::result::Result<T, DeviceError>;

/// Its use in the ledger.
const CACHE: &str = "keys and values";
/// Work space of a step.
const STEP: &str = "decoding";
/// Work space of reading prompts.
const PREFILL: &str = "prefill";
/// Scores of the next tokens.
const LOGITS: &str = "logits";

/// Bytes of the keys and values of all layers: `2 layers rows heads capacity dim` numbers.
pub fn cache_bytes(config: &Config, dtype: Dtype, rows: usize, capacity: usize) -> usize {
    2 * config.num_hidden_layers * layer_numbers(config, rows, capacity) * dtype.bytes()
}

/// Numbers of the keys, or the values, of one layer.
fn layer_numbers(config: &Config, rows: usize, capacity: usize) -> usize {
    rows * config.num_key_value_heads * capacity * config.head_dim
}

/// Rows being decoded by one model.
#[derive(Debug)]
pub struct Decoding<'w> {
    weights: &'w Weights,
    kernels: Kernels,
    rows: usize,
    capacity: usize,
    /// Of every layer: keys, then values.
    caches: Vec<Buffer>,
    table: Buffer,
    lengths: Buffer,
    next: Buffer,
    work: Work,
    logits: Buffer,
}

/// Activations of tokens, used again by every layer.
#[derive(Debug)]
struct Work {
    stream: Buffer,
    normed: Buffer,
    qkv: Buffer,
    query: Buffer,
    attended: Buffer,
    gate_up: Buffer,
    gated: Buffer,
}

impl Work {
    fn new(
        device: &Arc<dyn Device>,
        what: &'static str,
        c: &Config,
        dtype: Dtype,
        tokens: usize,
    ) -> Result<Self> {
        let of = |width: usize| Buffer::new(device, what, tokens * width * dtype.bytes());
        let heads = c.heads();
        Ok(Work {
            stream: of(c.hidden_size)?,
            normed: of(c.hidden_size)?,
            qkv: of(heads.stride())?,
            query: of(heads.width())?,
            attended: of(heads.width())?,
            gate_up: of(2 * c.intermediate_size)?,
            gated: of(c.intermediate_size)?,
        })
    }
}

/// The part of a prompt's batch that is read at once.
struct Prompts<'a> {
    ids: &'a [&'a [u32]],
    /// Which of all prompts these are.
    range: Range<usize>,
}

impl<'w> Decoding<'w> {
    /// Room for `rows` rows of `capacity` tokens; nothing is read yet.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub fn new(weights: &'w Weights, rows: usize, capacity: usize) -> Result<Self> {
        let device = weights.tensors().buffer().device();
        let (c, dtype) = (weights.config(), weights.dtype());
        let layer = 2 * layer_numbers(c, rows, capacity) * dtype.bytes();
        // Cleared: a row that has ended goes on being computed and must find numbers.
        let caches = (0..c.num_hidden_layers).map(|_| Buffer::zeros(device, CACHE, layer));
        Ok(Decoding {
            caches: caches.collect::<Result<_>>()?,
            table: rotations(device, STEP, c, capacity)?,
            lengths: Buffer::zeros(device, STEP, 4 * rows)?,
            next: Buffer::zeros(device, STEP, 4 * rows)?,
            work: Work::new(device, STEP, c, dtype, rows)?,
            logits: Buffer::new(device, LOGITS, 4 * rows * c.vocab_size)?,
            kernels: Kernels { device: device.clone(), dtype },
            weights,
            rows,
            capacity,
        })
    }

    /// The kernels it launches.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// `u32[rows]`: tokens of every row that have been read.
    pub fn lengths(&self) -> &Buffer {
        &self.lengths
    }

    /// `u32[rows]`: the token of every row that [`Decoding::step`] reads.
    pub fn next(&self) -> &Buffer {
        &self.next
    }

    /// `f32[rows][vocabulary]`: after [`Decoding::step`] a line per row, after [`Decoding::prefill`] one per prompt.
    pub fn logits(&self) -> &Buffer {
        &self.logits
    }

    /// Tokens of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.weights.config().vocab_size
    }

    /// Reads the prompts, `rows / prompts` rows to each, about `budget` tokens at a time.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    ///
    /// # Panics
    /// When the rows are no multiple of the prompts, or a prompt is empty or longer than the capacity.
    pub fn prefill(&self, prompts: &[&[u32]], budget: usize) -> Result {
        let group = self.rows / prompts.len();
        assert_eq!(group * prompts.len(), self.rows, "rows of {} prompts", prompts.len());
        assert!(
            prompts.iter().all(|p| (1..=self.capacity).contains(&p.len())),
            "prompts of 1..={}",
            self.capacity
        );
        for range in crate::policy::pack(prompts.iter().map(|p| p.len()), budget) {
            self.read_prompts(&Prompts { ids: &prompts[range.clone()], range }, group)?;
        }
        let lengths: Vec<u32> = prompts.iter().flat_map(|p| vec![p.len() as u32; group]).collect();
        self.lengths.write(0, &lengths)?;
        self.head(prompts.len())
    }

    /// Reads [`Decoding::next`], the token at [`Decoding::lengths`] of every row. The lengths stay: raising them is the sampler's.
    ///
    /// # Errors
    /// When the device fails.
    pub fn step(&self) -> Result {
        let (k, w, work, rows) = (&self.kernels, self.weights, &self.work, self.rows as u32);
        let c = w.config();
        let s = shape(c);
        let lengths = self.lengths.address();
        k.embed(self.next.address(), w.embedding(), work.stream.address(), rows, c.hidden_size as u32)?;
        for l in 0..c.num_hidden_layers {
            self.attention_input(work, l, self.rows)?;
            let (keys, values) = self.cache(l, 0);
            k.decode_heads(
                work.qkv.address(),
                w.qkv_bias(l),
                self.table.address(),
                lengths,
                work.query.address(),
                keys,
                values,
                rows,
                s,
                self.capacity as u32,
            )?;
            k.decode_attention(
                work.query.address(),
                keys,
                values,
                lengths,
                work.attended.address(),
                rows,
                s,
                self.capacity as u32,
                scale(c),
            )?;
            self.rest_of_layer(work, l, self.rows)?;
        }
        self.head(self.rows)
    }

    /// Keys and values of layer `l` from row `row` on.
    fn cache(&self, l: usize, row: usize) -> (u64, u64) {
        let (c, bytes) = (self.weights.config(), self.kernels.dtype.bytes());
        let offset = layer_numbers(c, row, self.capacity) * bytes;
        let values = layer_numbers(c, self.rows, self.capacity) * bytes;
        (self.caches[l].at(offset), self.caches[l].at(values + offset))
    }

    /// `out = x W^T`, or `out += x W^T`, with `W` the matrix `[n, k]` of the weights at this address.
    fn project(
        &self,
        weight: u64,
        x: &Buffer,
        out: &Buffer,
        (m, n, k): (usize, usize, usize),
        add: bool,
    ) -> Result {
        let dtype = self.kernels.dtype;
        let x = Matrix::new(x.address(), dtype, k);
        let out = Matrix::new(out.address(), dtype, n);
        let product = Gemm::new((m, n, k), x, self.weights.matrix(weight, k).t(), out);
        self.kernels.device.gemm(&if add { product.accumulate() } else { product })
    }

    /// From the stream to queries, keys and values, before their bias and rotation.
    fn attention_input(&self, work: &Work, l: usize, tokens: usize) -> Result {
        let c = self.weights.config();
        self.norm(&work.stream, self.weights.input_norm(l), &work.normed, tokens)?;
        let size = (tokens, c.heads().stride(), c.hidden_size);
        self.project(self.weights.qkv(l), &work.normed, &work.qkv, size, false)
    }

    /// From attention's output to the stream after the layer.
    fn rest_of_layer(&self, work: &Work, l: usize, tokens: usize) -> Result {
        let (k, w) = (&self.kernels, self.weights);
        let c = w.config();
        let (h, f) = (c.hidden_size, c.intermediate_size);
        self.project(w.output(l), &work.attended, &work.stream, (tokens, h, c.heads().width()), true)?;
        self.add_bias(&work.stream, w.output_bias(l), tokens)?;
        self.norm(&work.stream, w.middle_norm(l), &work.normed, tokens)?;
        self.project(w.gate_up(l), &work.normed, &work.gate_up, (tokens, 2 * f, h), false)?;
        let (gate_up, gated) = (work.gate_up.address(), work.gated.address());
        k.swiglu(gate_up, w.gate_up_bias(l), gated, tokens as u32, f as u32)?;
        self.project(w.down(l), &work.gated, &work.stream, (tokens, h, f), true)?;
        self.add_bias(&work.stream, w.down_bias(l), tokens)
    }

    fn norm(&self, x: &Buffer, weight: u64, y: &Buffer, tokens: usize) -> Result {
        let c = self.weights.config();
        let (h, eps) = (c.hidden_size as u32, c.rms_norm_eps as f32);
        self.kernels.rms_norm(x.address(), weight, y.address(), 0, tokens as u32, h, eps)
    }

    fn add_bias(&self, x: &Buffer, bias: u64, tokens: usize) -> Result {
        if bias == 0 {
            return Ok(());
        }
        self.kernels.add_bias(x.address(), bias, tokens as u32, self.weights.config().hidden_size as u32)
    }

    /// The logits of the first `lines` streams.
    fn head(&self, lines: usize) -> Result {
        let (w, dtype) = (self.weights, self.kernels.dtype);
        let (h, v) = (w.config().hidden_size, w.config().vocab_size);
        self.norm(&self.work.stream, w.final_norm(), &self.work.normed, lines)?;
        let normed = Matrix::new(self.work.normed.address(), dtype, h);
        let logits = Matrix::new(self.logits.address(), Dtype::F32, v);
        self.kernels.device.gemm(&Gemm::new((lines, v, h), normed, w.matrix(w.head(), h).t(), logits))
    }

    /// The layers over these prompts, packed; their keys and values go to the rows of their groups, and the streams at their last
    /// tokens to the lines of the prompts.
    fn read_prompts(&self, prompts: &Prompts<'_>, group: usize) -> Result {
        let (k, w) = (&self.kernels, self.weights);
        let (c, dtype, device) = (w.config(), k.dtype, &k.device);
        let (s, h) = (shape(c), c.hidden_size);
        let ids: Vec<u32> = prompts.ids.concat();
        let mut offsets = vec![0u32];
        offsets.extend(prompts.ids.iter().scan(0, |end, p| {
            *end += p.len() as u32;
            Some(*end)
        }));
        let each = |f: fn(usize, usize) -> Vec<u32>, times: &dyn Fn(usize) -> usize| -> Vec<u32> {
            (0..prompts.ids.len()).flat_map(|p| f(p, times(p))).collect()
        };
        let repeated: fn(usize, usize) -> Vec<u32> = |p, times| vec![p as u32; times];
        let row = each(repeated, &|p| prompts.ids[p].len());
        let source = each(repeated, &|_| group);
        let last: Vec<u32> = offsets[1..].iter().map(|end| end - 1).collect();

        let tokens = ids.len();
        let longest = prompts.ids.iter().map(|p| p.len()).max().unwrap_or(0);
        let index = |data: &[u32]| Buffer::of(device, PREFILL, data);
        let (ids, row, offsets_there) = (index(&ids)?, index(&row)?, index(&offsets)?);
        let (source, last) = (index(&source)?, index(&last)?);
        let work = Work::new(device, PREFILL, c, dtype, tokens)?;
        let heads_of =
            |heads: usize| Buffer::new(device, PREFILL, tokens * heads * c.head_dim * dtype.bytes());
        let (keys, values) = (heads_of(c.num_key_value_heads)?, heads_of(c.num_key_value_heads)?);
        let by_head = heads_of(c.num_attention_heads)?;
        let square = c.num_attention_heads * longest * longest;
        let scores = Buffer::new(device, PREFILL, 4 * square)?;
        let probabilities = Buffer::new(device, PREFILL, dtype.bytes() * square)?;
        let at = Places { tokens: tokens as u32, row: row.address(), offsets: offsets_there.address() };

        k.embed(ids.address(), w.embedding(), work.stream.address(), tokens as u32, h as u32)?;
        for l in 0..c.num_hidden_layers {
            self.attention_input(&work, l, tokens)?;
            k.split_heads(
                work.qkv.address(),
                w.qkv_bias(l),
                self.table.address(),
                at,
                s,
                work.query.address(),
                keys.address(),
                values.address(),
            )?;
            let first = prompts.range.start * group;
            let (cached_keys, cached_values) = self.cache(l, first);
            k.fill_cache(
                keys.address(),
                values.address(),
                offsets_there.address(),
                source.address(),
                cached_keys,
                cached_values,
                (prompts.ids.len() * group) as u32,
                s,
                self.capacity as u32,
            )?;
            for ends in offsets.windows(2) {
                let row = Row { begin: ends[0] as usize, len: (ends[1] - ends[0]) as usize };
                attend(k, c, row, [&work.query, &keys, &values, &by_head], &scores, &probabilities)?;
            }
            k.merge_heads(by_head.address(), at, s, work.attended.address())?;
            self.rest_of_layer(&work, l, tokens)?;
        }
        let lines = self.work.stream.at(prompts.range.start * h * dtype.bytes());
        k.gather_rows(work.stream.address(), last.address(), lines, prompts.ids.len() as u32, h as u32)
    }
}

/// A row of a packed batch.
struct Row {
    begin: usize,
    len: usize,
}

/// Causal attention of one row, all head-major: queries, keys, values, and where the output goes.
fn attend(
    k: &Kernels,
    c: &Config,
    row: Row,
    [query, keys, values, out]: [&Buffer; 4],
    scores: &Buffer,
    probabilities: &Buffer,
) -> Result {
    let (dim, n, bytes) = (c.head_dim, row.len, k.dtype.bytes());
    let group = c.num_attention_heads / c.num_key_value_heads;
    let of = |buffer: &Buffer, heads: usize| buffer.at(row.begin * heads * dim * bytes);
    // The query heads of a key head are one matrix of `group n` lines.
    let queries =
        |buffer| Matrix::new(of(buffer, c.num_attention_heads), k.dtype, dim).every(group * n * dim);
    let kept = |buffer| Matrix::new(of(buffer, c.num_key_value_heads), k.dtype, dim).every(n * dim);
    let square = |buffer: &Buffer, dtype| Matrix::new(buffer.address(), dtype, n).every(group * n * n);
    let batched = |gemm: Gemm| Gemm { batch: c.num_key_value_heads, ..gemm };
    let product = Gemm::new((group * n, n, dim), queries(query), kept(keys).t(), square(scores, Dtype::F32));
    k.device.gemm(&batched(product))?;
    let lines = (c.num_attention_heads * n) as u32;
    k.softmax(scores.address(), probabilities.address(), lines, n as u32, scale(c))?;
    let product = Gemm::new((group * n, dim, n), square(probabilities, k.dtype), kept(values), queries(out));
    k.device.gemm(&batched(product))
}

fn shape(c: &Config) -> Shape {
    Shape { query: c.num_attention_heads as u32, key: c.num_key_value_heads as u32, dim: c.head_dim as u32 }
}

/// What scores are multiplied by.
fn scale(c: &Config) -> f32 {
    1.0 / (c.head_dim as f32).sqrt()
}

/// `f32[positions][dim / 2][2]`: cosine and sine of every rotation, computed in `f64` and rounded once.
fn rotations(device: &Arc<dyn Device>, what: &'static str, c: &Config, positions: usize) -> Result<Buffer> {
    let frequencies = c.frequencies();
    let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |f| p as f64 * f));
    let table: Vec<[f32; 2]> = angles.map(|a| [a.cos() as f32, a.sin() as f32]).collect();
    Buffer::of(device, what, &table)
}
