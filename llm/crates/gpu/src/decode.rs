//! Decoding on a device with a KV cache: a step reads one token of every row.
//!
//! Rows are slots, in which the responses of a rollout are decoded one after the other. A prompt is computed once, by the layers of training,
//! and its keys and values are copied to the pages of the rows that begin with it. A step is a fixed sequence of launches on fixed
//! addresses, whichever rows have ended: it can be captured once and replayed. What changes when a response starts is the content of a table,
//! [`crate::pages`], through which the kernels find the pages of a row.
//!
//! # Memory
//!
//! Per layer, keys and values are each `[pages, key heads, 32, dim]`: see [`cache_bytes`]. All of it is freed when a [`Decoding`] is dropped,
//! before an update begins.

use std::ops::Range;
use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model::{ModelConfig, Rows};
use grpo_lambda_decoder::pack::pack;

use super::array::Array;
use super::batch::{Batch, IndexLists};
use super::decoder::GpuDecoder;
use super::gemm::{Gemm, Matrix};
use super::heads::{self, RotaryTable, head_shape};
use super::kernels::{
    AddBias, DecodeAttention, DecodeCombine, DecodeHeads, Embed, FillCache, GatherRows, Kernels, PAGE,
    RmsNorm, Swiglu,
};
use super::layer::Pass;
use super::layout::Packed;
use super::ledger::ACTIVATIONS;
use super::lm_head::LOGITS;
use super::pages::{Admission, PageTable};
use super::projection::{Network, Projection};
use super::ptr::{Ptr, PtrMut, Real};

type Result<T = ()> = std::result::Result<T, DeviceError>;

/// Uses in the ledger.
const CACHE: &str = "keys and values";
const STEP: &str = "decoding";

/// Bytes of the keys and values of all layers: `2 layers pages (key heads) 32 dim` elements.
pub fn cache_bytes(config: &ModelConfig, dtype: Dtype, pages: usize) -> usize {
    2 * config.num_hidden_layers * pages * page_elements(config) * dtype.bytes()
}

/// Elements of the keys, or the values, of a page in one layer.
fn page_elements(config: &ModelConfig) -> usize {
    config.num_key_value_heads * PAGE as usize * config.head_dim
}

/// The KV cache: keys and values of some pages in every layer.
#[derive(Debug)]
struct Cache {
    /// Keys, then values, of every layer.
    layers: Vec<Array<Real>>,
    /// `[rows + 1, width]`: the pages of every row, and of a prompt.
    table: Array<u32>,
    width: u32,
    /// Elements of a page's keys in a layer.
    page: usize,
}

impl Cache {
    fn new(k: &Kernels, config: &ModelConfig, pages: &PageTable) -> Result<Self> {
        let page = page_elements(config);
        let layers = (0..config.num_hidden_layers).map(|_| k.array(CACHE, 2 * pages.pages() * page));
        let lines = (pages.slots() + 1) * pages.width();
        Ok(Cache {
            layers: layers.collect::<Result<_>>()?,
            table: Array::zeros(&k.device, STEP, lines)?,
            width: pages.width() as u32,
            page,
        })
    }

    /// Keys of layer `l`.
    fn keys(&self, l: usize) -> PtrMut<Real> {
        self.layers[l].ptr_mut()
    }

    /// Values of layer `l`.
    fn values(&self, l: usize) -> PtrMut<Real> {
        self.layers[l].at_mut(self.layers[l].len() / 2)
    }

    /// Copies pages in every layer.
    fn copy(&self, copies: &[(u32, u32)]) -> Result {
        for layer in &self.layers {
            let device = layer.buffer().device();
            for start in [0, layer.len() / 2] {
                for &(from, to) in copies {
                    let [from, to] = [from, to].map(|page| layer.at(start + page as usize * self.page));
                    device.copy(to.address(), from.address(), from.bytes(self.page) as usize)?;
                }
            }
        }
        Ok(())
    }
}

/// Rows being decoded by one model.
#[derive(Debug)]
pub(crate) struct Decoding<'a> {
    decoder: &'a GpuDecoder,
    network: Network<'a>,
    rows: usize,
    cache: Cache,
    table: Arc<RotaryTable>,
    lengths: Array<u32>,
    next: Array<u32>,
    hidden: Array<Real>,
    /// `[width]`: the hidden state at the end of the prompt that responses wait for.
    kept: Array<Real>,
    normed: Array<Real>,
    qkv: Array<Real>,
    query: Array<Real>,
    attended: Array<Real>,
    /// The number of parts of the positions, and attention's results of each if there are several.
    splits: u32,
    parts: Option<Array<f32>>,
    gate_up: Array<Real>,
    gated: Array<Real>,
    scratch: Array<Real>,
    logits: Array<f32>,
}

impl<'a> Decoding<'a> {
    /// Memory for the rows and the pages of `pages`; nothing is read yet.
    pub(crate) fn new(decoder: &'a GpuDecoder, network: Network<'a>, pages: &PageTable) -> Result<Self> {
        let (k, c, heads) = (decoder.kernels(), decoder.config(), decoder.config().heads());
        let (rows, capacity) = (pages.slots(), pages.width() * PAGE as usize);
        let lines = |width: usize| k.array(STEP, rows * width);
        let index = || Array::zeros(&k.device, STEP, rows);
        let splits = DecodeAttention::splits(rows as u32, head_shape(c), capacity as u32);
        let parts = rows * heads.query * splits as usize * (heads.dim + 2);
        let parts = (splits > 1).then(|| k.array(STEP, parts)).transpose()?;
        Ok(Decoding {
            decoder,
            network,
            rows,
            cache: Cache::new(k, c, pages)?,
            table: decoder.table(pages.tokens())?,
            lengths: index()?,
            next: index()?,
            hidden: lines(c.hidden_size)?,
            kept: k.array(STEP, c.hidden_size)?,
            normed: lines(c.hidden_size)?,
            qkv: lines(heads.stride())?,
            query: lines(heads.width())?,
            attended: lines(heads.width())?,
            splits,
            parts,
            gate_up: lines(2 * c.intermediate_size)?,
            gated: lines(c.intermediate_size)?,
            scratch: k.array(STEP, network.scratch(rows))?,
            logits: k.array(LOGITS, rows * c.vocab_size)?,
        })
    }

    /// The kernels it launches.
    pub(crate) fn kernels(&self) -> &Kernels {
        self.decoder.kernels()
    }

    /// The model's shape.
    pub(crate) fn config(&self) -> &ModelConfig {
        self.decoder.config()
    }

    /// `[rows]`: tokens of every row that have been read.
    pub(crate) fn lengths(&self) -> &Array<u32> {
        &self.lengths
    }

    /// `[rows]`: the token of every row that [`Decoding::step`] reads.
    pub(crate) fn next(&self) -> &Array<u32> {
        &self.next
    }

    /// `[rows, vocabulary]`: after [`Decoding::step`] a line per row, after [`Decoding::start`] one per prompt, that which waited first.
    pub(crate) fn logits(&self) -> &Array<f32> {
        &self.logits
    }

    /// Carries out the plan of responses that start, with their pages: reads their prompts, about `budget` tokens at a time, and leaves the logits
    /// of first tokens. Rows in which nothing starts stay as they are.
    pub(crate) fn start(
        &self,
        prompts: &[&[u32]],
        pages: &PageTable,
        plan: &Admission,
        budget: usize,
    ) -> Result {
        self.cache.table.write(&pages.entries())?;
        self.cache.copy(&plan.copies)?;
        let (device, width) = (&self.kernels().device, self.config().hidden_size);
        let line = |n: usize| self.hidden.at(n * width);
        let (kept, bytes) = (self.kept.ptr(), self.kept.buffer().bytes());
        if plan.resumed {
            device.copy(line(0).address(), kept.address(), bytes)?;
        }
        let fresh: Vec<&[u32]> = plan.prompts.iter().map(|prompt| prompts[*prompt]).collect();
        let fits = |p: &&[u32]| (1..=pages.tokens()).contains(&p.len());
        assert!(fresh.iter().all(fits), "prompts of 1 to {} tokens", pages.tokens());
        for range in pack(fresh.iter().map(|p| p.len()), budget) {
            self.read_prompts(&fresh, range, plan)?;
        }
        if let Some(n) = plan.kept {
            device.copy(kept.address(), line(n).address(), bytes)?;
        }
        self.head(fresh.len() + usize::from(plan.resumed))
    }

    /// The layers over these prompts, packed: their keys and values go to the pages of the plan, and the hidden states at their last tokens to
    /// the lines of the prompts.
    fn read_prompts(&self, prompts: &[&[u32]], range: Range<usize>, plan: &Admission) -> Result {
        let (k, c, width) = (self.kernels(), self.config(), self.config().hidden_size);
        let mut rows = Rows::new();
        prompts[range.clone()].iter().for_each(|prompt| rows.push(prompt, prompt.len()));
        let fills = plan.fills.iter().filter(|fill| range.contains(&fill.0));
        let fills: Vec<(usize, usize, usize)> = fills.copied().collect();
        let tokens: usize = fills.iter().map(|&(prompt, _, begin)| prompts[prompt].len() - begin).sum();
        let source = fills.iter().map(|fill| (fill.0 - range.start) as u32).collect();
        let lines = fills.iter().map(|fill| fill.1 as u32).collect();
        let begins = fills.iter().map(|fill| fill.2 as u32).collect();
        let last = rows.offsets()[1..].iter().map(|end| *end as u32 - 1).collect();
        let lists = IndexLists::new(&k.device, &[source, lines, begins, last])?;
        let batch = Batch::new(&k.device, &rows)?;
        let pass = Pass::new(k, self.network, &batch, self.table.ptr())?;
        let mut x: Array<Real> = k.array(ACTIVATIONS, batch.tokens() * width)?;
        self.embed(batch.ids(), x.ptr_mut(), batch.tokens())?;
        for l in 0..c.num_hidden_layers {
            let (next, activations) = pass.layer(l, x)?;
            let qkv = pass.qkv(l, activations)?;
            k.launch(FillCache {
                qkv: qkv.ptr(),
                offsets: batch.offsets(),
                source: lists.at(0),
                keys: self.cache.keys(l),
                values: self.cache.values(l),
                pages: self.cache.table.ptr(),
                lines: lists.at(1),
                begins: lists.at(2),
                copies: fills.len() as u32,
                tokens: tokens as u32,
                heads: head_shape(c),
                width: self.cache.width,
            })?;
            x = next;
        }
        let out = self.hidden.at_mut((range.start + usize::from(plan.resumed)) * width);
        let (rows, width) = (range.len() as u32, width as u32);
        k.launch(GatherRows { x: x.ptr(), index: lists.at(3), out, rows, width })
    }

    fn embed(&self, ids: Ptr<u32>, out: PtrMut<Real>, tokens: usize) -> Result {
        let weights = self.network.weights;
        let table = weights.at(weights.layout().embedding());
        let (tokens, width) = (tokens as u32, self.config().hidden_size as u32);
        self.kernels().launch(Embed { ids, table, out, tokens, width })
    }

    /// Reads [`Decoding::next`], the token at [`Decoding::lengths`] of every row. The lengths stay: raising them is the sampler's.
    pub(crate) fn step(&self) -> Result {
        self.embed(self.next.ptr(), self.hidden.ptr_mut(), self.rows)?;
        for l in 0..self.config().num_hidden_layers {
            self.attend(l)?;
            self.feed_forward(l)?;
        }
        self.head(self.rows)
    }

    /// The attention of layer `l`, added to the hidden state.
    fn attend(&self, l: usize) -> Result {
        let (k, c, rows, heads) =
            (self.kernels(), self.config(), self.rows as u32, head_shape(self.config()));
        let (keys, values) = (self.cache.keys(l), self.cache.values(l));
        self.read_heads(l, keys, values)?;
        k.launch(DecodeAttention {
            q: self.query.ptr(),
            keys: keys.read(),
            values: values.read(),
            lengths: self.lengths.ptr(),
            out: self.attended.ptr_mut(),
            parts: self.parts.as_ref().map(Array::ptr_mut),
            pages: self.cache.table.ptr(),
            splits: self.splits,
            rows,
            heads,
            width: self.cache.width,
            scale: (1.0 / (c.head_dim as f64).sqrt()) as f32,
        })?;
        self.combine(rows * heads.query, heads.dim)?;
        self.project(l, Packed::Output, self.attended.ptr(), self.hidden.ptr_mut())?;
        self.add_bias(l, Packed::Output)
    }

    /// Queries of layer `l`, and keys and values in their place in the cache.
    fn read_heads(&self, l: usize, keys: PtrMut<Real>, values: PtrMut<Real>) -> Result {
        let (k, weights) = (self.kernels(), self.network.weights);
        let (table, lengths, q) = (self.table.ptr(), self.lengths.ptr(), self.query.ptr_mut());
        let (rows, heads) = (self.rows as u32, head_shape(self.config()));
        let (layer, at) = (weights.layer(l), (self.qkv.ptr(), self.qkv.ptr_mut()));
        let head_norm = heads::head_norm(weights, l, at, rows);
        self.norm(layer.attention_norm, self.rows)?;
        self.project(l, Packed::Qkv, self.normed.ptr(), self.qkv.ptr_mut())?;
        // The norms come after the bias and add it.
        let bias = if head_norm.is_some() { None } else { self.bias(l, Packed::Qkv) };
        head_norm.map_or(Ok(()), |norm| k.launch(norm))?;
        let (qkv, pages, width) = (self.qkv.ptr(), self.cache.table.ptr(), self.cache.width);
        k.launch(DecodeHeads { qkv, bias, table, lengths, q, keys, values, pages, rows, heads, width })
    }

    /// Attention's output from that of its splits, where there are several.
    fn combine(&self, lines: u32, dim: u32) -> Result {
        let Some(parts) = &self.parts else { return Ok(()) };
        let (parts, out, splits) = (parts.ptr(), self.attended.ptr_mut(), self.splits);
        self.kernels().launch(DecodeCombine { parts, out, lines, splits, dim })
    }

    /// The MLP of layer `l`, added to the hidden state.
    fn feed_forward(&self, l: usize) -> Result {
        self.norm(self.network.weights.layer(l).mlp_norm, self.rows)?;
        self.project(l, Packed::GateUp, self.normed.ptr(), self.gate_up.ptr_mut())?;
        self.kernels().launch(Swiglu {
            gate_up: self.gate_up.ptr(),
            bias: self.bias(l, Packed::GateUp),
            y: self.gated.ptr_mut(),
            tokens: self.rows as u32,
            width: self.config().intermediate_size as u32,
        })?;
        self.project(l, Packed::Down, self.gated.ptr(), self.hidden.ptr_mut())?;
        self.add_bias(l, Packed::Down)
    }

    fn project(&self, l: usize, packed: Packed, x: Ptr<Real>, y: PtrMut<Real>) -> Result {
        let (kernels, network, scratch) = (self.kernels(), self.network, &self.scratch);
        let projection = Projection { kernels, network, layer: l, packed, tokens: self.rows, scratch };
        // What goes back to the hidden state is added to it.
        projection.forward(x, y, matches!(packed, Packed::Output | Packed::Down))
    }

    /// The hidden state of the first `lines` rows, normed; `weight` is an offset in the layout.
    fn norm(&self, weight: u64, lines: usize) -> Result {
        self.kernels().launch(RmsNorm {
            x: self.hidden.ptr(),
            weight: self.network.weights.at(weight),
            y: self.normed.ptr_mut(),
            scale: None,
            tokens: lines as u32,
            width: self.config().hidden_size as u32,
            eps: self.config().rms_norm_eps as f32,
        })
    }

    /// The bias of a packed matrix, if it has one.
    fn bias(&self, l: usize, packed: Packed) -> Option<Ptr<Real>> {
        heads::bias(self.network.weights, l, packed)
    }

    fn add_bias(&self, l: usize, packed: Packed) -> Result {
        let Some(bias) = self.bias(l, packed) else { return Ok(()) };
        let (rows, width) = (self.rows as u32, self.config().hidden_size as u32);
        self.kernels().launch(AddBias { x: self.hidden.ptr_mut(), bias, rows, width })
    }

    /// The logits of the first `lines` hidden states.
    fn head(&self, lines: usize) -> Result {
        let (k, weights, c) = (self.kernels(), self.network.weights, self.config());
        let (width, vocabulary) = (c.hidden_size, c.vocab_size);
        self.norm(weights.layout().final_norm(), lines)?;
        let logits = Matrix::new(self.logits.ptr_mut(), vocabulary);
        let normed = Matrix::new(self.normed.ptr(), width);
        let head = Matrix::new(weights.at(weights.layout().head()), width);
        k.gemm(Gemm::new((lines, vocabulary, width), normed, head.t(), logits))
    }
}
