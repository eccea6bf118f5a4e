//! The five operations of [`crate::model::ops`] as candle custom operations, forward and backward.
//!
//! Each takes contiguous tensors of `f32` or `f64`. A device other than the CPU is one more forward function here.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp1, CustomOp2, DType, Layout, Result, Shape, Tensor, bail};

use super::Number;
use crate::model::ops::attention::{self, Heads};
use crate::model::ops::buffer::Pool;
use crate::model::ops::matmul::{Panels, pack_transposed, packed_len};
use crate::model::ops::{log_prob, norm, rope, swiglu};

/// The numbers of a contiguous tensor.
fn slice<'a, T: Number>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&T::cpu_storage_as_slice(storage)?[start..end]),
        None => bail!("a contiguous tensor is needed, found {layout:?}"),
    }
}

fn numbers<T: Number>(tensor: &Tensor) -> Result<Vec<T>> {
    tensor.flatten_all()?.to_vec1()
}

fn like<T: Number>(tensor: &Tensor, data: Vec<T>) -> Result<Tensor> {
    Tensor::from_vec(data, tensor.shape(), tensor.device())
}

/// Calls `$method::<f32 or f64>` by dtype.
macro_rules! by_dtype {
    ($dtype:expr, $self:ident.$method:ident($($argument:expr),*)) => {
        match $dtype {
            DType::F32 => $self.$method::<f32>($($argument),*),
            DType::F64 => $self.$method::<f64>($($argument),*),
            other => bail!("{} is computed in f32 or f64, not {other:?}", $self.name()),
        }
    };
}

/// [`norm`]: `x [tokens, width]`, `weight [width]`.
pub(super) struct RmsNorm {
    pub(super) eps: f64,
}

impl RmsNorm {
    fn forward<T: Number>(&self, x: &[T], weight: &[T]) -> (Vec<T>, Vec<T>) {
        let mut y = vec![T::ZERO; x.len()];
        let mut scale = vec![T::ZERO; x.len() / weight.len()];
        norm::forward(x, weight, <T as crate::model::ops::Real>::from_f64(self.eps), &mut y, &mut scale);
        (y, scale)
    }

    fn run<T: Number>(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (y, _) = self.forward::<T>(slice(s1, l1)?, slice(s2, l2)?);
        Ok((T::to_cpu_storage_owned(y), l1.shape().clone()))
    }

    fn back<T: Number>(
        &self,
        x: &Tensor,
        weight: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (xs, ws, dys) = (numbers::<T>(x)?, numbers::<T>(weight)?, numbers::<T>(dy)?);
        let (_, scale) = self.forward(&xs, &ws);
        let (mut dx, mut dw) = (vec![T::ZERO; xs.len()], vec![T::ZERO; ws.len()]);
        norm::backward(&xs, &scale, &ws, &dys, &mut dx);
        norm::backward_weight(&xs, &scale, &dys, &mut dw);
        Ok((Some(like(x, dx)?), Some(like(weight, dw)?)))
    }
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "fused-rms-norm"
    }
    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        by_dtype!(s1.dtype(), self.run(s1, l1, s2, l2))
    }
    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        by_dtype!(x.dtype(), self.back(x, weight, dy))
    }
}

/// [`rope`] on the fused projection.
pub(super) struct Rope {
    pub(super) heads: Heads,
    pub(super) positions: Vec<u32>,
    pub(super) frequencies: Vec<f64>,
}

impl Rope {
    fn turn<T: Number>(&self, x: &mut [T], back: bool) {
        let longest = self.positions.iter().max().map_or(0, |p| *p as usize + 1);
        let table = rope::Table::new(&self.frequencies, longest);
        let heads = self.heads.query + self.heads.key;
        rope::rotate(x, self.heads.stride(), heads, &self.positions, &table, back);
    }

    fn run<T: Number>(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut x = slice::<T>(storage, layout)?.to_vec();
        self.turn(&mut x, false);
        Ok((T::to_cpu_storage_owned(x), layout.shape().clone()))
    }

    fn back<T: Number>(&self, dy: &Tensor) -> Result<Option<Tensor>> {
        let mut dx = numbers::<T>(dy)?;
        self.turn(&mut dx, true);
        Ok(Some(like(dy, dx)?))
    }
}

impl CustomOp1 for Rope {
    fn name(&self) -> &'static str {
        "fused-rope"
    }
    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        by_dtype!(storage.dtype(), self.run(storage, layout))
    }
    fn bwd(&self, _: &Tensor, _: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        by_dtype!(dy.dtype(), self.back(dy))
    }
}

/// [`attention`] of ragged rows on the rotated projection.
pub(super) struct Attention {
    pub(super) heads: Heads,
    pub(super) offsets: Vec<usize>,
}

impl Attention {
    fn forward<T: Number>(&self, qkv: &[T]) -> (Vec<T>, Vec<T>) {
        let tokens = qkv.len() / self.heads.stride();
        let (mut out, mut log_sum) =
            (vec![T::ZERO; tokens * self.heads.width()], vec![T::ZERO; tokens * self.heads.query]);
        attention::forward(&Pool::default(), self.heads, qkv, &self.offsets, &mut out, &mut log_sum);
        (out, log_sum)
    }

    fn run<T: Number>(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (out, _) = self.forward::<T>(slice(storage, layout)?);
        Ok((T::to_cpu_storage_owned(out), Shape::from((layout.dims()[0], self.heads.width()))))
    }

    fn back<T: Number>(&self, qkv: &Tensor, dout: &Tensor) -> Result<Option<Tensor>> {
        let (x, dy) = (numbers::<T>(qkv)?, numbers::<T>(dout)?);
        let (out, log_sum) = self.forward(&x);
        let mut dx = vec![T::ZERO; x.len()];
        attention::backward(&Pool::default(), self.heads, &x, &self.offsets, &out, &log_sum, &dy, &mut dx);
        Ok(Some(like(qkv, dx)?))
    }
}

impl CustomOp1 for Attention {
    fn name(&self) -> &'static str {
        "fused-ragged-attention"
    }
    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        by_dtype!(storage.dtype(), self.run(storage, layout))
    }
    fn bwd(&self, qkv: &Tensor, _: &Tensor, dout: &Tensor) -> Result<Option<Tensor>> {
        by_dtype!(qkv.dtype(), self.back(qkv, dout))
    }
}

/// [`swiglu`] on gate and up side by side.
pub(super) struct SwiGlu;

impl SwiGlu {
    fn run<T: Number>(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (tokens, width) = (layout.dims()[0], layout.dims()[1] / 2);
        let mut y = vec![T::ZERO; tokens * width];
        swiglu::forward(slice::<T>(storage, layout)?, width, &mut y);
        Ok((T::to_cpu_storage_owned(y), Shape::from((tokens, width))))
    }

    fn back<T: Number>(&self, gate_up: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        let mut dx = numbers::<T>(gate_up)?;
        swiglu::backward(&mut dx, gate_up.dims()[1] / 2, &numbers::<T>(dy)?);
        Ok(Some(like(gate_up, dx)?))
    }
}

impl CustomOp1 for SwiGlu {
    fn name(&self) -> &'static str {
        "fused-swiglu"
    }
    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        by_dtype!(storage.dtype(), self.run(storage, layout))
    }
    fn bwd(&self, gate_up: &Tensor, _: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        by_dtype!(gate_up.dtype(), self.back(gate_up, dy))
    }
}

/// [`log_prob`] of the targets: `hidden [tokens, width]`, `head [vocabulary, width]`.
pub(super) struct LogProb {
    pub(super) targets: Vec<u32>,
    pub(super) temperature: f64,
}

impl LogProb {
    fn inverse<T: Number>(&self) -> T {
        crate::model::decoder::inverse(self.temperature)
    }

    /// The packed head, and the four numbers per token.
    fn forward<T: Number>(&self, hidden: &[T], head: &[T]) -> (Vec<T>, Vec<T>) {
        let width = hidden.len() / self.targets.len().max(1);
        let vocabulary = head.len() / width;
        let mut packed = vec![T::ZERO; packed_len(width, vocabulary)];
        pack_transposed(head, width, width, vocabulary, &mut packed);
        let mut saved = vec![T::ZERO; 4 * self.targets.len()];
        let panels = Panels::new(&packed, width, vocabulary);
        let (pool, it) = (Pool::default(), self.inverse());
        log_prob::forward(&pool, hidden, width, panels, vocabulary, &self.targets, it, false, &mut saved);
        (packed, saved)
    }

    fn run<T: Number>(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (_, saved) = self.forward::<T>(slice(s1, l1)?, slice(s2, l2)?);
        let logps = saved.chunks_exact(4).map(|s| s[0]).collect();
        Ok((T::to_cpu_storage_owned(logps), Shape::from(self.targets.len())))
    }

    fn back<T: Number>(
        &self,
        hidden: &Tensor,
        head: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (h, w, slopes) = (numbers::<T>(hidden)?, numbers::<T>(head)?, numbers::<T>(dy)?);
        let (packed, saved) = self.forward(&h, &w);
        let (vocabulary, width) = head.dims2()?;
        let (mut dh, mut dw) = (vec![T::ZERO; h.len()], vec![T::ZERO; w.len()]);
        let panels = Panels::new(&packed, width, vocabulary);
        let (pool, it) = (Pool::default(), self.inverse());
        let out = Some(dw.as_mut_slice());
        log_prob::backward(&pool, &h, width, panels, &w, &self.targets, it, &saved, &slopes, out, &mut dh);
        Ok((Some(like(hidden, dh)?), Some(like(head, dw)?)))
    }
}

impl CustomOp2 for LogProb {
    fn name(&self) -> &'static str {
        "fused-log-prob"
    }
    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        by_dtype!(s1.dtype(), self.run(s1, l1, s2, l2))
    }
    fn bwd(
        &self,
        hidden: &Tensor,
        head: &Tensor,
        _: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        by_dtype!(hidden.dtype(), self.back(hidden, head, dy))
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain;
    use super::*;
    use candle_core::{Device, Var};

    const HEADS: Heads = Heads { query: 4, key: 2, dim: 6 };
    const OFFSETS: [usize; 4] = [0, 5, 6, 43];

    fn variable(shape: (usize, usize), seed: usize) -> Var {
        let value = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as f64 / 400.0 - 1.26;
        let data: Vec<f64> = (0..shape.0 * shape.1).map(value).collect();
        Var::from_vec(data, shape, &Device::Cpu).unwrap()
    }

    /// A weighted sum of everything that comes out, so that no two outputs are interchangeable.
    fn weighed(y: &Tensor) -> Tensor {
        let weights: Vec<f64> = (0..y.elem_count()).map(|i| ((i * 31) % 17) as f64 / 8.0 - 1.0).collect();
        let weights = Tensor::from_vec(weights, y.shape(), y.device()).unwrap();
        (y * weights).unwrap().sum_all().unwrap()
    }

    /// Values and gradients of the fused operation: equal to the plain one's, and to central differences.
    fn check(variables: &[Var], fused: impl Fn() -> Result<Tensor>, plain: impl Fn() -> Result<Tensor>) {
        let (a, b) = (numbers::<f64>(&fused().unwrap()).unwrap(), numbers::<f64>(&plain().unwrap()).unwrap());
        assert_eq!(a.len(), b.len());
        a.iter().zip(&b).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "value {a} for {b}"));
        let (fused_store, plain_store) =
            (weighed(&fused().unwrap()).backward().unwrap(), weighed(&plain().unwrap()).backward().unwrap());
        for (v, variable) in variables.iter().enumerate() {
            let found = numbers::<f64>(fused_store.get(variable).unwrap()).unwrap();
            let expected = numbers::<f64>(plain_store.get(variable).unwrap()).unwrap();
            for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
                assert!((a - b).abs() < 1e-11, "argument {v}, gradient {i}: {a} for {b}");
            }
            let original = numbers::<f64>(variable).unwrap();
            for i in (0..original.len()).step_by(original.len() / 40 + 1) {
                let at = |shift: f64| {
                    let mut moved = original.clone();
                    moved[i] += shift;
                    variable.set(&like(variable, moved).unwrap()).unwrap();
                    let y = weighed(&fused().unwrap()).to_scalar::<f64>().unwrap();
                    variable.set(&like(variable, original.clone()).unwrap()).unwrap();
                    y
                };
                const H: f64 = 1e-3;
                let difference = (8.0 * (at(H) - at(-H)) - (at(2.0 * H) - at(-2.0 * H))) / (12.0 * H);
                assert!(
                    (found[i] - difference).abs() < 1e-8,
                    "argument {v}, {i}: {} for {difference}",
                    found[i]
                );
            }
        }
    }

    #[test]
    fn rms_norm_agrees_with_plain_candle_and_finite_differences() {
        let (x, w) = (variable((7, 20), 1), variable((1, 20), 2));
        let w = Var::from_tensor(&w.flatten_all().unwrap()).unwrap();
        check(
            &[x.clone(), w.clone()],
            || x.apply_op2(&w, RmsNorm { eps: 1e-3 }),
            || plain::rms_norm(&x, &w, 1e-3),
        );
    }

    #[test]
    fn rope_agrees_with_plain_candle_and_finite_differences() {
        let x = variable((5, HEADS.stride()), 3);
        let (positions, frequencies) = (vec![0, 1, 2, 900, 30_000], vec![1.0, 0.1, 0.01]);
        let fused = || {
            x.apply_op1(Rope { heads: HEADS, positions: positions.clone(), frequencies: frequencies.clone() })
        };
        check(std::slice::from_ref(&x), fused, || plain::rope(&x, HEADS, &positions, &frequencies));
    }

    #[test]
    fn ragged_attention_agrees_with_plain_candle_and_finite_differences() {
        let x = variable((43, HEADS.stride()), 4);
        let fused = || x.apply_op1(Attention { heads: HEADS, offsets: OFFSETS.to_vec() });
        check(std::slice::from_ref(&x), fused, || plain::attention(&x, HEADS, &OFFSETS));
    }

    #[test]
    fn swiglu_agrees_with_plain_candle_and_finite_differences() {
        let x = variable((6, 38), 5);
        check(std::slice::from_ref(&x), || x.apply_op1(SwiGlu), || plain::swiglu(&x));
    }

    #[test]
    fn log_prob_agrees_with_plain_candle_and_finite_differences() {
        let (x, w) = (variable((9, 12), 6), variable((50, 12), 7));
        let targets = vec![0, 49, 3, 3, 20, 31, 32, 33, 7];
        let fused = || x.apply_op2(&w, LogProb { targets: targets.clone(), temperature: 0.7 });
        check(&[x.clone(), w.clone()], fused, || plain::log_prob(&x, &w, &targets, 0.7));
    }
}
