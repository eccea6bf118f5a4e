//! Decoding on a device: keys and values are kept, and a step reads one token of every row.
//!
//! Rows are the responses of a rollout, `group` to a prompt, in order. A prompt is computed once, by the layers of training, and its keys
//! and values are copied to the rows of its group. A step is a fixed sequence of launches on fixed addresses, whatever has ended: it
//! can be recorded once and replayed.
//!
//! # Memory
//!
//! Per layer, keys and values are each `T[rows][key heads][capacity][dim]`, with `capacity` the longest prompt and its most new tokens:
//! see [`cache_bytes`]. All of it is given back when a [`Decoding`] is dropped, before an update begins.

use std::ops::Range;
use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model::{Config, Rows};
use grpo_lambda_decoder::pack::pack;

use super::batch::{Batch, Lists, floats, room};
use super::decoder::{GpuDecoder, Table};
use super::device::{Buffer, Gemm, Matrix};
use super::kernels::{Kernels, Shape};
use super::layer::Pass;
use super::projection::{Network, Packed};

type Result<T = ()> = std::result::Result<T, DeviceError>;

/// Uses in the ledger.
const CACHE: &str = "keys and values";
const STEP: &str = "decoding";

/// Bytes of the keys and values of all layers: `2 layers rows (key heads) capacity dim` numbers.
pub fn cache_bytes(config: &Config, dtype: Dtype, rows: usize, capacity: usize) -> usize {
    2 * config.num_hidden_layers * layer_numbers(config, rows, capacity) * dtype.bytes()
}

/// Numbers of the keys, or the values, of one layer.
fn layer_numbers(config: &Config, rows: usize, capacity: usize) -> usize {
    rows * config.num_key_value_heads * capacity * config.head_dim
}

/// Rows being decoded by one model.
#[derive(Debug)]
pub struct Decoding<'a> {
    decoder: &'a GpuDecoder,
    network: Network<'a>,
    rows: usize,
    capacity: usize,
    /// Of every layer: keys, then values.
    caches: Vec<Buffer>,
    table: Arc<Table>,
    lengths: Buffer,
    next: Buffer,
    stream: Buffer,
    normed: Buffer,
    qkv: Buffer,
    query: Buffer,
    attended: Buffer,
    gate_up: Buffer,
    gated: Buffer,
    scratch: Buffer,
    logits: Buffer,
}

impl<'a> Decoding<'a> {
    /// Room for `rows` rows of `capacity` tokens; nothing is read yet.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub fn new(decoder: &'a GpuDecoder, network: Network<'a>, rows: usize, capacity: usize) -> Result<Self> {
        let (k, c) = (decoder.kernels(), decoder.config());
        let heads = c.heads();
        let layer = 2 * layer_numbers(c, rows, capacity) * k.dtype.bytes();
        let caches = (0..c.num_hidden_layers).map(|_| Buffer::new(&k.device, CACHE, layer));
        let of = |width: usize| room(k, STEP, rows * width);
        let index = || Buffer::zeros(&k.device, STEP, rows * size_of::<u32>());
        Ok(Decoding {
            decoder,
            network,
            rows,
            capacity,
            caches: caches.collect::<Result<_>>()?,
            table: decoder.table(capacity)?,
            lengths: index()?,
            next: index()?,
            stream: of(c.hidden_size)?,
            normed: of(c.hidden_size)?,
            qkv: of(heads.stride())?,
            query: of(heads.width())?,
            attended: of(heads.width())?,
            gate_up: of(2 * c.intermediate_size)?,
            gated: of(c.intermediate_size)?,
            scratch: room(k, STEP, network.scratch(rows))?,
            logits: floats(k, "logits", rows * c.vocab_size)?,
        })
    }

    /// The kernels it launches.
    pub fn kernels(&self) -> &Kernels {
        self.decoder.kernels()
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        self.decoder.config()
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
        let fits = |p: &&[u32]| (1..=self.capacity).contains(&p.len());
        assert!(prompts.iter().all(fits), "prompts of 1 to {} tokens", self.capacity);
        for range in pack(prompts.iter().map(|p| p.len()), budget) {
            self.read_prompts(prompts, range, group)?;
        }
        let lengths: Vec<u32> = prompts.iter().flat_map(|p| vec![p.len() as u32; group]).collect();
        self.lengths.write(0, &lengths)?;
        self.head(prompts.len())
    }

    /// The layers over these prompts, packed: their keys and values go to the rows of their groups, and the streams at their last tokens
    /// to the lines of the prompts.
    fn read_prompts(&self, prompts: &[&[u32]], range: Range<usize>, group: usize) -> Result {
        let (k, c) = (self.kernels(), self.config());
        let h = c.hidden_size;
        let mut rows = Rows::new();
        prompts[range.clone()].iter().for_each(|prompt| rows.push(prompt, prompt.len()));
        let source = (0..range.len() as u32).flat_map(|prompt| vec![prompt; group]).collect();
        let last = rows.offsets()[1..].iter().map(|end| *end as u32 - 1).collect();
        let lists = Lists::new(&k.device, &[source, last])?;
        let batch = Batch::as_given(&k.device, &rows)?;
        let tokens = batch.tokens();
        let pass = Pass::new(k, self.network, &batch, self.table.address(), self.decoder.budget().scores)?;
        let mut x = room(k, "activations", tokens * h)?;
        k.embed(batch.ids(), self.network.weights.embedding(), x.address(), tokens as u32, h as u32)?;
        for l in 0..c.num_hidden_layers {
            let (next, activations) = pass.layer(l, x)?;
            let heads = pass.turned(&activations);
            let (keys, values) = self.cache(l, range.start * group);
            k.fill_cache(
                heads.k,
                heads.v,
                batch.at().offsets,
                lists.at(0),
                keys,
                values,
                (range.len() * group) as u32,
                shape(c),
                self.capacity as u32,
            )?;
            x = next;
        }
        let lines = self.stream.at(range.start * h * k.dtype.bytes());
        k.gather_rows(x.address(), lists.at(1), lines, range.len() as u32, h as u32)
    }

    /// Reads [`Decoding::next`], the token at [`Decoding::lengths`] of every row. The lengths stay: raising them is the sampler's.
    ///
    /// # Errors
    /// When the device fails.
    pub fn step(&self) -> Result {
        let (k, c, w, rows) = (self.kernels(), self.config(), self.network.weights, self.rows as u32);
        let (h, f) = (c.hidden_size as u32, c.intermediate_size as u32);
        let (s, capacity, lengths) = (shape(c), self.capacity as u32, self.lengths.address());
        let (stream, query, attended) =
            (self.stream.address(), self.query.address(), self.attended.address());
        k.embed(self.next.address(), w.embedding(), stream, rows, h)?;
        for l in 0..c.num_hidden_layers {
            let (keys, values) = self.cache(l, 0);
            self.norm(w.input_norm(l), self.rows)?;
            self.project(l, Packed::Qkv, &self.normed, &self.qkv)?;
            let (qkv, table) = (self.qkv.address(), self.table.address());
            k.decode_heads(qkv, w.qkv_bias(l), table, lengths, query, keys, values, rows, s, capacity)?;
            let scale = (1.0 / (c.head_dim as f64).sqrt()) as f32;
            k.decode_attention(query, keys, values, lengths, attended, rows, s, capacity, scale)?;
            self.project(l, Packed::Output, &self.attended, &self.stream)?;
            self.add_bias(w.output_bias(l))?;
            self.norm(w.middle_norm(l), self.rows)?;
            self.project(l, Packed::GateUp, &self.normed, &self.gate_up)?;
            k.swiglu(self.gate_up.address(), w.gate_up_bias(l), self.gated.address(), rows, f)?;
            self.project(l, Packed::Down, &self.gated, &self.stream)?;
            self.add_bias(w.down_bias(l))?;
        }
        self.head(self.rows)
    }

    /// Keys and values of layer `l` from row `row` on.
    fn cache(&self, l: usize, row: usize) -> (u64, u64) {
        let (c, bytes) = (self.config(), self.kernels().dtype.bytes());
        let offset = layer_numbers(c, row, self.capacity) * bytes;
        let values = layer_numbers(c, self.rows, self.capacity) * bytes;
        (self.caches[l].at(offset), self.caches[l].at(values + offset))
    }

    /// `y = x W^T`; what goes back to the stream is added to it.
    fn project(&self, l: usize, packed: Packed, x: &Buffer, y: &Buffer) -> Result {
        let add = matches!(packed, Packed::Output | Packed::Down);
        let (x, y, scratch) = (x.address(), y.address(), self.scratch.address());
        self.network.project(self.kernels(), l, packed, x, self.rows, y, add, scratch)
    }

    /// The stream, normed.
    fn norm(&self, weight: u64, lines: usize) -> Result {
        let (x, y, c) = (self.stream.address(), self.normed.address(), self.config());
        let (h, eps) = (c.hidden_size as u32, c.rms_norm_eps as f32);
        self.kernels().rms_norm(x, weight, y, 0, lines as u32, h, eps)
    }

    fn add_bias(&self, bias: u64) -> Result {
        if bias == 0 {
            return Ok(());
        }
        self.kernels().add_bias(
            self.stream.address(),
            bias,
            self.rows as u32,
            self.config().hidden_size as u32,
        )
    }

    /// The logits of the first `lines` streams.
    fn head(&self, lines: usize) -> Result {
        let (k, w, c) = (self.kernels(), self.network.weights, self.config());
        let (h, v) = (c.hidden_size, c.vocab_size);
        self.norm(w.final_norm(), lines)?;
        let logits = Matrix::new(self.logits.address(), Dtype::F32, v);
        let (normed, head) = (w.matrix(self.normed.address(), h), w.matrix(w.head(), h));
        k.device.gemm(&Gemm::new((lines, v, h), normed, head.t(), logits))
    }
}

fn shape(c: &Config) -> Shape {
    Shape { query: c.num_attention_heads as u32, key: c.num_key_value_heads as u32, dim: c.head_dim as u32 }
}
