//! The kernels: their source, and one typed function for each.
//!
//! Every kernel is plain CUDA C over `REAL`, the dtype of weights and activations, which is read and written through `load` and
//! `store` and computed with as `float`: sums, products and exponentials are rounded to `T` once, when stored. No kernel uses atomics, so every sum has one order and a step repeats to the bit. `T` below is
//! that dtype; all other numbers are `f32` or `u32`.
//!
//! # Layouts
//!
//! Token-major: `[tokens, width]`, rows of the batch end to end. Head-major by row: row `r` of length `n` begins at
//! `offsets[r] * heads * dim` and is `[heads][n][dim]`, so that all query heads of one key head form one matrix.

use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};

use super::device::{Arg, Device};

type Result = std::result::Result<(), DeviceError>;

/// Threads of a block where a block works on one row of numbers.
const ROW: u32 = 256;

/// Every kernel; its entry is `NAME_f32` or `NAME_bf16`.
pub const NAMES: [&str; 27] = [
    "embed",
    "embed_backward",
    "gather_rows",
    "scatter_rows",
    "rms_norm",
    "rms_norm_backward",
    "rms_norm_weight",
    "add_bias",
    "column_sum",
    "split_heads",
    "split_heads_backward",
    "merge_heads",
    "merge_heads_backward",
    "softmax",
    "softmax_backward",
    "swiglu",
    "swiglu_backward",
    "log_prob",
    "log_prob_backward",
    "sum_of_squares",
    "adamw",
    "round",
    "decode_heads",
    "decode_attention",
    "fill_cache",
    "sample",
    "advance",
];

/// The whole source for one dtype: one translation unit without headers, for NVRTC (or, with the emulator's header before it, for
/// a C++ compiler).
pub fn source(dtype: Dtype) -> String {
    let (bf16, name) = (u8::from(dtype == Dtype::Bf16), dtype.name());
    [
        format!("#define BF16 {bf16}\n#define NAME(kernel) kernel##_{name}\n").as_str(),
        include_str!("prelude.cu"),
        include_str!("embed.cu"),
        include_str!("norm.cu"),
        include_str!("heads.cu"),
        include_str!("softmax.cu"),
        include_str!("swiglu.cu"),
        include_str!("log_prob.cu"),
        include_str!("adamw.cu"),
        include_str!("decode.cu"),
        include_str!("sample.cu"),
    ]
    .join("\n")
}

/// The kernels for one dtype on one device.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// Where they run.
    pub device: Arc<dyn Device>,
    /// What `T` is.
    pub dtype: Dtype,
}

/// Heads of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Query heads.
    pub query: u32,
    /// Heads of keys and values, a divisor of `query`.
    pub key: u32,
    /// Numbers of a head, even.
    pub dim: u32,
}

/// Where the rows of a batch are: `row` of every token and `offsets` of every row, on the device.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Tokens in all.
    pub tokens: u32,
    /// `u32[tokens]`: the row of a token.
    pub row: u64,
    /// `u32[rows + 1]`: where rows begin.
    pub offsets: u64,
}

/// State of sampling, one number per row unless said; all on the device.
#[derive(Clone, Copy, Debug)]
pub struct SampleState {
    /// Rows.
    pub rows: u32,
    /// Most tokens of a response: the stride of `uniforms` and of the three outputs.
    pub most: u32,
    /// `u32`: tokens in the cache, prompt and response; raised by one for every live row that is read.
    pub lengths: u64,
    /// `u32`: tokens sampled so far.
    pub produced: u64,
    /// `u32`: 0 live, 1 ended, 2 cut off at its limit, 3 its logits had no distribution.
    pub done: u64,
    /// `u32`: limit of a row's response, at most `most`.
    pub limits: u64,
    /// `u32`: the token to read next.
    pub next: u64,
    /// `f64[rows][most]`: uniform numbers in [0, 1), one per position.
    pub uniforms: u64,
    /// `u32[rows][most]`: tokens.
    pub tokens: u64,
    /// `f32[rows][most]`: their log-probabilities.
    pub logps: u64,
    /// `f32[rows][most]`: entropies of the distributions they were drawn from.
    pub entropies: u64,
    /// `u32[ends]`: end tokens.
    pub ends: u64,
    /// How many end tokens.
    pub ends_len: u32,
    /// `u32[1]`: rows that were live at the last [`Kernels::advance`].
    pub live: u64,
}

/// Numbers of an AdamW step that do not depend on the parameter; each is rounded once, after what is computed from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// Learning rate.
    pub rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Weight decay, decoupled.
    pub decay: f64,
    /// `1 - beta1^t`.
    pub correction1: f64,
    /// `1 - beta2^t`.
    pub correction2: f64,
    /// Factor of the gradient (clipping).
    pub scale: f64,
}

fn address(a: u64) -> Arg {
    Arg::Address(a)
}

impl Kernels {
    fn run(&self, name: &'static str, grid: (u32, u32), block: u32, args: &[Arg]) -> Result {
        if grid.0 == 0 || grid.1 == 0 {
            return Ok(());
        }
        self.device.launch(name, self.dtype, grid, block, args)
    }

    /// `out[t] = table[ids[t]]`: `ids u32[tokens]`, `table T[vocabulary][width]`.
    ///
    /// # Errors
    /// When the device fails, here and below.
    pub fn embed(&self, ids: u64, table: u64, out: u64, tokens: u32, width: u32) -> Result {
        let args = [address(ids), address(table), address(out), Arg::U32(width)];
        self.run("embed", (tokens, 1), ROW, &args)
    }

    /// Adds `dx T[tokens][width]` into `dtable f32[vocabulary][width]`: `tokens` of one id are `order[starts[i]..starts[i + 1]]` for the id
    /// `ids[i]`, `i < distinct`, and are added in that order.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn embed_backward(
        &self,
        dx: u64,
        order: u64,
        starts: u64,
        ids: u64,
        dtable: u64,
        distinct: u32,
        width: u32,
    ) -> Result {
        let args =
            [address(dx), address(order), address(starts), address(ids), address(dtable), Arg::U32(width)];
        self.run("embed_backward", (distinct, 1), ROW, &args)
    }

    /// `y = x / sqrt(mean x^2 + eps) * weight`; `scale f32[tokens]`, unless 0, is set to `1 / sqrt(..)`. `x` and `y` may be one.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn rms_norm(
        &self,
        x: u64,
        weight: u64,
        y: u64,
        scale: u64,
        tokens: u32,
        width: u32,
        eps: f32,
    ) -> Result {
        let args = [address(x), address(weight), address(y), address(scale), Arg::U32(width), Arg::F32(eps)];
        self.run("rms_norm", (tokens, 1), ROW, &args)
    }

    /// `dx += ` the gradient of [`Kernels::rms_norm`] in `x`; all `T[tokens][width]` but `scale`.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn rms_norm_backward(
        &self,
        x: u64,
        scale: u64,
        weight: u64,
        dy: u64,
        dx: u64,
        tokens: u32,
        width: u32,
    ) -> Result {
        let args = [address(x), address(scale), address(weight), address(dy), address(dx), Arg::U32(width)];
        self.run("rms_norm_backward", (tokens, 1), ROW, &args)
    }

    /// `dweight f32[width] += sum_t dy x scale`.
    ///
    /// # Errors
    /// When the device fails.
    pub fn rms_norm_weight(
        &self,
        x: u64,
        scale: u64,
        dy: u64,
        dweight: u64,
        tokens: u32,
        width: u32,
    ) -> Result {
        let args =
            [address(x), address(scale), address(dy), address(dweight), Arg::U32(tokens), Arg::U32(width)];
        self.run("rms_norm_weight", (width.div_ceil(32), 1), 1024, &args)
    }

    /// `x T[rows][width] += bias T[width]`.
    ///
    /// # Errors
    /// When the device fails.
    pub fn add_bias(&self, x: u64, bias: u64, rows: u32, width: u32) -> Result {
        self.run("add_bias", (rows, 1), ROW, &[address(x), address(bias), Arg::U32(width)])
    }

    /// `out f32[width] += sum over rows of x T[rows][width]`: the gradient of a bias.
    ///
    /// # Errors
    /// When the device fails.
    pub fn column_sum(&self, x: u64, out: u64, rows: u32, width: u32) -> Result {
        let args = [address(x), address(out), Arg::U32(rows), Arg::U32(width)];
        self.run("column_sum", (width.div_ceil(32), 1), 1024, &args)
    }

    /// `out[i] = x[index[i]]`, rows of `width`.
    ///
    /// # Errors
    /// When the device fails.
    pub fn gather_rows(&self, x: u64, index: u64, out: u64, rows: u32, width: u32) -> Result {
        self.run("gather_rows", (rows, 1), ROW, &[address(x), address(index), address(out), Arg::U32(width)])
    }

    /// `out[index[i]] = x[i]`, rows of `width`; the indices differ.
    ///
    /// # Errors
    /// When the device fails.
    pub fn scatter_rows(&self, x: u64, index: u64, out: u64, rows: u32, width: u32) -> Result {
        self.run("scatter_rows", (rows, 1), ROW, &[address(x), address(index), address(out), Arg::U32(width)])
    }

    /// Token-major `qkv T[tokens][(query + 2 key) dim]` plus `bias` (0: none), queries and keys turned by their position in the row,
    /// into `q`, `k`, `v`, each head-major by row. `table f32[positions][dim / 2][2]`: cosine and sine.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn split_heads(
        &self,
        qkv: u64,
        bias: u64,
        table: u64,
        at: Places,
        s: Shape,
        q: u64,
        k: u64,
        v: u64,
    ) -> Result {
        let args = [
            address(qkv),
            address(bias),
            address(table),
            address(at.row),
            address(at.offsets),
            address(q),
            address(k),
            address(v),
            Arg::U32(s.query),
            Arg::U32(s.key),
            Arg::U32(s.dim),
        ];
        self.run("split_heads", (at.tokens, 1), ROW, &args)
    }

    /// The way back: `dq`, `dk`, `dv`, head-major by row, turned back, into token-major `dqkv`.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn split_heads_backward(
        &self,
        dq: u64,
        dk: u64,
        dv: u64,
        table: u64,
        at: Places,
        s: Shape,
        dqkv: u64,
    ) -> Result {
        let args = [
            address(dq),
            address(dk),
            address(dv),
            address(table),
            address(at.row),
            address(at.offsets),
            address(dqkv),
            Arg::U32(s.query),
            Arg::U32(s.key),
            Arg::U32(s.dim),
        ];
        self.run("split_heads_backward", (at.tokens, 1), ROW, &args)
    }

    /// Attention's output, head-major by row, into token-major `out T[tokens][query dim]`.
    ///
    /// # Errors
    /// When the device fails.
    pub fn merge_heads(&self, x: u64, at: Places, s: Shape, out: u64) -> Result {
        let args = [
            address(x),
            address(at.row),
            address(at.offsets),
            address(out),
            Arg::U32(s.query),
            Arg::U32(s.dim),
        ];
        self.run("merge_heads", (at.tokens, 1), ROW, &args)
    }

    /// The way back: token-major into head-major by row.
    ///
    /// # Errors
    /// When the device fails.
    pub fn merge_heads_backward(&self, dout: u64, at: Places, s: Shape, dx: u64) -> Result {
        let args = [
            address(dout),
            address(at.row),
            address(at.offsets),
            address(dx),
            Arg::U32(s.query),
            Arg::U32(s.dim),
        ];
        self.run("merge_heads_backward", (at.tokens, 1), ROW, &args)
    }

    /// Causal softmax: line `i` of `scores f32[lines][len]` belongs to the query at position `i mod len`, which sees the keys `0..=` its own
    /// position; `probabilities T[lines][len]` are 0 at the others. Scores are multiplied by `scale` first.
    ///
    /// # Errors
    /// When the device fails.
    pub fn softmax(&self, scores: u64, probabilities: u64, lines: u32, len: u32, scale: f32) -> Result {
        let args = [address(scores), address(probabilities), Arg::U32(len), Arg::F32(scale)];
        self.run("softmax", (lines, 1), 128, &args)
    }

    /// `ds = p (dp - sum_j p_j dp_j) scale`, 0 where `p` is: `p T`, `dp f32`, `ds T`, all `[lines][len]`. The sum runs over the keys that the
    /// query sees.
    ///
    /// # Errors
    /// When the device fails.
    pub fn softmax_backward(&self, p: u64, dp: u64, ds: u64, lines: u32, len: u32, scale: f32) -> Result {
        let args = [address(p), address(dp), address(ds), Arg::U32(len), Arg::F32(scale)];
        self.run("softmax_backward", (lines, 1), 128, &args)
    }

    /// `y = silu(gate) up` of `gate_up T[tokens][2 width]`, gate first, plus `bias T[2 width]` (0: none).
    ///
    /// # Errors
    /// When the device fails.
    pub fn swiglu(&self, gate_up: u64, bias: u64, y: u64, tokens: u32, width: u32) -> Result {
        self.run("swiglu", (tokens, 1), ROW, &[address(gate_up), address(bias), address(y), Arg::U32(width)])
    }

    /// `dgate_up` from `dy T[tokens][width]`; it may be `gate_up` itself.
    ///
    /// # Errors
    /// When the device fails.
    pub fn swiglu_backward(
        &self,
        gate_up: u64,
        bias: u64,
        dy: u64,
        dgate_up: u64,
        tokens: u32,
        width: u32,
    ) -> Result {
        let args = [address(gate_up), address(bias), address(dy), address(dgate_up), Arg::U32(width)];
        self.run("swiglu_backward", (tokens, 1), ROW, &args)
    }

    /// Per token of `logits f32[tokens][vocabulary]` four numbers of `out f32[tokens][4]`: log-probability of its target, entropy (0
    /// unless asked for), the largest tempered logit, and the logarithm of the sum above it.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn log_prob(
        &self,
        logits: u64,
        targets: u64,
        out: u64,
        tokens: u32,
        vocabulary: u32,
        inverse_temperature: f32,
        entropy: bool,
    ) -> Result {
        let args = [
            address(logits),
            address(targets),
            address(out),
            Arg::U32(vocabulary),
            Arg::F32(inverse_temperature),
            Arg::U32(u32::from(entropy)),
        ];
        self.run("log_prob", (tokens, 1), 1024, &args)
    }

    /// `dlogits T = slope ((j = target) - p_j) / temperature`, with `saved` the output of [`Kernels::log_prob`] and `slopes f32[tokens]`.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn log_prob_backward(
        &self,
        logits: u64,
        targets: u64,
        saved: u64,
        slopes: u64,
        dlogits: u64,
        tokens: u32,
        vocabulary: u32,
        inverse_temperature: f32,
    ) -> Result {
        let args = [
            address(logits),
            address(targets),
            address(saved),
            address(slopes),
            address(dlogits),
            Arg::U32(vocabulary),
            Arg::F32(inverse_temperature),
        ];
        self.run("log_prob_backward", (tokens, 1), 1024, &args)
    }

    /// Most numbers of a head in [`Kernels::decode_attention`].
    pub const WIDEST_HEAD: u32 = 256;

    /// Most blocks of [`Kernels::sum_of_squares`], each of which leaves one pair of numbers.
    pub const PARTS: u32 = 512;

    /// `parts f64[PARTS][2]`: partial sums of `x^2` over `x f32[n]`, and how many of its numbers are NaN or infinite (those are not summed).
    ///
    /// # Errors
    /// When the device fails.
    pub fn sum_of_squares(&self, x: u64, n: u64, parts: u64) -> Result {
        let blocks = n.div_ceil(1024).clamp(1, u64::from(Self::PARTS)) as u32;
        // Blocks that a short array does not need leave nothing.
        self.device.clear(parts, 2 * Self::PARTS as usize * size_of::<f64>())?;
        self.run("sum_of_squares", (blocks, 1), ROW, &[address(x), Arg::U64(n), address(parts)])
    }

    /// AdamW over `n` numbers: `master`, `m`, `v`, `gradient` are `f32`; `weight T` becomes the rounded master. `residual f32`, unless 0,
    /// carries what rounding took from the master. The same bits as [`grpo_lambda_decoder::optim::AdamW`].
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn adamw(
        &self,
        master: u64,
        m: u64,
        v: u64,
        residual: u64,
        gradient: u64,
        weight: u64,
        n: u64,
        step: AdamWStep,
    ) -> Result {
        let args = [
            address(master),
            address(m),
            address(v),
            address(residual),
            address(gradient),
            address(weight),
            Arg::U64(n),
            Arg::F32(step.beta2 as f32),
            Arg::F32((1.0 - step.beta1) as f32),
            Arg::F32((1.0 - step.beta2) as f32),
            Arg::F32(step.epsilon as f32),
            Arg::F32((step.rate * step.decay) as f32),
            Arg::F32((step.rate / step.correction1) as f32),
            Arg::F32(step.correction2.sqrt() as f32),
            Arg::F32(step.scale as f32),
        ];
        self.run("adamw", (n.div_ceil(1024).clamp(1, 65_535) as u32, 1), ROW, &args)
    }

    /// `y T[n] = x f32[n]`, rounded.
    ///
    /// # Errors
    /// When the device fails.
    pub fn round(&self, x: u64, y: u64, n: u64) -> Result {
        self.run(
            "round",
            (n.div_ceil(1024).clamp(1, 65_535) as u32, 1),
            ROW,
            &[address(x), address(y), Arg::U64(n)],
        )
    }

    /// A token of every row: `qkv T[rows][(query + 2 key) dim]` plus `bias` (0: none), turned by `lengths[row]`, the tokens before it;
    /// queries go to `q T[rows][query dim]`, keys and values into the caches `T[rows][key][capacity][dim]` at that position.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn decode_heads(
        &self,
        qkv: u64,
        bias: u64,
        table: u64,
        lengths: u64,
        q: u64,
        keys: u64,
        values: u64,
        rows: u32,
        s: Shape,
        capacity: u32,
    ) -> Result {
        let args = [
            address(qkv),
            address(bias),
            address(table),
            address(lengths),
            address(q),
            address(keys),
            address(values),
            Arg::U32(s.query),
            Arg::U32(s.key),
            Arg::U32(s.dim),
            Arg::U32(capacity),
        ];
        self.run("decode_heads", (rows, 1), ROW, &args)
    }

    /// Attention of `q T[rows][query dim]` over the keys `0..=lengths[row]` of the caches into `out T[rows][query dim]`.
    ///
    /// # Errors
    /// When the device fails, or a head has more than [`Kernels::WIDEST_HEAD`] numbers.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn decode_attention(
        &self,
        q: u64,
        keys: u64,
        values: u64,
        lengths: u64,
        out: u64,
        rows: u32,
        s: Shape,
        capacity: u32,
        scale: f32,
    ) -> Result {
        if s.dim > Self::WIDEST_HEAD {
            return Err(DeviceError::Call {
                call: "decode_attention".to_owned(),
                device: self.device.name(),
                reason: format!("a head has {} numbers, the most is {}", s.dim, Self::WIDEST_HEAD),
            });
        }
        let args = [
            address(q),
            address(keys),
            address(values),
            address(lengths),
            address(out),
            Arg::U32(s.query),
            Arg::U32(s.key),
            Arg::U32(s.dim),
            Arg::U32(capacity),
            Arg::F32(scale),
        ];
        self.run("decode_attention", (rows, s.query), 128, &args)
    }

    /// Fills caches `T[rows][key][capacity][dim]` with a prompt each: `k`, `v` are head-major by row of the prompts' batch, whose
    /// `offsets` are as in [`Places`]; `source u32[rows]` is the prompt of a cache row.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the kernel")]
    pub fn fill_cache(
        &self,
        k: u64,
        v: u64,
        offsets: u64,
        source: u64,
        keys: u64,
        values: u64,
        rows: u32,
        s: Shape,
        capacity: u32,
    ) -> Result {
        let args = [
            address(k),
            address(v),
            address(offsets),
            address(source),
            address(keys),
            address(values),
            Arg::U32(s.key),
            Arg::U32(s.dim),
            Arg::U32(capacity),
        ];
        self.run("fill_cache", (rows, s.key), ROW, &args)
    }

    /// Draws the next token of every live row from `softmax(logits / temperature)`, `logits f32[rows][vocabulary]` (with `source
    /// u32[rows]` unless 0: row `i` draws from line `source[i]`), by inversion of the cumulative sum in id order at `uniforms[row][produced]`;
    /// `greedy`: the largest logit, the first of equals. Writes token, log-probability (at `inverse_temperature`) and entropy, and
    /// updates `produced`, `next`, `done`. A row that is done is left as it is; a NaN or +infinity among the logits, or nothing but
    /// -infinity, gives `done` = 3 and no token. The same token as [`grpo_lambda_decoder::rng::categorical`] draws from the log-probabilities,
    /// where no sum's rounding decides.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sample(
        &self,
        logits: u64,
        source: u64,
        vocabulary: u32,
        inverse_temperature: f32,
        greedy: bool,
        state: &SampleState,
    ) -> Result {
        let s = state;
        let args = [
            address(logits),
            address(source),
            Arg::U32(vocabulary),
            Arg::F32(inverse_temperature),
            Arg::U32(u32::from(greedy)),
            Arg::U32(s.most),
            address(s.produced),
            address(s.done),
            address(s.limits),
            address(s.next),
            address(s.uniforms),
            address(s.tokens),
            address(s.logps),
            address(s.entropies),
            address(s.ends),
            Arg::U32(s.ends_len),
        ];
        self.run("sample", (s.rows, 1), 1024, &args)
    }

    /// After a step of decoding: `lengths[row] += 1` for the rows whose token was read (those that are live), and `live` = how many are.
    ///
    /// Called before [`Kernels::sample`] of that step, so that a row which ends keeps its length and `live` is one step old at most.
    ///
    /// # Errors
    /// When the device fails.
    pub fn advance(&self, state: &SampleState) -> Result {
        let args = [Arg::U32(state.rows), address(state.lengths), address(state.done), address(state.live)];
        self.run("advance", (1, 1), ROW, &args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_the_source_is_named() {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let source = source(dtype);
            let heads = source.lines().filter_map(|line| line.strip_prefix("KERNEL("));
            let names = heads.filter_map(|head| head.split_once(", ")?.1.split_once(')'));
            let mut found: Vec<&str> = names.map(|(name, _)| name).collect();
            let mut named = NAMES.to_vec();
            found.sort_unstable();
            named.sort_unstable();
            assert_eq!(found, named);
        }
    }

    #[test]
    fn heads_that_are_too_wide_are_refused() {
        let kernels = Kernels { device: Arc::new(crate::dry::Dry::default()), dtype: Dtype::F32 };
        let attend = |dim| {
            let shape = Shape { query: 1, key: 1, dim };
            kernels.decode_attention(0, 0, 0, 0, 0, 1, shape, 1, 1.0).map_err(|e| e.to_string())
        };
        assert_eq!(attend(256), Ok(()));
        let refused = "decode_attention failed on dry run: a head has 258 numbers, the most is 256";
        assert_eq!(attend(258), Err(refused.to_owned()));
    }
}
