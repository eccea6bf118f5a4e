//! The same decoder as a candle graph, differentiated by candle: the readable reference, and the way to other devices.
//!
//! One switch, [`Implementation`], chooses how its five operations are done: in plain candle operations, which say what is
//! meant and differentiate themselves, or by the hand-written ones of [`super::ops`] as candle custom operations. On the CPU
//! [`super::Decoder`] calls the latter directly, without a graph between them; a device other than the CPU is a `cuda_fwd` of
//! the custom operations away, and until then runs the plain ones. Stock candle layers with fused kernels are avoided
//! throughout: they have no backward pass and cut the gradient without a word.

mod fused;
mod plain;

use std::collections::BTreeMap;

use candle_core::{Device, Result, Tensor, Var, WithDType};

use super::config::{Config, EMBEDDING, FINAL_NORM, parameter};
use super::ops::Real;
use super::rows::Rows;
use super::weights::{self, Parameters};

/// How the operations are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// In plain candle operations.
    Plain,
    /// By hand-written forward and backward passes (CPU).
    Fused,
}

/// A number that both candle and the hand-written operations know.
pub trait Number: Real + WithDType {}
impl<T: Real + WithDType> Number for T {}

/// A decoder whose parameters are candle variables.
pub struct Graph {
    config: Config,
    variables: BTreeMap<String, Var>,
    implementation: Implementation,
    device: Device,
}

impl Graph {
    /// A decoder of this shape with copies of these parameters on `device`.
    ///
    /// # Errors
    /// When candle cannot make the tensors.
    pub fn new<T: Number>(
        config: Config,
        parameters: &Parameters<T>,
        device: &Device,
        implementation: Implementation,
    ) -> Result<Self> {
        let variable = |(name, t): (&String, &weights::Tensor<T>)| {
            let tensor = Tensor::from_slice(&t.data, t.shape.as_slice(), device)?;
            Ok((name.clone(), Var::from_tensor(&tensor)?))
        };
        let variables = parameters.iter().map(variable).collect::<Result<_>>()?;
        Ok(Self { config, variables, implementation, device: device.clone() })
    }

    /// Log-probability of every scored token, rows end to end: one differentiable vector.
    ///
    /// # Errors
    /// When candle fails.
    pub fn log_probs(&self, rows: &Rows, temperature: f64) -> Result<Tensor> {
        let x = self.stream(rows)?;
        let (places, targets) = rows.targets();
        let places: Vec<u32> = places.into_iter().map(|p| p as u32).collect();
        let last = x.index_select(&Tensor::new(places, &self.device)?, 0)?;
        let hidden = self.norm(&last, FINAL_NORM)?;
        let head = self.get(weights::head_name(&self.config))?;
        match self.implementation {
            Implementation::Plain => plain::log_prob(&hidden, head, &targets, temperature),
            Implementation::Fused => hidden.apply_op2(head, fused::LogProb { targets, temperature }),
        }
    }

    /// The logits of every token, `[tokens, vocabulary]`.
    ///
    /// # Errors
    /// When candle fails.
    pub fn logits(&self, rows: &Rows) -> Result<Tensor> {
        let hidden = self.norm(&self.stream(rows)?, FINAL_NORM)?;
        hidden.matmul(&self.get(weights::head_name(&self.config))?.t()?)
    }

    /// The gradient of `sum slopes log_probs`, by name.
    ///
    /// # Errors
    /// When candle fails, or a parameter received no gradient.
    pub fn gradients<T: Number>(
        &self,
        rows: &Rows,
        temperature: f64,
        slopes: &[f64],
    ) -> Result<Parameters<T>> {
        let logps = self.log_probs(rows, temperature)?;
        let slopes: Vec<T> = slopes.iter().map(|&s| <T as Real>::from_f64(s)).collect();
        let store = (logps * Tensor::new(slopes, &self.device)?)?.sum_all()?.backward()?;
        let read = |(name, variable): (&String, &Var)| {
            let gradient = store
                .get(variable.as_tensor())
                .ok_or_else(|| candle_core::Error::Msg(format!("no gradient reached `{name}`")))?;
            let data = gradient.flatten_all()?.to_vec1::<T>()?;
            Ok((name.clone(), weights::Tensor { shape: variable.dims().to_vec(), data }))
        };
        self.variables.iter().map(read).collect()
    }

    fn get(&self, name: &str) -> Result<&Tensor> {
        let found = self.variables.get(name);
        found
            .map(Var::as_tensor)
            .ok_or_else(|| candle_core::Error::Msg(format!("parameter `{name}` is missing")))
    }

    fn norm(&self, x: &Tensor, weight: &str) -> Result<Tensor> {
        let (weight, eps) = (self.get(weight)?, self.config.rms_norm_eps);
        match self.implementation {
            Implementation::Plain => plain::rms_norm(x, weight, eps),
            Implementation::Fused => x.contiguous()?.apply_op2(weight, fused::RmsNorm { eps }),
        }
    }

    /// `x W^T + b`.
    fn linear(&self, x: &Tensor, layer: usize, name: &str) -> Result<Tensor> {
        let y = x.matmul(&self.get(&parameter(layer, &format!("{name}.weight")))?.t()?)?;
        match self.variables.get(&parameter(layer, &format!("{name}.bias"))) {
            Some(bias) => y.broadcast_add(bias.as_tensor()),
            None => Ok(y),
        }
    }

    /// The stream after the last layer.
    fn stream(&self, rows: &Rows) -> Result<Tensor> {
        let heads = self.config.heads();
        let (offsets, positions) = (rows.offsets(), rows.positions());
        let mut x = self.get(EMBEDDING)?.index_select(&Tensor::new(rows.tokens(), &self.device)?, 0)?;
        for l in 0..self.config.num_hidden_layers {
            let normed = self.norm(&x, &parameter(l, "input_layernorm.weight"))?;
            let part = |name: &str| self.linear(&normed, l, name);
            let qkv = Tensor::cat(
                &[part("self_attn.q_proj")?, part("self_attn.k_proj")?, part("self_attn.v_proj")?],
                1,
            )?;
            let frequencies = self.config.frequencies();
            let attended = match self.implementation {
                Implementation::Plain => {
                    let qkv = plain::rope(&qkv, heads, &positions, &frequencies)?;
                    plain::attention(&qkv, heads, offsets)?
                }
                Implementation::Fused => {
                    let qkv =
                        qkv.apply_op1(fused::Rope { heads, positions: positions.clone(), frequencies })?;
                    qkv.apply_op1(fused::Attention { heads, offsets: offsets.to_vec() })?
                }
            };
            x = (x + self.linear(&attended, l, "self_attn.o_proj")?)?;
            let normed = self.norm(&x, &parameter(l, "post_attention_layernorm.weight"))?;
            let gate_up = Tensor::cat(
                &[self.linear(&normed, l, "mlp.gate_proj")?, self.linear(&normed, l, "mlp.up_proj")?],
                1,
            )?;
            let gated = match self.implementation {
                Implementation::Plain => plain::swiglu(&gate_up)?,
                Implementation::Fused => gate_up.apply_op1(fused::SwiGlu)?,
            };
            x = (x + self.linear(&gated, l, "mlp.down_proj")?)?;
        }
        Ok(x)
    }
}
