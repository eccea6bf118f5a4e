//! Kernels of query and key heads: their rotation and their norms.

use grpo_lambda_decoder::model::ops::norm::{self, Groups};
use grpo_lambda_decoder::model::ops::{attention, rope};

use super::array::TestArray;
use super::case::{Case, Checker, Result, largest};
use super::{Extent, HEADS};
use crate::heads::RotaryTable;
use crate::kernels::{HeadNorm, HeadNormBackward, HeadNormWeight, HeadShape, RotateHeads};
use crate::ptr::Real;

const EPS: f32 = 1e-6;
/// The last position of a long row.
pub(super) const FAR: usize = 32_768;

pub(super) fn check(checker: &mut Checker) {
    for heads in checker.extent.sizes(&HEADS) {
        for how in [(true, false), (true, true), (false, false), (false, true)] {
            rotate(checker, heads, &[3, 1, 6], how);
        }
        norms(checker, heads, 10);
    }
    // More heads than the blocks take at once.
    norms(checker, HeadShape { query: 2, key: 1, dim: 2 }, 2500);
    if checker.extent != Extent::Odd {
        rotate(checker, HeadShape { query: 1, key: 1, dim: 16 }, &[FAR + 1], (true, true));
    }
}

fn norms(checker: &mut Checker, heads: HeadShape, tokens: usize) {
    for biased in [false, true] {
        for in_place in [false, true] {
            let what =
                format!("{}{}", if biased { "biased" } else { "" }, if in_place { " in place" } else { "" });
            checker.case("head_norm", label(heads, &what), |c| norm_of(c, heads, tokens, (biased, in_place)));
        }
        for kernel in ["head_norm_backward", "head_norm_weight"] {
            let what = if biased { "biased" } else { "" };
            checker.case(kernel, label(heads, what), |c| norm_backward(c, heads, tokens, (biased, true)));
        }
    }
    let frozen = |c: &mut Case<'_>| norm_backward(c, heads, tokens, (false, false));
    checker.case("head_norm_backward", label(heads, "frozen"), frozen);
}

pub(super) fn label(heads: HeadShape, what: &str) -> String {
    format!("{} + {} heads of {} {what}", heads.query, heads.key, heads.dim)
}

/// Heads as the CPU has them.
pub(super) fn on_the_cpu(heads: HeadShape) -> attention::Heads {
    attention::Heads { query: heads.query as usize, key: heads.key as usize, dim: heads.dim as usize }
}

/// The angle of every pair of numbers of a head, per position.
pub(super) fn frequencies(dim: u32) -> Vec<f64> {
    let half = dim / 2;
    (0..half).map(|i| 1e4f64.powf(-f64::from(i) / f64::from(half))).collect()
}

/// Tokens of rows end to end: rotated with their bias, or rotated back; in place or not.
fn rotate(checker: &mut Checker, heads: HeadShape, rows: &[usize], (biased, in_place): (bool, bool)) {
    let what =
        format!("{}{}", if biased { "biased" } else { "back" }, if in_place { " in place" } else { "" });
    checker.case("rotate_heads", label(heads, &what), |c| {
        let stride = on_the_cpu(heads).stride();
        let positions: Vec<u32> = rows.iter().flat_map(|n| 0..*n as u32).collect();
        let longest = rows.iter().copied().max().unwrap_or(0);
        let (qkv, bias) = (c.random::<Real>(positions.len() * stride)?, c.random::<Real>(stride)?);
        let table = RotaryTable::new(c.device(), longest, &frequencies(heads.dim))?;
        let at = c.integers(positions.iter().map(|p| *p as usize))?;
        let other = c.blank(if in_place { 0 } else { qkv.initial.len() })?;
        let out = if in_place { &qkv } else { &other };
        c.launch(RotateHeads {
            qkv: qkv.ptr(),
            bias: biased.then(|| bias.ptr()),
            table: table.ptr(),
            positions: at.ptr(),
            out: out.out(),
            tokens: positions.len() as u32,
            heads,
            sign: if biased { 1.0 } else { -1.0 },
        })?;
        let mut expected = qkv.initial.clone();
        if biased {
            norm::add_bias(&mut expected, &bias.initial);
        }
        let turns = rope::Table::new(&frequencies(heads.dim), longest);
        let rotated = on_the_cpu(heads).rotated();
        rope::rotate(&mut expected, stride, rotated, &positions, &turns, !biased);
        c.near(out, largest(&expected), &expected)
    });
}

/// The groups of a token that are normed, by these weights for query and key heads.
fn groups(heads: HeadShape, weight: &[f64]) -> Groups<'_, f64> {
    let (query, key) = weight.split_at(heads.dim as usize);
    Groups::new(on_the_cpu(heads).stride(), [(heads.query as usize, query), (heads.key as usize, key)])
}

/// A fused projection with its bias and the weights of its norms, and what the CPU makes of it.
struct Projection {
    qkv: TestArray<Real>,
    bias: Option<TestArray<Real>>,
    weight: TestArray<Real>,
    /// The numbers with their bias.
    x: Vec<f64>,
    normed: Vec<f64>,
    scale: Vec<f64>,
}

impl Projection {
    fn new(c: &mut Case<'_>, heads: HeadShape, qkv: TestArray<Real>, biased: bool) -> Result<Self> {
        let stride = on_the_cpu(heads).stride();
        let bias = if biased { Some(c.random::<Real>(stride)?) } else { None };
        let weight = c.random::<Real>(2 * heads.dim as usize)?;
        let mut x = qkv.initial.clone();
        bias.iter().for_each(|bias| norm::add_bias(&mut x, &bias.initial));
        let groups = groups(heads, &weight.initial);
        let (mut normed, mut scale) = (x.clone(), vec![0.0; x.len() / stride * groups.count()]);
        norm::forward(&groups, &x, f64::from(EPS), &mut normed, &mut scale);
        Ok(Projection { qkv, bias, weight, x, normed, scale })
    }
}

fn norm_of(c: &mut Case<'_>, heads: HeadShape, tokens: usize, (biased, in_place): (bool, bool)) -> Result {
    let qkv = c.rows(tokens, on_the_cpu(heads).stride())?;
    let p = Projection::new(c, heads, qkv, biased)?;
    let other = c.blank(p.x.len())?;
    let out = if in_place { &p.qkv } else { &other };
    c.launch(HeadNorm {
        qkv: p.qkv.ptr(),
        bias: p.bias.as_ref().map(TestArray::ptr),
        weight: p.weight.ptr(),
        out: out.out(),
        tokens: tokens as u32,
        heads,
        eps: EPS,
    })?;
    // The sum of a number and its bias is rounded before it is scaled.
    c.near(out, largest(&p.normed) + largest(&p.scale), &p.normed)
}

/// The gradients of the projection and, if they are `trained`, of the weights.
fn norm_backward(
    c: &mut Case<'_>,
    heads: HeadShape,
    tokens: usize,
    (biased, trained): (bool, bool),
) -> Result {
    let (stride, width) = (on_the_cpu(heads).stride(), 2 * heads.dim as usize);
    let qkv = c.random::<Real>(tokens * stride)?;
    let p = Projection::new(c, heads, qkv, biased)?;
    let dqkv = c.random::<Real>(tokens * stride)?;
    let rows = HeadNormBackward::parts(tokens as u32, heads);
    let (parts, dweight) = (c.blank::<f32>(rows as usize * width)?, c.random::<f32>(width)?);
    c.launch(HeadNormBackward {
        qkv: p.qkv.ptr(),
        bias: p.bias.as_ref().map(TestArray::ptr),
        weight: p.weight.ptr(),
        dqkv: dqkv.out(),
        parts: trained.then(|| parts.out()),
        tokens: tokens as u32,
        heads,
        eps: EPS,
    })?;
    let groups = groups(heads, &p.weight.initial);
    if trained {
        let (to, wide) = (dweight.out(), width as u32);
        c.launch(HeadNormWeight { parts: parts.ptr(), dweight: to, rows, width: wide })?;
        let (mut expected, query) = (dweight.initial.clone(), heads.query as usize);
        let (queries, keys) = expected.split_at_mut(heads.dim as usize);
        norm::backward_weight(&groups, 0..query, &p.x, &p.scale, &dqkv.initial, queries);
        norm::backward_weight(&groups, query..groups.count(), &p.x, &p.scale, &dqkv.initial, keys);
        c.near(&dweight, 1.0 + (tokens * query) as f64, &expected)?;
    }
    let mut expected = dqkv.initial.clone();
    norm::backward(&groups, &p.x, &p.scale, &mut expected);
    c.near(&dqkv, largest(&expected) + largest(&p.scale) * largest(&p.weight.initial), &expected)
}
