//! A layer of the decoder over whole rows, forwards and backwards, in the order of [`grpo_lambda_decoder::model::decoder`].

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::config::{Activation, NormPlacement};

use super::array::Array;
use super::attention::{Attended, Attention};
use super::batch::Batch;
use super::gradients::Gradients;
use super::heads::{self, Heads, SavedHeads, head_shape};
use super::kernels::{AddBias, Kernels, RmsNorm, RmsNormBackward, RmsNormWeight, Swiglu, SwigluBackward};
use super::layout::Packed;
use super::ledger::ACTIVATIONS;
use super::projection::{Factors, Network, Projection};
use super::ptr::{Ptr, PtrMut, Real};
use super::weights::Weights;

/// The arrays of a layer that its backward pass reads and that are expensive to recompute.
#[derive(Debug)]
pub(super) struct Activations {
    attention: AttentionActivations,
    mlp: MlpActivations,
}

#[derive(Debug)]
struct AttentionActivations {
    /// The hidden state at the layer's entry, and the scale of its norm.
    input: Array<Real>,
    scale: Array<f32>,
    heads: SavedHeads,
    attended: Attended,
}

#[derive(Debug)]
struct MlpActivations {
    /// The hidden state after attention, and the scale of its norm.
    input: Array<Real>,
    scale: Array<f32>,
    /// Gate and up, without bias.
    gate_up: Array<Real>,
}

impl Activations {
    /// The part that a tape keeps.
    pub(super) fn on_tape(mut self) -> Self {
        self.attention.heads = self.attention.heads.on_tape();
        self
    }

    /// The hidden state at the layer's entry alone.
    pub(super) fn into_input(self) -> Array<Real> {
        self.attention.input
    }
}

/// A norm of the forward pass, as its gradients need it.
#[derive(Clone, Copy)]
struct Normed {
    x: Ptr<Real>,
    scale: Ptr<f32>,
    /// Offset of its weight in the layout.
    weight: u64,
}

/// The layers of a pass.
pub(super) struct Pass<'a> {
    kernels: &'a Kernels,
    network: Network<'a>,
    batch: &'a Batch,
    /// Cosines and sines of every position there is.
    table: Ptr<f32>,
    attention: Attention<'a>,
    /// An array of [`Network::scratch`] elements.
    scratch: Array<Real>,
}

impl<'a> Pass<'a> {
    /// The layers of `network` over a batch.
    pub(super) fn new(
        kernels: &'a Kernels,
        network: Network<'a>,
        batch: &'a Batch,
        table: Ptr<f32>,
    ) -> Result<Self, DeviceError> {
        let scratch = kernels.array("workspace", network.scratch(batch.tokens()))?;
        let heads = head_shape(network.config());
        let (segments, tokens) = (batch.segments(), batch.tokens());
        let attention = Attention { kernels, heads, segments, tokens };
        Ok(Pass { kernels, network, batch, table, attention, scratch })
    }

    fn weights(&self) -> &'a Weights {
        self.network.weights
    }

    fn tokens(&self) -> u32 {
        self.batch.tokens() as u32
    }

    /// Rows of this width, one a token.
    fn rows(&self, width: usize) -> Result<Array<Real>, DeviceError> {
        self.kernels.array(ACTIVATIONS, self.batch.tokens() * width)
    }

    /// One number a token.
    fn column(&self) -> Result<Array<f32>, DeviceError> {
        self.kernels.array(ACTIVATIONS, self.batch.tokens())
    }

    /// Width of the hidden state.
    fn width(&self) -> usize {
        self.network.config().hidden_size
    }

    fn heads(&self, l: usize) -> Heads<'_> {
        let Pass { kernels, batch, table, .. } = *self;
        Heads { kernels, weights: self.weights(), l, batch, table }
    }

    fn projection(&self, l: usize, packed: Packed) -> Projection<'_> {
        let Pass { kernels, network, batch, scratch, .. } = self;
        Projection { kernels, network: *network, layer: l, packed, tokens: batch.tokens(), scratch }
    }

    /// `x` normed into `y`; `weight` is an offset in the layout.
    fn norm(
        &self,
        x: Ptr<Real>,
        weight: u64,
        y: PtrMut<Real>,
        scale: Option<PtrMut<f32>>,
    ) -> Result<(), DeviceError> {
        self.kernels.launch(RmsNorm {
            x,
            weight: self.weights().at(weight),
            y,
            scale,
            tokens: self.tokens(),
            width: self.width() as u32,
            eps: self.network.config().rms_norm_eps as f32,
        })
    }

    /// Adds to `dx` the gradient of a norm, and to the gradient of its weight, if it is trained.
    fn norm_backward(
        &self,
        normed: Normed,
        dy: Ptr<Real>,
        dx: PtrMut<Real>,
        gradients: &Gradients,
    ) -> Result<(), DeviceError> {
        let (Normed { x, scale, weight }, tokens, width) = (normed, self.tokens(), self.width() as u32);
        if let Some(to) = gradients.dense() {
            let dweight = to.at_mut(weight);
            self.kernels.launch(RmsNormWeight { x, scale, dy, dweight, tokens, width })?;
        }
        let weight = self.weights().at(weight);
        self.kernels.launch(RmsNormBackward { x, scale, weight, dy, dx, tokens, width })
    }

    /// `x + y W^T + bias`, the hidden state after a projection back to its width.
    fn residual(
        &self,
        l: usize,
        packed: Packed,
        x: &Array<Real>,
        y: Ptr<Real>,
    ) -> Result<Array<Real>, DeviceError> {
        let out = self.rows(self.width())?;
        out.copy_from(x)?;
        self.projection(l, packed).forward(y, out.ptr_mut(), true)?;
        if let Some(bias) = self.bias(l, packed) {
            let (rows, width) = (self.tokens(), self.width() as u32);
            self.kernels.launch(AddBias { x: out.ptr_mut(), bias, rows, width })?;
        }
        Ok(out)
    }

    /// The bias of a packed matrix, if it has one.
    fn bias(&self, l: usize, packed: Packed) -> Option<Ptr<Real>> {
        heads::bias(self.weights(), l, packed)
    }

    /// Queries, keys and values of layer `l`, as attention reads them.
    pub(super) fn qkv(&self, l: usize, activations: Activations) -> Result<Array<Real>, DeviceError> {
        Ok(self.heads(l).recompute(activations.attention.heads)?.rotated)
    }

    /// Layer `l`: from the hidden state at its entry to that at its exit.
    pub(super) fn layer(
        &self,
        l: usize,
        input: Array<Real>,
    ) -> Result<(Array<Real>, Activations), DeviceError> {
        let activations = self.activations(l, input)?;
        let mlp = &activations.mlp;
        let gated = self.gated(l, mlp.gate_up.ptr())?;
        let output = self.residual(l, Packed::Down, &mlp.input, gated.ptr())?;
        Ok((output, activations))
    }

    /// Layer `l` but for its last projection: the arrays of the backward pass.
    pub(super) fn activations(&self, l: usize, input: Array<Real>) -> Result<Activations, DeviceError> {
        assert_eq!(self.network.config().norm_placement, NormPlacement::Pre, "no kernels for other places");
        let layer = self.weights().layer(l);
        let normed = self.rows(self.width())?;
        let scale = self.column()?;
        self.norm(input.ptr(), layer.attention_norm, normed.ptr_mut(), Some(scale.ptr_mut()))?;
        let projected = self.heads(l).array()?;
        self.projection(l, Packed::Qkv).forward(normed.ptr(), projected.ptr_mut(), false)?;
        let heads = self.heads(l).forward(projected)?;
        let attended = self.attention.forward(heads.rotated.ptr())?;
        let middle = self.residual(l, Packed::Output, &input, attended.out.ptr())?;
        let attention = AttentionActivations { input, scale, heads: SavedHeads::All(heads), attended };

        let scale = self.column()?;
        self.norm(middle.ptr(), layer.mlp_norm, normed.ptr_mut(), Some(scale.ptr_mut()))?;
        let gate_up = self.rows(2 * self.network.config().intermediate_size)?;
        self.projection(l, Packed::GateUp).forward(normed.ptr(), gate_up.ptr_mut(), false)?;
        Ok(Activations { attention, mlp: MlpActivations { input: middle, scale, gate_up } })
    }

    fn gated(&self, l: usize, gate_up: Ptr<Real>) -> Result<Array<Real>, DeviceError> {
        let Activation::Silu = self.network.config().activation;
        let width = self.network.config().intermediate_size;
        let gated = self.rows(width)?;
        let (bias, tokens) = (self.bias(l, Packed::GateUp), self.tokens());
        self.kernels.launch(Swiglu { gate_up, bias, y: gated.ptr_mut(), tokens, width: width as u32 })?;
        Ok(gated)
    }

    /// [`Pass::layer`] backwards: `dx` holds the gradient at its exit, then at its entry where that is `needed`.
    pub(super) fn layer_backward(
        &self,
        l: usize,
        activations: Activations,
        dx: &Array<Real>,
        gradients: &Gradients,
        needed: bool,
    ) -> Result<(), DeviceError> {
        self.mlp_backward(l, activations.mlp, dx, gradients)?;
        self.attention_backward(l, activations.attention, dx, gradients, needed)
    }

    fn mlp_backward(
        &self,
        l: usize,
        activations: MlpActivations,
        dx: &Array<Real>,
        gradients: &Gradients,
    ) -> Result<(), DeviceError> {
        let MlpActivations { input, scale, gate_up } = activations;
        let width = self.network.config().intermediate_size;
        let gated = self.gated(l, gate_up.ptr())?;
        let down = self.projection(l, Packed::Down);
        down.gradients(Factors { x: gated.ptr(), dy: dx.ptr() }, gradients)?;
        drop(gated);
        let dgated = self.rows(width)?;
        down.backward(dx.ptr(), dgated.ptr_mut())?;
        self.kernels.launch(SwigluBackward {
            gate_up: gate_up.ptr(),
            bias: self.bias(l, Packed::GateUp),
            dy: dgated.ptr(),
            dgate_up: gate_up.ptr_mut(),
            tokens: self.tokens(),
            width: width as u32,
        })?;
        drop(dgated);
        let weight = self.weights().layer(l).mlp_norm;
        let normed = self.rows(self.width())?;
        self.norm(input.ptr(), weight, normed.ptr_mut(), None)?;
        let projection = self.projection(l, Packed::GateUp);
        projection.gradients(Factors { x: normed.ptr(), dy: gate_up.ptr() }, gradients)?;
        // Not read any more: the gradient at the norm's exit takes its place.
        let dnormed = normed;
        projection.backward(gate_up.ptr(), dnormed.ptr_mut())?;
        drop(gate_up);
        let normed = Normed { x: input.ptr(), scale: scale.ptr(), weight };
        self.norm_backward(normed, dnormed.ptr(), dx.ptr_mut(), gradients)
    }

    fn attention_backward(
        &self,
        l: usize,
        activations: AttentionActivations,
        dx: &Array<Real>,
        gradients: &Gradients,
        needed: bool,
    ) -> Result<(), DeviceError> {
        let AttentionActivations { input, scale, heads, attended } = activations;
        let output = self.projection(l, Packed::Output);
        output.gradients(Factors { x: attended.out.ptr(), dy: dx.ptr() }, gradients)?;
        let dqkv = self.attended_backward(l, heads, attended, dx, gradients)?;
        let weight = self.weights().layer(l).attention_norm;
        let normed = self.rows(self.width())?;
        self.norm(input.ptr(), weight, normed.ptr_mut(), None)?;
        let projection = self.projection(l, Packed::Qkv);
        projection.gradients(Factors { x: normed.ptr(), dy: dqkv.ptr() }, gradients)?;
        if !needed && gradients.dense().is_none() {
            return Ok(());
        }
        let dnormed = normed;
        projection.backward(dqkv.ptr(), dnormed.ptr_mut())?;
        let normed = Normed { x: input.ptr(), scale: scale.ptr(), weight };
        self.norm_backward(normed, dnormed.ptr(), dx.ptr_mut(), gradients)
    }

    /// The gradient of the projected queries, keys and values.
    fn attended_backward(
        &self,
        l: usize,
        heads: SavedHeads,
        attended: Attended,
        dx: &Array<Real>,
        gradients: &Gradients,
    ) -> Result<Array<Real>, DeviceError> {
        let dout = self.rows(self.network.config().heads().width())?;
        self.projection(l, Packed::Output).backward(dx.ptr(), dout.ptr_mut())?;
        let heads = self.heads(l).recompute(heads)?;
        let dqkv = self.heads(l).array()?;
        self.attention.backward(heads.rotated.ptr(), &attended, dout.ptr(), dqkv.ptr_mut())?;
        drop((attended, dout));
        self.heads(l).backward(&dqkv, &heads, gradients)?;
        Ok(dqkv)
    }
}
