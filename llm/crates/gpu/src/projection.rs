//! A layer's four packed matrices, with or without an adapter next to them: `y = x W^T + s (x A^T) B^T`, and back.

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::ModelConfig;

use super::array::Array;
use super::gemm::{Gemm, Matrix};
use super::gradients::Gradients;
use super::kernels::{ColumnSum, Kernels};
use super::layout::Packed;
use super::lora::{Adapter, PackedAdapter};
use super::ptr::{Access, Ptr, PtrMut, Real};
use super::weights::Weights;

/// The weights of a decoder, and an adapter next to them or none.
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

impl<'a> Network<'a> {
    /// Elements that the projections of so many tokens need as [`Projection::scratch`].
    pub(super) fn scratch(&self, tokens: usize) -> usize {
        self.adapter.map_or(0, |adapter| 2 * tokens * adapter.layout().widest())
    }

    /// The shape of the decoder.
    pub(crate) fn config(&self) -> &'a ModelConfig {
        self.weights.config()
    }

    fn low_rank(&self, l: usize, packed: Packed, tokens: usize) -> Option<LowRank<'a>> {
        let adapter = self.adapter?;
        let packed_adapter = adapter.layout().packed(l, packed)?;
        let settings = adapter.layout().settings();
        Some(LowRank {
            adapter,
            packed: packed_adapter,
            rank: settings.rank,
            scale: settings.scale() as f32,
            width: packed_adapter.projections.len() * settings.rank,
            tokens,
            shape: packed.shape(self.config()),
        })
    }
}

/// One adapted packed matrix.
struct LowRank<'a> {
    adapter: &'a Adapter,
    packed: &'a PackedAdapter,
    rank: usize,
    scale: f32,
    /// Columns of `u = x A^T`.
    width: usize,
    tokens: usize,
    /// `(out, in)` of the packed matrix.
    shape: (usize, usize),
}

impl LowRank<'_> {
    fn a(&self) -> Matrix {
        Matrix::new(self.adapter.tensors().at(self.packed.a), self.shape.1)
    }

    fn b(&self, i: usize) -> Matrix {
        Matrix::new(self.adapter.tensors().at(self.packed.projections[i].b), self.rank)
    }

    /// The columns of projection `i` in `y`, which is as the packed output.
    fn y<A: Access>(&self, i: usize, y: Ptr<Real, A>) -> Matrix<A> {
        Matrix::new(y.offset(self.packed.projections[i].column), self.shape.0)
    }

    /// The columns of projection `i` in `u`, which is as `x A^T`.
    fn u<A: Access>(&self, i: usize, u: Ptr<Real, A>) -> Matrix<A> {
        Matrix::new(u.offset(i * self.rank), self.width)
    }

    fn x<A: Access>(&self, x: Ptr<Real, A>) -> Matrix<A> {
        Matrix::new(x, self.shape.1)
    }

    /// `u = x A^T`, of all projections.
    fn shrink(&self, k: &Kernels, x: Ptr<Real>, u: PtrMut<Real>) -> Result<(), DeviceError> {
        let size = (self.tokens, self.width, self.shape.1);
        k.gemm(Gemm::new(size, self.x(x), self.a().t(), self.u(0, u)))
    }
}

/// A packed matrix of a layer, applied to so many tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Projection<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) network: Network<'a>,
    pub(super) layer: usize,
    pub(super) packed: Packed,
    pub(super) tokens: usize,
    /// An array of [`Network::scratch`] elements.
    pub(super) scratch: &'a Array<Real>,
}

/// The factors of a weight's gradient, `dy^T x`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    /// `[tokens, in]`.
    pub(super) x: Ptr<Real>,
    /// `[tokens, out]`.
    pub(super) dy: Ptr<Real>,
}

impl<'a> Projection<'a> {
    /// `(out, in)`.
    fn shape(&self) -> (usize, usize) {
        self.packed.shape(self.network.config())
    }

    fn weight(&self) -> Matrix {
        let weights = self.network.weights;
        Matrix::new(weights.at(weights.layer(self.layer).matrix(self.packed)), self.shape().1)
    }

    fn low_rank(&self) -> Option<LowRank<'a>> {
        self.network.low_rank(self.layer, self.packed, self.tokens)
    }

    /// `y = x W^T`, or `y += x W^T` to `accumulate`, with the adapter's part and without bias: `x [tokens, in]`, `y [tokens, out]`.
    pub(super) fn forward(&self, x: Ptr<Real>, y: PtrMut<Real>, accumulate: bool) -> Result<(), DeviceError> {
        let (k, (out, inner)) = (self.kernels, self.shape());
        let size = (self.tokens, out, inner);
        let gemm = Gemm::new(size, Matrix::new(x, inner), self.weight().t(), Matrix::new(y, out));
        k.gemm(if accumulate { gemm.accumulate() } else { gemm })?;
        let Some(low_rank) = self.low_rank() else { return Ok(()) };
        low_rank.shrink(k, x, self.scratch.ptr_mut())?;
        for (i, projection) in low_rank.packed.projections.iter().enumerate() {
            let size = (self.tokens, projection.out, low_rank.rank);
            let u = low_rank.u(i, self.scratch.ptr());
            let gemm = Gemm::new(size, u, low_rank.b(i).t(), low_rank.y(i, y));
            k.gemm(Gemm { alpha: low_rank.scale, ..gemm }.accumulate())?;
        }
        Ok(())
    }

    /// Adds `dy^T x` and the sums of `dy` to the gradients of `W` and its bias, or the adapter's gradients to those, whichever is trained.
    /// [`Projection::backward`] reads the scratch after that.
    pub(super) fn gradients(&self, factors: Factors, to: &Gradients) -> Result<(), DeviceError> {
        match to {
            Gradients::Weights(to) => self.weight_gradients(factors, to)?,
            Gradients::Adapter(_) => {}
        }
        let Some(low_rank) = self.low_rank() else { return Ok(()) };
        for (i, projection) in low_rank.packed.projections.iter().enumerate() {
            let size = (self.tokens, low_rank.rank, projection.out);
            let du = low_rank.u(i, self.du(&low_rank));
            let gemm = Gemm::new(size, low_rank.y(i, factors.dy), low_rank.b(i), du);
            self.kernels.gemm(Gemm { alpha: low_rank.scale, ..gemm })?;
        }
        match to {
            Gradients::Weights(_) => Ok(()),
            Gradients::Adapter(to) => self.adapter_gradients(&low_rank, factors, to),
        }
    }

    fn weight_gradients(&self, factors: Factors, to: &Weights<f32>) -> Result<(), DeviceError> {
        let (k, (out, inner), layer) = (self.kernels, self.shape(), to.layer(self.layer));
        let (x, dy) = (Matrix::new(factors.x, inner), Matrix::new(factors.dy, out));
        let dw = Matrix::new(to.at_mut(layer.matrix(self.packed)), inner);
        k.gemm(Gemm::new((out, inner, self.tokens), dy.t(), x, dw).accumulate())?;
        let Some(bias) = layer.bias(self.packed) else { return Ok(()) };
        let (rows, width) = (self.tokens as u32, out as u32);
        k.launch(ColumnSum { x: factors.dy, out: to.at_mut(bias), rows, width })
    }

    fn adapter_gradients(
        &self,
        low_rank: &LowRank,
        factors: Factors,
        to: &Adapter<f32>,
    ) -> Result<(), DeviceError> {
        let (k, to) = (self.kernels, to.tensors());
        low_rank.shrink(k, factors.x, self.scratch.ptr_mut())?;
        for (i, projection) in low_rank.packed.projections.iter().enumerate() {
            let db = Matrix::new(to.at_mut(projection.b), low_rank.rank);
            let size = (projection.out, low_rank.rank, self.tokens);
            let (dy, u) = (low_rank.y(i, factors.dy), low_rank.u(i, self.scratch.ptr()));
            let gemm = Gemm::new(size, dy.t(), u, db);
            k.gemm(Gemm { alpha: low_rank.scale, ..gemm }.accumulate())?;
        }
        let inner = self.shape().1;
        let da = Matrix::new(to.at_mut(low_rank.packed.a), inner);
        let du = low_rank.u(0, self.du(low_rank).read());
        let size = (low_rank.width, inner, self.tokens);
        k.gemm(Gemm::new(size, du.t(), low_rank.x(factors.x), da).accumulate())
    }

    /// The second half of the scratch: the gradient of `u`.
    fn du(&self, low_rank: &LowRank) -> PtrMut<Real> {
        self.scratch.at_mut(self.tokens * low_rank.width)
    }

    /// `dx = dy W`, with the adapter's part, after [`Projection::gradients`].
    pub(super) fn backward(&self, dy: Ptr<Real>, dx: PtrMut<Real>) -> Result<(), DeviceError> {
        let (k, (out, inner)) = (self.kernels, self.shape());
        let size = (self.tokens, inner, out);
        k.gemm(Gemm::new(size, Matrix::new(dy, out), self.weight(), Matrix::new(dx, inner)))?;
        let Some(low_rank) = self.low_rank() else { return Ok(()) };
        let du = low_rank.u(0, self.du(&low_rank).read());
        let size = (self.tokens, inner, low_rank.width);
        k.gemm(Gemm::new(size, du, low_rank.a(), low_rank.x(dx)).accumulate())
    }
}
