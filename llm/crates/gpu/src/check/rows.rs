//! Kernels that work on rows of numbers: embeddings, norms, biases, the gate of the MLP.

use grpo_lambda_decoder::model::ops::norm::{self, Groups};
use grpo_lambda_decoder::model::ops::swiglu;

use super::array::TestArray;
use super::case::{Case, Checker, Result, largest};
use crate::batch::TokensById;
use crate::kernels::{
    AddBias, ColumnSum, Embed, EmbedBackward, GatherRows, RmsNorm, RmsNormBackward, RmsNormWeight,
    ScatterRows, Swiglu, SwigluBackward,
};
use crate::ptr::Real;

/// Rows and width: odd sizes, rows that end where a block's last round does, more rows than a block adds up at a time, then the width of a 1.5B
/// model in a few rows.
const SIZES: [(usize, usize); 8] =
    [(1, 1), (3, 7), VECTORS, (5, 36), (2, 1024), (2, 1027), (140, 33), (3, 1536)];
/// Rows of whole vectors, if all arrays are aligned.
const VECTORS: (usize, usize) = (2, 8);
const EPS: f32 = 1e-6;

type Body = fn(&mut Case<'_>, usize, usize) -> Result;

/// Each kernel with its variants.
const CASES: [(&str, &str, Body); 16] = [
    ("embed", "", embed),
    ("embed_backward", "", embed_backward),
    ("gather_rows", "", gather),
    ("scatter_rows", "", scatter),
    ("rms_norm", "", |c, n, width| rms_norm(c, n, width, (true, false))),
    ("rms_norm", " in place", |c, n, width| rms_norm(c, n, width, (true, true))),
    ("rms_norm", " no scale", |c, n, width| rms_norm(c, n, width, (false, false))),
    ("rms_norm_backward", "", rms_norm_backward),
    ("rms_norm_weight", "", rms_norm_weight),
    ("add_bias", "", add_bias),
    ("column_sum", "", column_sum),
    ("swiglu", "", |c, n, width| gate(c, n, width, false)),
    ("swiglu", " biased", |c, n, width| gate(c, n, width, true)),
    ("swiglu_backward", "", |c, n, width| gate_backward(c, n, width, (false, false))),
    ("swiglu_backward", " biased", |c, n, width| gate_backward(c, n, width, (true, false))),
    ("swiglu_backward", " biased in place", |c, n, width| gate_backward(c, n, width, (true, true))),
];

pub(super) fn check(checker: &mut Checker) {
    for (n, width) in checker.extent.sizes(&SIZES) {
        checker.one_by_one = (n, width) == VECTORS;
        for (kernel, variant, body) in CASES {
            checker.case(kernel, format!("{n} x {width}{variant}"), |c| body(c, n, width));
        }
    }
    checker.one_by_one = false;
}

/// The rows of `x` that `index` names.
fn picked(x: &TestArray<Real>, index: &TestArray<u32>, width: usize) -> Vec<f64> {
    index.whole().iter().flat_map(|i| x.initial[*i as usize * width..][..width].to_vec()).collect()
}

fn embed(c: &mut Case<'_>, n: usize, width: usize) -> Result {
    let (ids, table, out) = (c.below(n, 2 * n + 3)?, c.copied((2 * n + 3) * width)?, c.blank(n * width)?);
    let (tokens, wide) = (n as u32, width as u32);
    c.launch(Embed { ids: ids.ptr(), table: table.ptr(), out: out.out(), tokens, width: wide })?;
    c.exact(&out, &picked(&table, &ids, width))
}

/// The order of the sum is the contract's, so it is to the bit.
fn embed_backward(c: &mut Case<'_>, n: usize, width: usize) -> Result {
    let tokens = c.below(n, n.div_ceil(7) + 1)?.whole();
    let by_id = TokensById::new(&tokens);
    let (dx, dtable) = (c.random::<Real>(n * width)?, c.random::<f32>((n + 2) * width)?);
    let list = |list: &[u32]| c.integers(list.iter().map(|i| *i as usize));
    let (order, starts, ids) = (list(&by_id.order)?, list(&by_id.starts)?, list(&by_id.ids)?);
    c.launch(EmbedBackward {
        dx: dx.ptr(),
        order: order.ptr(),
        starts: starts.ptr(),
        ids: ids.ptr(),
        dtable: dtable.out(),
        tokens: n as u32,
        distinct: by_id.ids.len() as u32,
        width: width as u32,
    })?;
    let mut expected = dtable.initial.clone();
    for (token, dx) in tokens.iter().zip(dx.initial.chunks_exact(width)) {
        let sums = &mut expected[*token as usize * width..][..width];
        sums.iter_mut().zip(dx).for_each(|(sum, x)| *sum = f64::from(*sum as f32 + *x as f32));
    }
    c.exact(&dtable, &expected)
}

fn gather(c: &mut Case<'_>, n: usize, width: usize) -> Result {
    let (x, index, out) = (c.copied((n + 2) * width)?, c.below(n, n + 2)?, c.blank(n * width)?);
    let (rows, wide) = (n as u32, width as u32);
    c.launch(GatherRows { x: x.ptr(), index: index.ptr(), out: out.out(), rows, width: wide })?;
    c.exact(&out, &picked(&x, &index, width))
}

fn scatter(c: &mut Case<'_>, n: usize, width: usize) -> Result {
    let (x, out) = (c.copied(n * width)?, c.random::<Real>((n + 2) * width)?);
    let places = c.distinct(n, n + 2);
    let index = c.integers(places.iter().copied())?;
    let (rows, wide) = (n as u32, width as u32);
    c.launch(ScatterRows { x: x.ptr(), index: index.ptr(), out: out.out(), rows, width: wide })?;
    let mut expected = out.initial.clone();
    for (row, to) in x.initial.chunks_exact(width).zip(places) {
        expected[to * width..][..width].copy_from_slice(row);
    }
    c.exact(&out, &expected)
}

/// `y` and the scales of a norm of rows.
fn normed(x: &[f64], weight: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut y, mut scale) = (vec![0.0; x.len()], vec![0.0; x.len() / weight.len()]);
    norm::forward(&Groups::whole(weight), x, f64::from(EPS), &mut y, &mut scale);
    (y, scale)
}

/// The norm with the scales or without; in place, with the result where the input was.
fn rms_norm(c: &mut Case<'_>, n: usize, width: usize, (scaled, in_place): (bool, bool)) -> Result {
    let (x, weight) = (c.rows(n, width)?, c.random::<Real>(width)?);
    let (other, scale) = (c.blank(n * width)?, c.blank::<f32>(n)?);
    let y = if in_place { &x } else { &other };
    let (tokens, wide, to) = (n as u32, width as u32, scaled.then(|| scale.out()));
    let (at, weights) = (x.ptr(), weight.ptr());
    c.launch(RmsNorm { x: at, weight: weights, y: y.out(), scale: to, tokens, width: wide, eps: EPS })?;
    let (expected, scales) = normed(&x.initial, &weight.initial);
    c.near(y, largest(&expected), &expected)?;
    if !in_place {
        c.exact(&x, &x.initial)?;
    }
    if scaled { c.near(&scale, largest(&scales), &scales) } else { c.exact(&scale, &scale.initial) }
}

fn rms_norm_backward(c: &mut Case<'_>, n: usize, width: usize) -> Result {
    let (x, weight) = (c.rows(n, width)?, c.random::<Real>(width)?);
    let (dy, dx) = (c.random::<Real>(n * width)?, c.random::<Real>(n * width)?);
    let scale = c.array::<f32>(normed(&x.initial, &weight.initial).1)?;
    c.launch(RmsNormBackward {
        x: x.ptr(),
        scale: scale.ptr(),
        weight: weight.ptr(),
        dy: dy.ptr(),
        dx: dx.out(),
        tokens: n as u32,
        width: width as u32,
    })?;
    let mut expected = dy.initial.clone();
    norm::backward(&Groups::whole(&weight.initial), &x.initial, &scale.initial, &mut expected);
    norm::add(&mut expected, &dx.initial);
    // At width 1 two terms cancel, of the size of the scale.
    let terms = largest(&scale.initial) * largest(&weight.initial);
    c.near(&dx, largest(&expected) + terms, &expected)
}

fn rms_norm_weight(c: &mut Case<'_>, n: usize, width: usize) -> Result {
    let (x, dy, dweight) =
        (c.random::<Real>(n * width)?, c.random::<Real>(n * width)?, c.random::<f32>(width)?);
    let scale = c.array::<f32>(normed(&x.initial, &vec![1.0; width]).1)?;
    let (tokens, wide) = (n as u32, width as u32);
    let (at, scales, to) = (x.ptr(), scale.ptr(), dweight.out());
    c.launch(RmsNormWeight { x: at, scale: scales, dy: dy.ptr(), dweight: to, tokens, width: wide })?;
    let mut expected = dweight.initial.clone();
    let ones = vec![1.0; width];
    norm::backward_weight(
        &Groups::whole(&ones),
        0..1,
        &x.initial,
        &scale.initial,
        &dy.initial,
        &mut expected,
    );
    c.near(&dweight, 1.0 + n as f64, &expected)
}

fn add_bias(c: &mut Case<'_>, n: usize, width: usize) -> Result {
    let (x, bias) = (c.random::<Real>(n * width)?, c.random::<Real>(width)?);
    c.launch(AddBias { x: x.out(), bias: bias.ptr(), rows: n as u32, width: width as u32 })?;
    let mut expected = x.initial.clone();
    norm::add_bias(&mut expected, &bias.initial);
    c.exact(&x, &expected)
}

fn column_sum(c: &mut Case<'_>, n: usize, width: usize) -> Result {
    let (x, out) = (c.rows(n, width)?, c.random::<f32>(width)?);
    c.launch(ColumnSum { x: x.ptr(), out: out.out(), rows: n as u32, width: width as u32 })?;
    let mut expected = out.initial.clone();
    norm::backward_bias(&x.initial, width, 0, &mut expected);
    c.near(&out, 1.0 + n as f64, &expected)
}

/// Gates and ups, two of them extreme, on the device and with their bias.
fn gates(
    c: &mut Case<'_>,
    n: usize,
    width: usize,
    bias: Option<&[f64]>,
) -> Result<(TestArray<Real>, Vec<f64>)> {
    let mut numbers = c.normals(n * 2 * width);
    numbers[n * width] = 90.0;
    if width > 1 {
        numbers[width - 1] = -100.0;
    }
    let array = c.array::<Real>(numbers)?;
    let mut with_bias = array.initial.clone();
    if let Some(bias) = bias {
        norm::add_bias(&mut with_bias, bias);
    }
    Ok((array, with_bias))
}

/// The magnitude of a gate's terms: 1, and where a number is large the number itself.
fn by_value(value: f64) -> f64 {
    8.0 + value.abs()
}

fn gate(c: &mut Case<'_>, n: usize, width: usize, biased: bool) -> Result {
    let bias = c.random::<Real>(2 * width)?;
    let (x, with_bias) = gates(c, n, width, biased.then_some(&bias.initial[..]))?;
    let (y, at) = (c.blank(n * width)?, biased.then(|| bias.ptr()));
    let (tokens, wide) = (n as u32, width as u32);
    c.launch(Swiglu { gate_up: x.ptr(), bias: at, y: y.out(), tokens, width: wide })?;
    let mut expected = vec![0.0; n * width];
    swiglu::forward(&with_bias, width, &mut expected);
    c.near_each(&y, by_value, &expected)
}

fn gate_backward(c: &mut Case<'_>, n: usize, width: usize, (biased, in_place): (bool, bool)) -> Result {
    let bias = c.random::<Real>(2 * width)?;
    let (x, mut expected) = gates(c, n, width, biased.then_some(&bias.initial[..]))?;
    let (dy, own) = (c.random::<Real>(n * width)?, c.blank(n * 2 * width)?);
    let out = if in_place { &x } else { &own };
    c.launch(SwigluBackward {
        gate_up: x.ptr(),
        bias: biased.then(|| bias.ptr()),
        dy: dy.ptr(),
        dgate_up: out.out(),
        tokens: n as u32,
        width: width as u32,
    })?;
    swiglu::backward(&mut expected, width, &dy.initial);
    c.near_each(out, by_value, &expected)
}
