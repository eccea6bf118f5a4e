//! A layer of the decoder over whole rows, forwards and backwards, in the order of [`grpo_lambda_decoder::model::decoder`].

use grpo_lambda_decoder::device::DeviceError;

use super::attention::{self, Heads};
use super::batch::{Batch, floats, room};
use super::device::Buffer;
use super::gradients::Gradients;
use super::kernels::{Kernels, Shape};
use super::projection::{Network, Packed};

/// Everything of a layer that its backward pass reads and that is not cheap to compute again. `T[tokens][..]` but the scales.
#[derive(Debug)]
pub(super) struct Activations {
    /// The stream at its entry, and the scale of its norm.
    input: Buffer,
    input_scale: Buffer,
    /// Queries, keys and values, turned, head-major by row: see [`Heads::joined`].
    heads: Buffer,
    /// Attention's output, token-major.
    attended: Buffer,
    /// The stream after attention, and the scale of its norm.
    middle: Buffer,
    middle_scale: Buffer,
    /// Without bias.
    gate_up: Buffer,
}

impl Activations {
    /// The stream at the layer's entry alone.
    pub(super) fn into_input(self) -> Buffer {
        self.input
    }
}

/// What the layers of a pass have in common.
pub(super) struct Pass<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) network: Network<'a>,
    pub(super) batch: &'a Batch,
    /// Cosines and sines of every position there is.
    pub(super) table: u64,
    /// What the scores of attention may take.
    pub(super) score_bytes: usize,
    /// See [`Network::scratch`].
    scratch: Buffer,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        kernels: &'a Kernels,
        network: Network<'a>,
        batch: &'a Batch,
        table: u64,
        score_bytes: usize,
    ) -> Result<Self, DeviceError> {
        let scratch = room(kernels, "workspace", network.scratch(batch.tokens()))?;
        Ok(Pass { kernels, network, batch, table, score_bytes, scratch })
    }

    fn tokens(&self) -> usize {
        self.batch.tokens()
    }

    /// Room for a stream of this width.
    fn stream(&self, width: usize) -> Result<Buffer, DeviceError> {
        room(self.kernels, "activations", self.tokens() * width)
    }

    fn width(&self) -> usize {
        self.network.config().hidden_size
    }

    fn shape(&self) -> Shape {
        let heads = self.network.config().heads();
        Shape { query: heads.query as u32, key: heads.key as u32, dim: heads.dim as u32 }
    }

    fn heads(&self, at: &Buffer) -> Heads {
        Heads::joined(at.address(), self.tokens(), self.shape(), self.kernels.dtype)
    }

    /// `x` normed into `y`, and unless it is 0, `scale`.
    fn norm(&self, x: &Buffer, weight: u64, y: &Buffer, scale: u64) -> Result<(), DeviceError> {
        let (tokens, h) = (self.tokens() as u32, self.width() as u32);
        let eps = self.network.config().rms_norm_eps as f32;
        self.kernels.rms_norm(x.address(), weight, y.address(), scale, tokens, h, eps)
    }

    /// Adds to `dx` the gradient of the norm of `x`, and to `dweight`, if it is trained, that of its weight.
    fn norm_backward(
        &self,
        (x, scale): (&Buffer, &Buffer),
        weight: u64,
        dy: &Buffer,
        dx: &Buffer,
        dweight: Option<u64>,
    ) -> Result<(), DeviceError> {
        let (k, tokens, h) = (self.kernels, self.tokens() as u32, self.width() as u32);
        let (x, scale, dy) = (x.address(), scale.address(), dy.address());
        if let Some(dweight) = dweight {
            k.rms_norm_weight(x, scale, dy, dweight, tokens, h)?;
        }
        k.rms_norm_backward(x, scale, weight, dy, dx.address(), tokens, h)
    }

    fn project(
        &self,
        l: usize,
        packed: Packed,
        x: &Buffer,
        y: &Buffer,
        add: bool,
    ) -> Result<(), DeviceError> {
        let (x, y, scratch) = (x.address(), y.address(), self.scratch.address());
        self.network.project(self.kernels, l, packed, x, self.tokens(), y, add, scratch)
    }

    fn gradients(
        &self,
        l: usize,
        packed: Packed,
        x: &Buffer,
        dy: &Buffer,
        to: &Gradients,
    ) -> Result<(), DeviceError> {
        let (x, dy, scratch) = (x.address(), dy.address(), self.scratch.address());
        self.network.project_gradients(self.kernels, l, packed, x, dy, self.tokens(), to, scratch)
    }

    fn back(&self, l: usize, packed: Packed, dy: &Buffer, dx: &Buffer) -> Result<(), DeviceError> {
        let (dy, dx, scratch) = (dy.address(), dx.address(), self.scratch.address());
        self.network.project_back(self.kernels, l, packed, dy, self.tokens(), dx, scratch)
    }

    /// `x + y W^T + bias`, the stream after a projection back to its width.
    fn residual(
        &self,
        l: usize,
        packed: Packed,
        x: &Buffer,
        y: &Buffer,
        bias: u64,
    ) -> Result<Buffer, DeviceError> {
        let out = self.stream(self.width())?;
        self.kernels.device.copy(out.address(), x.address(), out.bytes())?;
        self.project(l, packed, y, &out, true)?;
        if bias != 0 {
            self.kernels.add_bias(out.address(), bias, self.tokens() as u32, self.width() as u32)?;
        }
        Ok(out)
    }

    /// Queries, keys and values of a layer, turned.
    pub(super) fn turned(&self, activations: &Activations) -> Heads {
        self.heads(&activations.heads)
    }

    /// Layer `l`: from the stream at its entry to the stream at its exit.
    pub(super) fn layer(&self, l: usize, input: Buffer) -> Result<(Buffer, Activations), DeviceError> {
        let activations = self.activations(l, input)?;
        let gated = self.gated(l, &activations.gate_up)?;
        let bias = self.network.weights.down_bias(l);
        let output = self.residual(l, Packed::Down, &activations.middle, &gated, bias)?;
        Ok((output, activations))
    }

    /// Layer `l` but for its last projection: all that the backward pass needs.
    pub(super) fn activations(&self, l: usize, input: Buffer) -> Result<Activations, DeviceError> {
        let (k, weights, shape, at) = (self.kernels, self.network.weights, self.shape(), self.batch.at());
        let (h, f) = (self.width(), self.network.config().intermediate_size);
        let heads = self.network.config().heads();

        let normed = self.stream(h)?;
        let input_scale = floats(k, "activations", self.tokens())?;
        self.norm(&input, weights.input_norm(l), &normed, input_scale.address())?;
        let qkv = self.stream(heads.stride())?;
        self.project(l, Packed::Qkv, &normed, &qkv, false)?;
        let split = self.stream(heads.stride())?;
        let Heads { q, k: key, v } = self.heads(&split);
        k.split_heads(qkv.address(), weights.qkv_bias(l), self.table, at, shape, q, key, v)?;
        drop(qkv);
        let out = self.stream(heads.width())?;
        let spans = self.batch.spans();
        attention::forward(k, shape, spans, self.heads(&split), out.address(), self.score_bytes)?;
        let attended = self.stream(heads.width())?;
        k.merge_heads(out.address(), at, shape, attended.address())?;
        drop(out);
        let middle = self.residual(l, Packed::Output, &input, &attended, weights.output_bias(l))?;

        let middle_scale = floats(k, "activations", self.tokens())?;
        self.norm(&middle, weights.middle_norm(l), &normed, middle_scale.address())?;
        let gate_up = self.stream(2 * f)?;
        self.project(l, Packed::GateUp, &normed, &gate_up, false)?;
        Ok(Activations { input, input_scale, heads: split, attended, middle, middle_scale, gate_up })
    }

    fn gated(&self, l: usize, gate_up: &Buffer) -> Result<Buffer, DeviceError> {
        let f = self.network.config().intermediate_size;
        let gated = self.stream(f)?;
        let bias = self.network.weights.gate_up_bias(l);
        let tokens = self.tokens() as u32;
        self.kernels.swiglu(gate_up.address(), bias, gated.address(), tokens, f as u32)?;
        Ok(gated)
    }

    /// [`Pass::layer`] backwards: `dx` holds the gradient at its exit, then at its entry where that is `wanted`.
    pub(super) fn layer_backward(
        &self,
        l: usize,
        activations: Activations,
        dx: &Buffer,
        gradients: &Gradients,
        wanted: bool,
    ) -> Result<(), DeviceError> {
        let Activations { input, input_scale, heads: split, attended, middle, middle_scale, gate_up } =
            activations;
        let (k, weights, shape, at) = (self.kernels, self.network.weights, self.shape(), self.batch.at());
        let (h, f) = (self.width(), self.network.config().intermediate_size);
        let heads = self.network.config().heads();
        let dense = gradients.dense();

        let gated = self.gated(l, &gate_up)?;
        self.gradients(l, Packed::Down, &gated, dx, gradients)?;
        drop(gated);
        let dgated = self.stream(f)?;
        self.back(l, Packed::Down, dx, &dgated)?;
        let (bias, tokens) = (weights.gate_up_bias(l), self.tokens() as u32);
        let address = gate_up.address();
        k.swiglu_backward(address, bias, dgated.address(), address, tokens, f as u32)?;
        drop(dgated);
        let normed = self.stream(h)?;
        self.norm(&middle, weights.middle_norm(l), &normed, 0)?;
        self.gradients(l, Packed::GateUp, &normed, &gate_up, gradients)?;
        // Not read any more: the gradient at the norm's exit takes its place.
        let dnormed = normed;
        self.back(l, Packed::GateUp, &gate_up, &dnormed)?;
        drop(gate_up);
        let dweight = dense.map(|d| d.middle_norm(l));
        self.norm_backward((&middle, &middle_scale), weights.middle_norm(l), &dnormed, dx, dweight)?;
        drop((middle, middle_scale, dnormed));

        self.gradients(l, Packed::Output, &attended, dx, gradients)?;
        let dattended = attended;
        self.back(l, Packed::Output, dx, &dattended)?;
        let dout = self.stream(heads.width())?;
        k.merge_heads_backward(dattended.address(), at, shape, dout.address())?;
        drop(dattended);
        let dsplit = self.stream(heads.stride())?;
        let (of, d) = (self.heads(&split), self.heads(&dsplit));
        let spans = self.batch.spans();
        attention::backward(k, shape, spans, of, dout.address(), d, self.score_bytes)?;
        drop(dout);
        let dqkv = split;
        k.split_heads_backward(d.q, d.k, d.v, self.table, at, shape, dqkv.address())?;
        drop(dsplit);
        let normed = self.stream(h)?;
        self.norm(&input, weights.input_norm(l), &normed, 0)?;
        self.gradients(l, Packed::Qkv, &normed, &dqkv, gradients)?;
        if !wanted && dense.is_none() {
            return Ok(());
        }
        let dnormed = normed;
        self.back(l, Packed::Qkv, &dqkv, &dnormed)?;
        let dweight = dense.map(|d| d.input_norm(l));
        self.norm_backward((&input, &input_scale), weights.input_norm(l), &dnormed, dx, dweight)
    }
}
