//! Kernels of the norms of query and key heads.

use super::super::array::TestArray;
use super::super::case::{Case, Checker, Result, Term};
use super::{biased_number, label, parts};
use crate::kernels::{HeadNorm, HeadNormBackward, HeadNormWeight, HeadShape};
use crate::ptr::Real;

const EPS: f32 = 1e-6;
/// Heads that a block works on at a time.
const LINES: usize = 8;

pub(super) fn check(checker: &mut Checker, s: HeadShape, tokens: usize) {
    for biased in [false, true] {
        forward(checker, s, tokens, biased);
        in_place(checker, s, tokens, biased);
        backward(checker, s, tokens, biased);
    }
    frozen(checker, s, tokens);
    weight(checker, s, tokens);
}

/// A fused projection with its bias and the weights of the norms.
struct Inputs {
    heads: (usize, usize, usize),
    tokens: usize,
    qkv: TestArray<Real>,
    bias: TestArray<Real>,
    biased: bool,
    weight: TestArray<Real>,
}

impl Inputs {
    fn new(c: &mut Case<'_>, s: HeadShape, tokens: usize, biased: bool) -> Result<Self> {
        let heads = parts(s);
        let width = (heads.0 + 2 * heads.1) * heads.2;
        let (qkv, bias, weight) = (c.reals(tokens * width)?, c.reals(width)?, c.reals(2 * heads.2)?);
        Ok(Inputs { heads, tokens, qkv, bias, biased, weight })
    }

    /// Such inputs with one NaN.
    fn with_nan(c: &mut Case<'_>, s: HeadShape, tokens: usize, biased: bool) -> Result<Self> {
        let inputs = Inputs::new(c, s, tokens, biased)?;
        let qkv = c.rows(tokens, inputs.width())?;
        Ok(Inputs { qkv, ..inputs })
    }

    fn width(&self) -> usize {
        (self.heads.0 + 2 * self.heads.1) * self.heads.2
    }

    /// The head of number `at` of the projection: its first number, and which norm it has, if any.
    fn head(&self, at: usize) -> (usize, Option<usize>) {
        let (query, key, dim) = self.heads;
        let h = at % self.width() / dim;
        (at - at % dim, (h < query + key).then_some(usize::from(h >= query)))
    }

    /// Number `at` of the projection plus its bias.
    fn x(&self, at: usize) -> Term {
        let (t, j) = (at / self.width(), at % self.width());
        biased_number(&self.qkv, self.biased.then_some(&self.bias), self.width(), t, j)
    }

    /// `1 / sqrt(mean x^2 + eps)` of every head of every token, values included.
    fn scales(&self) -> Vec<f64> {
        let dim = self.heads.2;
        let squares = |first: usize| (first..first + dim).map(|at| self.x(at).0.powi(2)).sum::<f64>();
        let heads = (0..self.qkv.initial.len()).step_by(dim);
        heads.map(|first| 1.0 / (squares(first) / dim as f64 + f64::from(EPS)).sqrt()).collect()
    }

    /// Every number after the norm.
    fn normed(&self) -> Vec<Term> {
        let (scales, dim) = (self.scales(), self.heads.2);
        let normed = |at: usize| {
            let x = self.x(at);
            let (first, Some(norm)) = self.head(at) else { return x };
            let factor = scales[at / dim] * self.weight.initial[norm * dim + at - first];
            (x.0 * factor, x.1 * factor.abs())
        };
        (0..self.qkv.initial.len()).map(normed).collect()
    }

    /// The gradient of every number from `dy`, and its term in the gradient of its norm's weight.
    fn gradients(&self, dy: &[f64]) -> Vec<(Term, f64)> {
        let (scales, dim) = (self.scales(), self.heads.2);
        let mut all = Vec::with_capacity(dy.len());
        for (first, r) in (0..dy.len()).step_by(dim).zip(scales) {
            let (_, Some(norm)) = self.head(first) else {
                all.extend(dy[first..first + dim].iter().map(|dy| ((*dy, 0.0), 0.0)));
                continue;
            };
            let weighed = |at: usize| self.weight.initial[norm * dim + at - first] * dy[at];
            let terms = (first..first + dim).map(|at| weighed(at) * self.x(at).0);
            let (sum, size) = terms.fold((0.0, 0.0), |(s, a), x| (s + x, a + x.abs()));
            let cubed = r * r * r / dim as f64;
            all.extend((first..first + dim).map(|at| {
                let (direct, x) = (r * weighed(at), self.x(at).0);
                let size = direct.abs() + x.abs() * cubed * size;
                ((direct - x * cubed * sum, size), dy[at] * x * r)
            }));
        }
        all
    }

    /// [`HeadNormBackward::parts`] from these.
    fn parts(&self, gradients: &[(Term, f64)], count: usize) -> Vec<Term> {
        let (query, key, dim) = self.heads;
        let mut sums = vec![(0.0, 0.0); count * 2 * dim];
        for (at, (_, dweight)) in gradients.iter().enumerate() {
            let (first, Some(norm)) = self.head(at) else { continue };
            let (heads, from) = if norm == 0 { (query, 0) } else { (key, query) };
            let line = at / self.width() * heads + first % self.width() / dim - from;
            let sum: &mut Term = &mut sums[(line / LINES % count * 2 + norm) * dim + at - first];
            *sum = (sum.0 + dweight, sum.1 + dweight.abs());
        }
        sums
    }

    fn kernel(&self, s: HeadShape, out: &TestArray<Real>) -> HeadNorm {
        HeadNorm {
            qkv: self.qkv.ptr(),
            bias: self.biased.then(|| self.bias.ptr()),
            weight: self.weight.ptr(),
            out: out.ptr_mut(),
            tokens: self.tokens as u32,
            heads: s,
            eps: EPS,
        }
    }

    fn backward(
        &self,
        s: HeadShape,
        dqkv: &TestArray<Real>,
        parts: Option<&TestArray<f32>>,
    ) -> HeadNormBackward {
        HeadNormBackward {
            qkv: self.qkv.ptr(),
            bias: self.biased.then(|| self.bias.ptr()),
            weight: self.weight.ptr(),
            dqkv: dqkv.ptr_mut(),
            parts: parts.map(TestArray::ptr_mut),
            tokens: self.tokens as u32,
            heads: s,
            eps: EPS,
        }
    }
}

/// Numbers of a head that a lane adds up.
fn serial(s: HeadShape) -> usize {
    s.dim.div_ceil(32) as usize
}

fn biased_label(s: HeadShape, biased: bool, what: &str) -> String {
    label(s, &format!("{}{what}", if biased { "biased " } else { "" }))
}

fn forward(checker: &mut Checker, s: HeadShape, tokens: usize, biased: bool) {
    checker.case("head_norm", biased_label(s, biased, ""), |c| {
        let inputs = Inputs::with_nan(c, s, tokens, biased)?;
        let out = c.blank(inputs.qkv.initial.len())?;
        c.launch(inputs.kernel(s, &out))?;
        let normed = inputs.normed();
        c.expect(&out, serial(s), |at| Some(normed[at]))?;
        c.untouched(&inputs.qkv)
    });
}

fn in_place(checker: &mut Checker, s: HeadShape, tokens: usize, biased: bool) {
    checker.case("head_norm", biased_label(s, biased, "in place"), |c| {
        let inputs = Inputs::new(c, s, tokens, biased)?;
        c.launch(inputs.kernel(s, &inputs.qkv))?;
        let normed = inputs.normed();
        c.expect(&inputs.qkv, serial(s), |at| Some(normed[at]))
    });
}

fn backward(checker: &mut Checker, s: HeadShape, tokens: usize, biased: bool) {
    checker.case("head_norm_backward", biased_label(s, biased, ""), |c| {
        let inputs = Inputs::new(c, s, tokens, biased)?;
        let dqkv = c.reals(inputs.qkv.initial.len())?;
        let (count, dim) = (HeadNormBackward::parts(tokens as u32, s) as usize, inputs.heads.2);
        let parts = c.blank(count * 2 * dim)?;
        c.launch(inputs.backward(s, &dqkv, Some(&parts)))?;
        let gradients = inputs.gradients(&dqkv.initial);
        let sums = inputs.parts(&gradients, count);
        c.expect(&dqkv, serial(s), |at| Some(gradients[at].0))?;
        let most = (tokens * inputs.heads.0.max(inputs.heads.1)).div_ceil(LINES * count);
        c.expect(&parts, serial(s) + most + LINES, |i| Some(sums[i]))?;
        c.untouched(&inputs.qkv)
    });
}

/// Backward without the gradient of the weights.
fn frozen(checker: &mut Checker, s: HeadShape, tokens: usize) {
    checker.case("head_norm_backward", label(s, "frozen"), |c| {
        let inputs = Inputs::with_nan(c, s, tokens, false)?;
        let dqkv = c.reals(inputs.qkv.initial.len())?;
        c.launch(inputs.backward(s, &dqkv, None))?;
        let gradients = inputs.gradients(&dqkv.initial);
        c.expect(&dqkv, serial(s), |at| Some(gradients[at].0))
    });
}

fn weight(checker: &mut Checker, s: HeadShape, tokens: usize) {
    let (rows, width) = (HeadNormBackward::parts(tokens as u32, s) as usize, 2 * s.dim as usize);
    checker.case("head_norm_weight", format!("{rows} parts of {width}"), |c| {
        let (parts, dweight): (TestArray<f32>, _) = (c.random(rows * width, 1.0)?, c.random(width, 1.0)?);
        c.launch(HeadNormWeight {
            parts: parts.ptr(),
            dweight: dweight.ptr_mut(),
            rows: rows as u32,
            width: width as u32,
        })?;
        c.expect(&dweight, rows.div_ceil(32) + 32, |j| {
            let column = (0..rows).map(|row| parts.initial[row * width + j]);
            let start = dweight.initial[j];
            Some(column.fold((start, start.abs()), |(sum, size), x| (sum + x, size + x.abs())))
        })
    });
}
