//! The readable reference: the decoder as a candle graph that candle differentiates, on the CPU and for small inputs.
//!
//! It interprets the program of the same [`Layer`] as [`super::Decoder`] with the plain candle operations of [`plain`]. Stock candle layers are
//! avoided: their fused kernels have no backward pass and cut the gradient silently.

pub mod plain;

use std::collections::BTreeMap;

use candle_core::{Device, Result, Tensor, Var, WithDType};

use super::config::layer::{Linear, NormPart, Op};
use super::config::{Activation, EMBEDDING, FINAL_NORM, Layer, ModelConfig, parameter};
use super::ops::Real;
use super::rows::Rows;
use super::weights::{self, Parameters};

/// A number that both candle and the decoder know.
pub trait Number: Real + WithDType {}
impl<T: Real + WithDType> Number for T {}

/// A decoder whose parameters are candle variables.
pub struct Graph {
    config: ModelConfig,
    layer: Layer,
    variables: BTreeMap<String, Var>,
}

impl Graph {
    /// A decoder of this shape with copies of these parameters.
    ///
    /// # Errors
    /// When candle cannot make the tensors.
    pub fn new<T: Number>(config: ModelConfig, parameters: &Parameters<T>) -> Result<Self> {
        let variable = |(name, t): (&String, &weights::Tensor<T>)| {
            let tensor = Tensor::from_slice(&t.data, t.shape.as_slice(), &Device::Cpu)?;
            Ok((name.clone(), Var::from_tensor(&tensor)?))
        };
        let variables = parameters.iter().map(variable).collect::<Result<_>>()?;
        Ok(Self { layer: config.layer(), config, variables })
    }

    /// Log-probability of every scored token, rows end to end: one differentiable vector.
    ///
    /// # Errors
    /// When candle fails.
    pub fn log_probs(&self, rows: &Rows, temperature: f64) -> Result<Tensor> {
        let x = self.stream(rows)?;
        let (places, targets) = rows.targets();
        let places: Vec<u32> = places.into_iter().map(|p| p as u32).collect();
        let last = x.index_select(&Tensor::new(places, &Device::Cpu)?, 0)?;
        let hidden = self.final_norm(&last)?;
        plain::log_prob(&hidden, self.get(weights::head_name(&self.config))?, &targets, temperature)
    }

    /// The logits of every token, `[tokens, vocabulary]`.
    ///
    /// # Errors
    /// When candle fails.
    pub fn logits(&self, rows: &Rows) -> Result<Tensor> {
        let hidden = self.final_norm(&self.stream(rows)?)?;
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
        let store = (logps * Tensor::new(slopes, &Device::Cpu)?)?.sum_all()?.backward()?;
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

    fn final_norm(&self, x: &Tensor) -> Result<Tensor> {
        plain::norm(x, &[(1, self.get(FINAL_NORM)?)], self.config.rms_norm_eps)
    }

    /// `x W^T + b` of every projection, side by side.
    fn linear(&self, x: &Tensor, l: usize, linear: &Linear) -> Result<Tensor> {
        let mut parts = Vec::with_capacity(linear.projections.len());
        for p in &linear.projections {
            let y = x.matmul(&self.get(&parameter(l, &p.weight()))?.t()?)?;
            parts.push(match p.bias {
                true => y.broadcast_add(self.get(&parameter(l, &p.bias()))?)?,
                false => y,
            });
        }
        Tensor::cat(&parts, 1)
    }

    /// The stream after the last layer.
    fn stream(&self, rows: &Rows) -> Result<Tensor> {
        let tokens = Tensor::new(rows.tokens(), &Device::Cpu)?;
        let x = self.get(EMBEDDING)?.index_select(&tokens, 0)?;
        (0..self.config.num_hidden_layers).try_fold(x, |x, l| self.layer(&x, l, rows))
    }

    /// The stream after layer `l`.
    fn layer(&self, x: &Tensor, l: usize, rows: &Rows) -> Result<Tensor> {
        let heads = self.layer.heads;
        let (mut stream, mut value) = (x.clone(), x.clone());
        for op in &self.layer.program {
            value = match op {
                Op::Norm(norm) => {
                    let weight =
                        |part: &NormPart| Ok((part.groups, self.get(&parameter(l, &part.weight()))?));
                    let parts = norm.parts.iter().map(weight).collect::<Result<Vec<_>>>()?;
                    plain::norm(&value, &parts, self.config.rms_norm_eps)?
                }
                Op::Linear(linear) => self.linear(&value, l, linear)?,
                Op::Rotate => plain::rope(&value, heads, &rows.positions(), &self.config.frequencies())?,
                Op::Attend => plain::attention(&value, heads, rows.offsets())?,
                Op::Gate { activation: Activation::Silu, .. } => plain::swiglu(&value)?,
                Op::Add => {
                    stream = (stream + value)?;
                    stream.clone()
                }
            };
        }
        Ok(stream)
    }
}
