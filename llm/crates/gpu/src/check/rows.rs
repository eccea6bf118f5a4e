//! Kernels that work on rows of numbers: embeddings, norms, biases, the gate of the MLP.

use super::array::{TestArray, rounded};
use super::case::{Case, Checker, Result};
use crate::kernels::{
    AddBias, ColumnSum, Embed, EmbedBackward, GatherRows, RmsNorm, RmsNormBackward, RmsNormWeight,
    ScatterRows, Swiglu, SwigluBackward,
};
use crate::ptr::Real;

/// Rows and width: odd sizes, rows that end where a block's last round does, more rows than a block adds up at a time, then the width of a 1.5B
/// model in a few rows.
const SMALL: [(usize, usize); 8] =
    [(1, 1), (3, 7), VECTORS, (5, 36), (2, 1024), (2, 1027), (140, 33), (3, 1536)];
/// Rows of whole vectors, if all arrays are aligned.
const VECTORS: (usize, usize) = (2, 8);
pub(super) fn check(checker: &mut Checker) {
    for size in checker.extent.sizes(&SMALL) {
        checker.one_by_one = size == VECTORS;
        embed(checker, size);
        embed_backward(checker, size);
        gather(checker, size);
        scatter(checker, size);
        norm(checker, size);
        norm_backward(checker, size);
        norm_weight(checker, size);
        add_bias(checker, size);
        column_sum(checker, size);
        for either in [false, true] {
            norm_in_place(checker, size, either);
            swiglu(checker, size, either);
            swiglu_backward(checker, size, either, false);
            swiglu_backward(checker, size, either, true);
        }
    }
    checker.one_by_one = false;
}

fn label((rows, width): (usize, usize)) -> String {
    format!("{rows} x {width}")
}

fn embed(checker: &mut Checker, (n, width): (usize, usize)) {
    checker.case("embed", label((n, width)), |c| {
        let vocabulary = 2 * n + 3;
        let (ids, table) = (c.below(n, vocabulary)?, c.copied(vocabulary * width)?);
        let out = c.blank(n * width)?;
        c.launch(Embed {
            ids: ids.ptr(),
            table: table.ptr(),
            out: out.ptr_mut(),
            tokens: n as u32,
            width: width as u32,
        })?;
        c.exact(&out, |i| Some(table.initial[ids.initial[i / width] as usize * width + i % width]))
    });
}

fn embed_backward(checker: &mut Checker, (n, width): (usize, usize)) {
    checker.case("embed_backward", label((n, width)), |c| {
        // Token i is the (i mod distinct)-th of the ids, so that ids come again.
        let (vocabulary, distinct) = (n + 2, n.div_ceil(7));
        let dx = c.reals(n * width)?;
        let dtable = c.random(vocabulary * width, 1.0)?;
        let ids = c.distinct(distinct, vocabulary);
        let tokens = |d: usize| (d..n).step_by(distinct);
        let order = c.integers((0..distinct).flat_map(tokens))?;
        let ends = (0..distinct).scan(0, |sum, d| {
            *sum += tokens(d).count();
            Some(*sum)
        });
        let starts = c.integers(std::iter::once(0).chain(ends))?;
        // The order is the contract's, so the sums are to the bit.
        let mut expected: Vec<f32> = dtable.initial.iter().map(|x| *x as f32).collect();
        for (d, t) in (0..distinct).flat_map(|d| tokens(d).map(move |t| (d, t))) {
            let sums = &mut expected[ids[d] as usize * width..][..width];
            sums.iter_mut().zip(&dx.initial[t * width..]).for_each(|(sum, x)| *sum += *x as f32);
        }
        let ids = c.array(ids)?;
        c.launch(EmbedBackward {
            dx: dx.ptr(),
            order: order.ptr(),
            starts: starts.ptr(),
            ids: ids.ptr(),
            dtable: dtable.ptr_mut(),
            tokens: n as u32,
            distinct: distinct as u32,
            width: width as u32,
        })?;
        c.exact(&dtable, |i| Some(f64::from(expected[i])))
    });
}

fn gather(checker: &mut Checker, (n, width): (usize, usize)) {
    checker.case("gather_rows", label((n, width)), |c| {
        let (x, index, out) = (c.copied((n + 2) * width)?, c.below(n, n + 2)?, c.blank(n * width)?);
        let (rows, row) = (n as u32, width as u32);
        c.launch(GatherRows { x: x.ptr(), index: index.ptr(), out: out.ptr_mut(), rows, width: row })?;
        c.exact(&out, |i| Some(x.initial[index.initial[i / width] as usize * width + i % width]))
    });
}

fn scatter(checker: &mut Checker, (n, width): (usize, usize)) {
    checker.case("scatter_rows", label((n, width)), |c| {
        let (x, out) = (c.copied(n * width)?, c.reals((n + 2) * width)?);
        let index = c.distinct(n, n + 2);
        let mut expected = out.initial.clone();
        for (i, to) in index.iter().enumerate() {
            let to = *to as usize * width;
            expected[to..to + width].copy_from_slice(&x.initial[i * width..(i + 1) * width]);
        }
        let index = c.array(index)?;
        let (rows, row) = (n as u32, width as u32);
        c.launch(ScatterRows { x: x.ptr(), index: index.ptr(), out: out.ptr_mut(), rows, width: row })?;
        c.exact(&out, |i| Some(expected[i]))
    });
}

const EPS: f32 = 1e-6;

/// `1 / sqrt(mean x^2 + eps)` of every row.
fn scales(x: &[f64], width: usize) -> Vec<f64> {
    let scale =
        |row: &[f64]| 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / width as f64 + f64::from(EPS)).sqrt();
    x.chunks_exact(width).map(scale).collect()
}

fn norm(checker: &mut Checker, (n, width): (usize, usize)) {
    checker.case("rms_norm", label((n, width)), |c| {
        let (x, weight) = (c.rows(n, width)?, c.reals(width)?);
        let (y, scale) = (c.blank(n * width)?, c.blank(n)?);
        let r = scales(&x.initial, width);
        c.launch(RmsNorm {
            x: x.ptr(),
            weight: weight.ptr(),
            y: y.ptr_mut(),
            scale: Some(scale.ptr_mut()),
            tokens: n as u32,
            width: width as u32,
            eps: EPS,
        })?;
        c.expect(&scale, width.div_ceil(256), |t| Some((r[t], r[t])))?;
        c.expect(&y, width.div_ceil(256), |i| {
            let value = x.initial[i] * r[i / width] * weight.initial[i % width];
            Some((value, value.abs()))
        })?;
        c.untouched(&x)
    });
}

/// The norm without the scales, and with the result in the place of the input.
fn norm_in_place(checker: &mut Checker, (n, width): (usize, usize), aliased: bool) {
    let sizes = format!("{} {}", label((n, width)), if aliased { "in place" } else { "no scale" });
    checker.case("rms_norm", sizes, |c| {
        let (x, weight, y) = (c.rows(n, width)?, c.reals(width)?, c.blank(n * width)?);
        let r = scales(&x.initial, width);
        let out = if aliased { &x } else { &y };
        c.launch(RmsNorm {
            x: x.ptr(),
            weight: weight.ptr(),
            y: out.ptr_mut(),
            scale: None,
            tokens: n as u32,
            width: width as u32,
            eps: EPS,
        })?;
        c.expect(out, width.div_ceil(256), |i| {
            let value = x.initial[i] * r[i / width] * weight.initial[i % width];
            Some((value, value.abs()))
        })
    });
}

fn norm_backward(checker: &mut Checker, (n, width): (usize, usize)) {
    checker.case("rms_norm_backward", label((n, width)), |c| {
        let (x, weight) = (c.rows(n, width)?, c.reals(width)?);
        let (dy, dx) = (c.reals(n * width)?, c.reals(n * width)?);
        let scale: TestArray<f32> = c.array(scales(&x.initial, width))?;
        let inner: Vec<(f64, f64)> = (0..n)
            .map(|t| {
                let term =
                    |j: usize| weight.initial[j] * dy.initial[t * width + j] * x.initial[t * width + j];
                let (sum, size) = (0..width).map(term).fold((0.0, 0.0), |(s, a), x| (s + x, a + x.abs()));
                (sum / width as f64, size / width as f64)
            })
            .collect();
        c.launch(RmsNormBackward {
            x: x.ptr(),
            scale: scale.ptr(),
            weight: weight.ptr(),
            dy: dy.ptr(),
            dx: dx.ptr_mut(),
            tokens: n as u32,
            width: width as u32,
        })?;
        c.expect(&dx, width.div_ceil(256), |i| {
            let (r, x) = (scale.initial[i / width], x.initial[i]);
            let (direct, cubed) = (r * weight.initial[i % width] * dy.initial[i], r * r * r);
            let (mean, size) = inner[i / width];
            let value = dx.initial[i] + direct - x * cubed * mean;
            Some((value, dx.initial[i].abs() + direct.abs() + x.abs() * cubed * size))
        })
    });
}

fn norm_weight(checker: &mut Checker, (n, width): (usize, usize)) {
    checker.case("rms_norm_weight", label((n, width)), |c| {
        let (x, dy) = (c.reals(n * width)?, c.reals(n * width)?);
        let scale: TestArray<f32> = c.array(scales(&x.initial, width))?;
        let dweight = c.random(width, 1.0)?;
        let term =
            |t: usize, j: usize| dy.initial[t * width + j] * x.initial[t * width + j] * scale.initial[t];
        c.launch(RmsNormWeight {
            x: x.ptr(),
            scale: scale.ptr(),
            dy: dy.ptr(),
            dweight: dweight.ptr_mut(),
            tokens: n as u32,
            width: width as u32,
        })?;
        c.expect(&dweight, n.div_ceil(8), |j| Some(sum(dweight.initial[j], (0..n).map(|t| term(t, j)))))
    });
}

/// The sum of `start` and these terms, and that of their absolute values.
fn sum(start: f64, terms: impl Iterator<Item = f64>) -> (f64, f64) {
    terms.fold((start, start.abs()), |(s, a), x| (s + x, a + x.abs()))
}

fn add_bias(checker: &mut Checker, (n, width): (usize, usize)) {
    checker.case("add_bias", label((n, width)), |c| {
        let (x, bias) = (c.reals(n * width)?, c.reals(width)?);
        c.launch(AddBias { x: x.ptr_mut(), bias: bias.ptr(), rows: n as u32, width: width as u32 })?;
        let sum = |i: usize| x.initial[i] as f32 + bias.initial[i % width] as f32;
        c.exact(&x, |i| Some(rounded(f64::from(sum(i)), x.stored)))
    });
}

fn column_sum(checker: &mut Checker, (n, width): (usize, usize)) {
    checker.case("column_sum", label((n, width)), |c| {
        let (x, out) = (c.rows(n, width)?, c.random(width, 1.0)?);
        c.launch(ColumnSum { x: x.ptr(), out: out.ptr_mut(), rows: n as u32, width: width as u32 })?;
        c.expect(&out, n.div_ceil(8), |j| Some(sum(out.initial[j], (0..n).map(|t| x.initial[t * width + j]))))
    });
}

/// Gate and up of a token, bias included, each with the sum of its absolute terms.
struct Gate {
    gate: f64,
    up: f64,
    gate_size: f64,
    up_size: f64,
}

fn gate(gate_up: &[f64], bias: Option<&[f64]>, width: usize, t: usize, j: usize) -> Gate {
    let (g, u) = (gate_up[t * 2 * width + j], gate_up[t * 2 * width + width + j]);
    let (b, d) = bias.map_or((0.0, 0.0), |bias| (bias[j], bias[width + j]));
    Gate { gate: g + b, up: u + d, gate_size: g.abs() + b.abs(), up_size: u.abs() + d.abs() }
}

/// Gates and ups, two of them extreme.
fn gates(c: &mut Case<'_>, n: usize, width: usize) -> Result<TestArray<Real>> {
    let mut numbers = c.reals(n * 2 * width)?.initial;
    numbers[n * width] = 90.0;
    if width > 1 {
        numbers[width - 1] = -100.0;
    }
    c.array(numbers)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn swiglu(checker: &mut Checker, (n, width): (usize, usize), biased: bool) {
    checker.case("swiglu", format!("{}{}", label((n, width)), if biased { " biased" } else { "" }), |c| {
        let (x, bias, y) = (gates(c, n, width)?, c.reals(2 * width)?, c.blank(n * width)?);
        c.launch(Swiglu {
            gate_up: x.ptr(),
            bias: biased.then(|| bias.ptr()),
            y: y.ptr_mut(),
            tokens: n as u32,
            width: width as u32,
        })?;
        c.expect(&y, 1, |i| {
            let v = gate(&x.initial, biased.then_some(&bias.initial[..]), width, i / width, i % width);
            Some((v.gate * sigmoid(v.gate) * v.up, (1.0 + v.gate_size) * v.up_size))
        })
    });
}

fn swiglu_backward(checker: &mut Checker, (n, width): (usize, usize), biased: bool, in_place: bool) {
    let sizes = format!(
        "{}{}{}",
        label((n, width)),
        if biased { " biased" } else { "" },
        if in_place { " in place" } else { "" }
    );
    checker.case("swiglu_backward", sizes, |c| {
        let (x, bias, dy) = (gates(c, n, width)?, c.reals(2 * width)?, c.reals(n * width)?);
        let own: TestArray<Real> = c.blank(n * 2 * width)?;
        let out = if in_place { &x } else { &own };
        c.launch(SwigluBackward {
            gate_up: x.ptr(),
            bias: biased.then(|| bias.ptr()),
            dy: dy.ptr(),
            dgate_up: out.ptr_mut(),
            tokens: n as u32,
            width: width as u32,
        })?;
        c.expect(out, 1, |i| {
            let (t, j) = (i / (2 * width), i % (2 * width));
            let v = gate(&x.initial, biased.then_some(&bias.initial[..]), width, t, j % width);
            let (d, s) = (dy.initial[t * width + j % width], sigmoid(v.gate));
            Some(match j < width {
                true => {
                    (d * v.up * s * (1.0 + v.gate * (1.0 - s)), d.abs() * v.up_size * (1.0 + v.gate_size))
                }
                false => (d * v.gate * s, d.abs() * (1.0 + v.gate_size)),
            })
        })
    });
}
