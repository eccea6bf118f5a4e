//! A layer's four packed matrices, with or without an adapter beside them: `y = x W^T + s (x A^T) B^T`, and back.

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model::Config;

use super::device::{Gemm, Matrix};
use super::gradients::Gradients;
use super::kernels::Kernels;
use super::lora::{Adapter, Stack};
use super::weights::Weights;

/// A packed matrix of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// Queries, keys and values.
    Qkv,
    /// Attention's output.
    Output,
    /// Gate and up.
    GateUp,
    /// Down.
    Down,
}

impl Packed {
    /// All of a layer.
    pub const ALL: [Packed; 4] = [Packed::Qkv, Packed::Output, Packed::GateUp, Packed::Down];

    /// Names of its projections in [`grpo_lambda_decoder::lora::TARGETS`], and the columns each has in the output.
    pub fn projections(self, config: &Config) -> Vec<(&'static str, usize)> {
        let (d, h, f) = (config.head_dim, config.hidden_size, config.intermediate_size);
        let (q, kv) = (config.num_attention_heads * d, config.num_key_value_heads * d);
        match self {
            Packed::Qkv => vec![("q_proj", q), ("k_proj", kv), ("v_proj", kv)],
            Packed::Output => vec![("o_proj", h)],
            Packed::GateUp => vec![("gate_proj", f), ("up_proj", f)],
            Packed::Down => vec![("down_proj", h)],
        }
    }

    /// `(out, in)`.
    pub fn shape(self, config: &Config) -> (usize, usize) {
        let out = self.projections(config).iter().map(|(_, out)| out).sum();
        let inner = match self {
            Packed::Qkv | Packed::GateUp => config.hidden_size,
            Packed::Output => config.num_attention_heads * config.head_dim,
            Packed::Down => config.intermediate_size,
        };
        (out, inner)
    }
}

/// A matrix product, unless it is of nothing.
pub(super) fn product(k: &Kernels, gemm: Gemm) -> Result<(), DeviceError> {
    if gemm.m == 0 || gemm.n == 0 || gemm.k == 0 || gemm.batch == 0 {
        return Ok(());
    }
    k.device.gemm(&gemm)
}

/// What a decoder computes with: weights, and an adapter beside them or none.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// The weights.
    pub weights: &'a Weights,
    /// The adapter.
    pub adapter: Option<&'a Adapter>,
}

impl<'a> From<&'a Weights> for Network<'a> {
    fn from(weights: &'a Weights) -> Self {
        Network { weights, adapter: None }
    }
}

/// One adapted packed matrix: what its thin products have in common.
struct Thin<'a> {
    adapter: &'a Adapter,
    stack: &'a Stack,
    rank: usize,
    scale: f32,
    /// Columns of `x A^T`.
    width: usize,
    tokens: usize,
    /// `(out, in)` of the packed matrix.
    shape: (usize, usize),
    dtype: Dtype,
}

impl Thin<'_> {
    fn a(&self) -> Matrix {
        Matrix::new(self.adapter.tensors().at(self.stack.a), self.dtype, self.shape.1)
    }

    fn b(&self, i: usize) -> Matrix {
        Matrix::new(self.adapter.tensors().at(self.stack.parts[i].b), self.dtype, self.rank)
    }

    /// Columns of part `i` of `y`, which is as the packed output.
    fn y(&self, i: usize, y: u64) -> Matrix {
        let at = y + (self.stack.parts[i].column * self.dtype.bytes()) as u64;
        Matrix::new(at, self.dtype, self.shape.0)
    }

    /// Columns of part `i` of `u`, which is as `x A^T`.
    fn u(&self, i: usize, u: u64) -> Matrix {
        Matrix::new(u + (i * self.rank * self.dtype.bytes()) as u64, self.dtype, self.width)
    }

    fn x(&self, x: u64) -> Matrix {
        Matrix::new(x, self.dtype, self.shape.1)
    }

    /// `x A^T`, of all parts.
    fn shrink(&self, k: &Kernels, x: u64, u: u64) -> Result<(), DeviceError> {
        let size = (self.tokens, self.width, self.shape.1);
        product(k, Gemm::new(size, self.x(x), self.a().t(), self.u(0, u)))
    }
}

impl<'a> Network<'a> {
    /// Numbers of `T` that [`Network::project`] and its way back need as scratch for so many tokens.
    pub fn scratch(&self, tokens: usize) -> usize {
        self.adapter.map_or(0, |adapter| 2 * tokens * adapter.layout().widest())
    }

    /// The shape of the decoder.
    pub fn config(&self) -> &'a Config {
        self.weights.config()
    }

    fn matrix(&self, l: usize, packed: Packed) -> Matrix {
        let (_, inner) = packed.shape(self.config());
        self.weights.matrix(address(self.weights, l, packed), inner)
    }

    fn thin(&self, l: usize, packed: Packed, tokens: usize) -> Option<Thin<'a>> {
        let adapter = self.adapter?;
        let stack = adapter.layout().stack(l, packed)?;
        let settings = adapter.layout().settings();
        Some(Thin {
            adapter,
            stack,
            rank: settings.rank,
            scale: settings.scale() as f32,
            width: stack.parts.len() * settings.rank,
            tokens,
            shape: packed.shape(self.config()),
            dtype: self.weights.dtype(),
        })
    }

    /// `y = x W^T`, or `y += x W^T` to `add`, with the adapter's part and without bias: `x T[tokens][in]`, `y T[tokens][out]`.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "a product has two factors, a result and sizes")]
    pub fn project(
        &self,
        k: &Kernels,
        l: usize,
        packed: Packed,
        x: u64,
        tokens: usize,
        y: u64,
        add: bool,
        scratch: u64,
    ) -> Result<(), DeviceError> {
        let (out, inner) = packed.shape(self.config());
        let (x_, y_) = (self.weights.matrix(x, inner), self.weights.matrix(y, out));
        let gemm = Gemm::new((tokens, out, inner), x_, self.matrix(l, packed).t(), y_);
        product(k, if add { gemm.accumulate() } else { gemm })?;
        if let Some(thin) = self.thin(l, packed, tokens) {
            thin.shrink(k, x, scratch)?;
            for (i, part) in thin.stack.parts.iter().enumerate() {
                let size = (tokens, part.out, thin.rank);
                let gemm = Gemm::new(size, thin.u(i, scratch), thin.b(i).t(), thin.y(i, y));
                product(k, Gemm { alpha: thin.scale, ..gemm }.accumulate())?;
            }
        }
        Ok(())
    }

    /// Adds the gradients of what is trained of this matrix: `dy^T x` and the sums of `dy` to those of `W` and its bias, or those of
    /// the adapter. Leaves in `scratch` what [`Network::project_back`] reads there.
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the projection")]
    pub(super) fn project_gradients(
        &self,
        k: &Kernels,
        l: usize,
        packed: Packed,
        x: u64,
        dy: u64,
        tokens: usize,
        gradients: &Gradients,
        scratch: u64,
    ) -> Result<(), DeviceError> {
        let (out, inner) = packed.shape(self.config());
        if let Gradients::Weights(d) = gradients {
            let (x, dy_) = (self.weights.matrix(x, inner), self.weights.matrix(dy, out));
            let dw = Matrix::new(address(d, l, packed), Dtype::F32, inner);
            product(k, Gemm::new((out, inner, tokens), dy_.t(), x, dw).accumulate())?;
            let db = bias(d, l, packed);
            if db != 0 {
                k.column_sum(dy, db, tokens as u32, out as u32)?;
            }
        }
        let Some(thin) = self.thin(l, packed, tokens) else { return Ok(()) };
        let (u, du) = (scratch, self.du(&thin, scratch));
        for (i, part) in thin.stack.parts.iter().enumerate() {
            let gemm = Gemm::new((tokens, thin.rank, part.out), thin.y(i, dy), thin.b(i), thin.u(i, du));
            product(k, Gemm { alpha: thin.scale, ..gemm })?;
        }
        if let Gradients::Adapter(d) = gradients {
            thin.shrink(k, x, u)?;
            for (i, part) in thin.stack.parts.iter().enumerate() {
                let db = Matrix::new(d.tensors().at(part.b), Dtype::F32, thin.rank);
                let gemm = Gemm::new((part.out, thin.rank, tokens), thin.y(i, dy).t(), thin.u(i, u), db);
                product(k, Gemm { alpha: thin.scale, ..gemm }.accumulate())?;
            }
            let da = Matrix::new(d.tensors().at(thin.stack.a), Dtype::F32, inner);
            let size = (thin.width, inner, tokens);
            product(k, Gemm::new(size, thin.u(0, du).t(), thin.x(x), da).accumulate())?;
        }
        Ok(())
    }

    /// The second half of the scratch.
    fn du(&self, thin: &Thin, scratch: u64) -> u64 {
        scratch + (thin.tokens * thin.width * thin.dtype.bytes()) as u64
    }

    /// `dx = dy W`, with the adapter's part, after [`Network::project_gradients`].
    ///
    /// # Errors
    /// When the device fails.
    #[expect(clippy::too_many_arguments, reason = "as the projection")]
    pub(super) fn project_back(
        &self,
        k: &Kernels,
        l: usize,
        packed: Packed,
        dy: u64,
        tokens: usize,
        dx: u64,
        scratch: u64,
    ) -> Result<(), DeviceError> {
        let (out, inner) = packed.shape(self.config());
        let (dy, dx_) = (self.weights.matrix(dy, out), self.weights.matrix(dx, inner));
        product(k, Gemm::new((tokens, inner, out), dy, self.matrix(l, packed), dx_))?;
        if let Some(thin) = self.thin(l, packed, tokens) {
            let du = thin.u(0, self.du(&thin, scratch));
            product(k, Gemm::new((tokens, inner, thin.width), du, thin.a(), thin.x(dx)).accumulate())?;
        }
        Ok(())
    }
}

/// Address of a packed matrix.
fn address(weights: &Weights, l: usize, packed: Packed) -> u64 {
    match packed {
        Packed::Qkv => weights.qkv(l),
        Packed::Output => weights.output(l),
        Packed::GateUp => weights.gate_up(l),
        Packed::Down => weights.down(l),
    }
}

/// Address of its bias, 0 if it has none.
fn bias(weights: &Weights, l: usize, packed: Packed) -> u64 {
    match packed {
        Packed::Qkv => weights.qkv_bias(l),
        Packed::Output => weights.output_bias(l),
        Packed::GateUp => weights.gate_up_bias(l),
        Packed::Down => weights.down_bias(l),
    }
}
