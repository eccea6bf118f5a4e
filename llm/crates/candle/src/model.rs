//! A decoder on candle's tensors: it interprets the program of the [`Layer`] that the CPU's decoder interprets.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor, Var, bail};
use grpo_lambda_decoder::lora::{LoraSettings, a_name, b_name};
use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::config::layer::{Linear, NormPart, Op};
use grpo_lambda_decoder::model::config::{Activation, EMBEDDING, FINAL_NORM, Layer, parameter};
use grpo_lambda_decoder::model::weights::{self, Parameters};

use crate::ops::{self, Rotations};

/// The outputs of a layer's heads, from the queries, keys and values of tokens.
pub type Attend<'a> = dyn FnMut(&Tensor) -> Result<Tensor> + 'a;

/// A shape with the tensors of its parameters, and of an adapter to them if there is one.
#[derive(Clone)]
pub struct Model {
    pub(crate) config: ModelConfig,
    layer: Layer,
    pub(crate) device: Device,
    pub(crate) dtype: DType,
    /// By name; those of the adapter among them.
    tensors: BTreeMap<String, Tensor>,
    /// The scale of the adapter.
    scale: f64,
}

impl Model {
    /// A model of this shape with copies of these parameters, rounded to `dtype`.
    pub fn new<T: candle_core::WithDType>(
        config: &ModelConfig,
        parameters: &Parameters<T>,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let (layer, tensors) = (config.layer(), BTreeMap::new());
        let (config, device) = (config.clone(), device.clone());
        let mut model = Self { config, layer, device, dtype, tensors, scale: 1.0 };
        for (name, tensor) in parameters {
            model.set(name, &tensor.data, &tensor.shape)?;
        }
        Ok(model)
    }

    /// A copy with this adapter next to its weights, unmerged: in bf16 the sum of the two would lose the adapter's smallest changes.
    pub(crate) fn with_adapter(mut self, settings: &LoraSettings, adapter: &Parameters<f32>) -> Result<Self> {
        self.scale = settings.scale();
        for (name, tensor) in adapter {
            self.set(name, &tensor.data, &tensor.shape)?;
        }
        Ok(self)
    }

    /// A copy without an adapter.
    pub(crate) fn without_adapter(&self) -> Self {
        let mut model = self.clone();
        model.tensors.retain(|name, _| !name.contains(".lora_"));
        model
    }

    /// Sets a tensor to these numbers, rounded to the model's type.
    pub(crate) fn set<T: candle_core::WithDType>(
        &mut self,
        name: &str,
        numbers: &[T],
        shape: &[usize],
    ) -> Result<()> {
        let tensor = Tensor::from_slice(numbers, shape, &self.device)?.to_dtype(self.dtype)?;
        self.tensors.insert(name.to_owned(), tensor);
        Ok(())
    }

    /// The tensor of a parameter.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        self.tensors.get(name).map_or_else(|| bail!("parameter `{name}` is missing"), Ok)
    }

    /// All tensors in `f32`, by name.
    pub(crate) fn read(&self) -> Result<Parameters<f32>> {
        let read = |(name, tensor): (&String, &Tensor)| {
            let data = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
            Ok((name.clone(), weights::Tensor { shape: tensor.dims().to_vec(), data }))
        };
        self.tensors.iter().map(read).collect()
    }

    /// The output matrix.
    pub(crate) fn head(&self) -> Result<&Tensor> {
        self.get(weights::head_name(&self.config))
    }

    /// A copy in which copies of these tensors are variables, which candle differentiates by; and the variables, by name.
    pub fn tracking(&self, names: impl Fn(&str) -> bool) -> Result<(Self, BTreeMap<String, Var>)> {
        let (mut model, mut variables) = (self.clone(), BTreeMap::new());
        for (name, tensor) in self.tensors.iter().filter(|(name, _)| names(name)) {
            let variable = Var::from_tensor(tensor)?;
            model.tensors.insert(name.clone(), variable.as_tensor().clone());
            variables.insert(name.clone(), variable);
        }
        Ok((model, variables))
    }

    /// The rotations of tokens at these positions.
    pub(crate) fn rotations(&self, positions: &[u32]) -> Result<Rotations> {
        Rotations::new(positions, &self.config.frequencies(), self.dtype, &self.device)
    }

    /// The embeddings of tokens.
    pub fn embed(&self, tokens: &Tensor) -> Result<Tensor> {
        self.get(EMBEDDING)?.index_select(tokens, 0)
    }

    /// The hidden states that the output matrix reads, from the stream after the last layer.
    pub fn final_norm(&self, x: &Tensor) -> Result<Tensor> {
        ops::norm(x, &[(1, self.get(FINAL_NORM)?)], self.config.rms_norm_eps)
    }

    /// The stream after layer `l`.
    pub fn layer(
        &self,
        l: usize,
        x: &Tensor,
        rotations: &Rotations,
        attend: &mut Attend<'_>,
    ) -> Result<Tensor> {
        let (mut stream, mut value) = (x.clone(), x.clone());
        for op in &self.layer.program {
            value = match op {
                Op::Norm(norm) => {
                    let weight =
                        |part: &NormPart| Ok((part.groups, self.get(&parameter(l, &part.weight()))?));
                    let parts = norm.parts.iter().map(weight).collect::<Result<Vec<_>>>()?;
                    ops::norm(&value, &parts, self.config.rms_norm_eps)?
                }
                Op::Linear(linear) => self.linear(&value, l, linear)?,
                Op::Rotate => ops::rotate(&value, self.layer.heads, rotations)?,
                Op::Attend => attend(&value)?,
                Op::Gate { activation: Activation::Silu, .. } => ops::swiglu(&value)?,
                Op::Add => {
                    stream = (stream + value)?;
                    stream.clone()
                }
            };
        }
        Ok(stream)
    }

    /// `x W^T + b` of every projection side by side, with the adapter's `s (x A^T) B^T`.
    fn linear(&self, x: &Tensor, l: usize, linear: &Linear) -> Result<Tensor> {
        let mut parts = Vec::with_capacity(linear.projections.len());
        for p in &linear.projections {
            let bias = p.bias.then(|| self.get(&parameter(l, &p.bias()))).transpose()?;
            let mut y = ops::linear(x, self.get(&parameter(l, &p.weight()))?, bias)?;
            let module = parameter(l, p.name);
            if let (Some(a), Some(b)) =
                (self.tensors.get(&a_name(&module)), self.tensors.get(&b_name(&module)))
            {
                y = (y + (ops::linear(&ops::linear(x, a, None)?, b, None)? * self.scale)?)?;
            }
            parts.push(y);
        }
        Tensor::cat(&parts, 1)
    }
}
