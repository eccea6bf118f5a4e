//! Kernels that work on rows of numbers: embeddings, norms, biases, the gate of the MLP.

use super::Extent;
use super::trial::{Bench, Kind};

/// Rows and width: odd sizes, then those of a 1.5B model in a few rows.
const SMALL: [(usize, usize); 5] = [(1, 1), (3, 7), (5, 36), (2, 1027), (3, 1536)];
/// Those of a step.
const STEP: (usize, usize) = (2048, 1536);

/// Sizes, and whether the case is timed.
fn sizes(bench: &Bench, step: (usize, usize)) -> Vec<((usize, usize), bool)> {
    let mut all = bench.extent.of(&SMALL);
    if bench.extent == Extent::Full {
        all.push((step, true));
    }
    all
}

pub(super) fn check(bench: &mut Bench) {
    for (size, timed) in sizes(bench, STEP) {
        embed(bench, size, timed);
        embed_backward(bench, size, timed);
        gather(bench, size, timed);
        scatter(bench, size, timed);
        norm(bench, size, timed);
        norm_backward(bench, size, timed);
        norm_weight(bench, size, timed);
        for aliased in [false, true] {
            norm_in_place(bench, size, aliased);
        }
    }
    for (size, timed) in sizes(bench, (2048, 2048)) {
        add_bias(bench, size, timed);
        column_sum(bench, size, timed);
    }
    for (size, timed) in sizes(bench, (1024, 8960)) {
        for biased in [false, true] {
            swiglu(bench, size, biased, timed && !biased);
            swiglu_backward(bench, size, biased, false, timed && !biased);
            swiglu_backward(bench, size, biased, true, false);
        }
    }
}

fn label((rows, width): (usize, usize)) -> String {
    format!("{rows} x {width}")
}

fn embed(bench: &mut Bench, (n, width): (usize, usize), timed: bool) {
    bench.case("embed", label((n, width)), |c| {
        let vocabulary = 2 * n + 3;
        let (ids, table) = (c.below(n, vocabulary)?, c.reals(vocabulary * width)?);
        let out = c.blank(c.real(), n * width)?;
        let (n, w) = (n as u32, width as u32);
        c.kernels.embed(ids.at(), table.at(), out.at(), n, w)?;
        c.exact(&out, |i| Some(table.at_start[ids.at_start[i / width] as usize * width + i % width]))?;
        c.time(timed, 2.0 * out.bytes(), |k| k.embed(ids.at(), table.at(), out.at(), n, w))
    });
}

fn embed_backward(bench: &mut Bench, (n, width): (usize, usize), timed: bool) {
    bench.case("embed_backward", label((n, width)), |c| {
        // Token i is the (i mod distinct)-th of the ids, so that ids come again.
        let (vocabulary, distinct) = (n + 2, n.div_ceil(3));
        let dx = c.reals(n * width)?;
        let dtable = c.random(Kind::F32, vocabulary * width, 1.0)?;
        let ids = c.distinct(distinct, vocabulary);
        let of = |d: usize| (d..n).step_by(distinct);
        let order: Vec<f64> = (0..distinct).flat_map(|d| of(d).map(|t| t as f64)).collect();
        let ends = (0..distinct).scan(0, |sum, d| {
            *sum += of(d).count();
            Some(*sum as f64)
        });
        let starts = std::iter::once(0.0).chain(ends).collect();
        let mut expected: Vec<(f64, f64)> = dtable.at_start.iter().map(|x| (*x, x.abs())).collect();
        for d in 0..distinct {
            for t in of(d) {
                for j in 0..width {
                    let (sum, x) = (&mut expected[ids[d] as usize * width + j], dx.at_start[t * width + j]);
                    *sum = (sum.0 + x, sum.1 + x.abs());
                }
            }
        }
        let (order, starts, ids) = (c.of(Kind::U32, order)?, c.of(Kind::U32, starts)?, c.of(Kind::U32, ids)?);
        let launch = |k: &crate::Kernels| {
            let (d, w) = (distinct as u32, width as u32);
            k.embed_backward(dx.at(), order.at(), starts.at(), ids.at(), dtable.at(), d, w)
        };
        launch(c.kernels)?;
        c.expect(&dtable, n.div_ceil(distinct), |i| Some(expected[i]))?;
        c.time(timed, dx.bytes() + 8.0 * (distinct * width) as f64, launch)
    });
}

fn gather(bench: &mut Bench, (n, width): (usize, usize), timed: bool) {
    bench.case("gather_rows", label((n, width)), |c| {
        let (x, index, out) = (c.reals((n + 2) * width)?, c.below(n, n + 2)?, c.blank(c.real(), n * width)?);
        let (n, w) = (n as u32, width as u32);
        c.kernels.gather_rows(x.at(), index.at(), out.at(), n, w)?;
        c.exact(&out, |i| Some(x.at_start[index.at_start[i / width] as usize * width + i % width]))?;
        c.time(timed, 2.0 * out.bytes(), |k| k.gather_rows(x.at(), index.at(), out.at(), n, w))
    });
}

fn scatter(bench: &mut Bench, (n, width): (usize, usize), timed: bool) {
    bench.case("scatter_rows", label((n, width)), |c| {
        let (x, out) = (c.reals(n * width)?, c.reals((n + 2) * width)?);
        let index = c.distinct(n, n + 2);
        let mut expected = out.at_start.clone();
        for (i, to) in index.iter().enumerate() {
            let to = *to as usize * width;
            expected[to..to + width].copy_from_slice(&x.at_start[i * width..(i + 1) * width]);
        }
        let index = c.of(Kind::U32, index)?;
        let (n, w) = (n as u32, width as u32);
        c.kernels.scatter_rows(x.at(), index.at(), out.at(), n, w)?;
        c.exact(&out, |i| Some(expected[i]))?;
        c.time(timed, 2.0 * x.bytes(), |k| k.scatter_rows(x.at(), index.at(), out.at(), n, w))
    });
}

const EPS: f32 = 1e-6;

/// `1 / sqrt(mean x^2 + eps)` of every row.
fn scales(x: &[f64], width: usize) -> Vec<f64> {
    let scale =
        |row: &[f64]| 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / width as f64 + f64::from(EPS)).sqrt();
    x.chunks_exact(width).map(scale).collect()
}

fn norm(bench: &mut Bench, (n, width): (usize, usize), timed: bool) {
    bench.case("rms_norm", label((n, width)), |c| {
        let (x, weight) = (c.reals(n * width)?, c.reals(width)?);
        let (y, scale) = (c.blank(c.real(), n * width)?, c.blank(Kind::F32, n)?);
        let (n, w) = (n as u32, width as u32);
        let r = scales(&x.at_start, width);
        c.kernels.rms_norm(x.at(), weight.at(), y.at(), scale.at(), n, w, EPS)?;
        c.expect(&scale, width.div_ceil(256), |t| Some((r[t], r[t])))?;
        c.expect(&y, width.div_ceil(256), |i| {
            let value = x.at_start[i] * r[i / width] * weight.at_start[i % width];
            Some((value, value.abs()))
        })?;
        c.untouched(&x)?;
        c.time(timed, x.bytes() + y.bytes(), |k| {
            k.rms_norm(x.at(), weight.at(), y.at(), scale.at(), n, w, EPS)
        })
    });
}

/// Without the scales, and with the result where the input was.
fn norm_in_place(bench: &mut Bench, (n, width): (usize, usize), aliased: bool) {
    bench.case(
        "rms_norm",
        format!("{} {}", label((n, width)), if aliased { "in place" } else { "no scale" }),
        |c| {
            let (x, weight, y) = (c.reals(n * width)?, c.reals(width)?, c.blank(c.real(), n * width)?);
            let r = scales(&x.at_start, width);
            let out = if aliased { &x } else { &y };
            c.kernels.rms_norm(x.at(), weight.at(), out.at(), 0, n as u32, width as u32, EPS)?;
            c.expect(out, width.div_ceil(256), |i| {
                let value = x.at_start[i] * r[i / width] * weight.at_start[i % width];
                Some((value, value.abs()))
            })
        },
    );
}

fn norm_backward(bench: &mut Bench, (n, width): (usize, usize), timed: bool) {
    bench.case("rms_norm_backward", label((n, width)), |c| {
        let (x, weight) = (c.reals(n * width)?, c.reals(width)?);
        let (dy, dx) = (c.reals(n * width)?, c.reals(n * width)?);
        let scale = c.of(Kind::F32, scales(&x.at_start, width))?;
        let inner: Vec<(f64, f64)> = (0..n)
            .map(|t| {
                let term =
                    |j: usize| weight.at_start[j] * dy.at_start[t * width + j] * x.at_start[t * width + j];
                let (sum, size) = (0..width).map(term).fold((0.0, 0.0), |(s, a), x| (s + x, a + x.abs()));
                (sum / width as f64, size / width as f64)
            })
            .collect();
        let (n, w) = (n as u32, width as u32);
        let launch =
            |k: &crate::Kernels| k.rms_norm_backward(x.at(), scale.at(), weight.at(), dy.at(), dx.at(), n, w);
        launch(c.kernels)?;
        c.expect(&dx, width.div_ceil(256), |i| {
            let (r, x) = (scale.at_start[i / width], x.at_start[i]);
            let (direct, cubed) = (r * weight.at_start[i % width] * dy.at_start[i], r * r * r);
            let (mean, size) = inner[i / width];
            let value = dx.at_start[i] + direct - x * cubed * mean;
            Some((value, dx.at_start[i].abs() + direct.abs() + x.abs() * cubed * size))
        })?;
        c.time(timed, x.bytes() + dy.bytes() + 2.0 * dx.bytes(), launch)
    });
}

fn norm_weight(bench: &mut Bench, (n, width): (usize, usize), timed: bool) {
    bench.case("rms_norm_weight", label((n, width)), |c| {
        let (x, dy) = (c.reals(n * width)?, c.reals(n * width)?);
        let scale = c.of(Kind::F32, scales(&x.at_start, width))?;
        let dweight = c.random(Kind::F32, width, 1.0)?;
        let term =
            |t: usize, j: usize| dy.at_start[t * width + j] * x.at_start[t * width + j] * scale.at_start[t];
        let launch = |k: &crate::Kernels| {
            k.rms_norm_weight(x.at(), scale.at(), dy.at(), dweight.at(), n as u32, width as u32)
        };
        launch(c.kernels)?;
        c.expect(&dweight, n.div_ceil(8), |j| Some(sum(dweight.at_start[j], (0..n).map(|t| term(t, j)))))?;
        c.time(timed, x.bytes() + dy.bytes(), launch)
    });
}

/// `start` and these terms: their sum, and that of their absolute values.
fn sum(start: f64, terms: impl Iterator<Item = f64>) -> (f64, f64) {
    terms.fold((start, start.abs()), |(s, a), x| (s + x, a + x.abs()))
}

fn add_bias(bench: &mut Bench, (n, width): (usize, usize), timed: bool) {
    bench.case("add_bias", label((n, width)), |c| {
        let (x, bias) = (c.reals(n * width)?, c.reals(width)?);
        let (n, w) = (n as u32, width as u32);
        c.kernels.add_bias(x.at(), bias.at(), n, w)?;
        c.expect(&x, 1, |i| Some(sum(x.at_start[i], std::iter::once(bias.at_start[i % width]))))?;
        c.time(timed, 2.0 * x.bytes(), |k| k.add_bias(x.at(), bias.at(), n, w))
    });
}

fn column_sum(bench: &mut Bench, (n, width): (usize, usize), timed: bool) {
    bench.case("column_sum", label((n, width)), |c| {
        let (x, out) = (c.reals(n * width)?, c.random(Kind::F32, width, 1.0)?);
        let rows = n as u32;
        c.kernels.column_sum(x.at(), out.at(), rows, width as u32)?;
        c.expect(&out, n.div_ceil(8), |j| {
            Some(sum(out.at_start[j], (0..n).map(|t| x.at_start[t * width + j])))
        })?;
        c.time(timed, x.bytes(), |k| k.column_sum(x.at(), out.at(), rows, width as u32))
    });
}

/// Gate and up of token `t` at `j`, bias included, with what went into each.
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

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn swiglu(bench: &mut Bench, (n, width): (usize, usize), biased: bool, timed: bool) {
    bench.case("swiglu", format!("{}{}", label((n, width)), if biased { " biased" } else { "" }), |c| {
        let (x, bias, y) = (c.reals(n * 2 * width)?, c.reals(2 * width)?, c.blank(c.real(), n * width)?);
        let b = if biased { bias.at() } else { 0 };
        let (n, w) = (n as u32, width as u32);
        c.kernels.swiglu(x.at(), b, y.at(), n, w)?;
        c.expect(&y, 1, |i| {
            let v = gate(&x.at_start, biased.then_some(&bias.at_start[..]), width, i / width, i % width);
            Some((v.gate * sigmoid(v.gate) * v.up, (1.0 + v.gate_size) * v.up_size))
        })?;
        c.time(timed, x.bytes() + y.bytes(), |k| k.swiglu(x.at(), b, y.at(), n, w))
    });
}

fn swiglu_backward(bench: &mut Bench, (n, width): (usize, usize), biased: bool, in_place: bool, timed: bool) {
    let sizes = format!(
        "{}{}{}",
        label((n, width)),
        if biased { " biased" } else { "" },
        if in_place { " in place" } else { "" }
    );
    bench.case("swiglu_backward", sizes, |c| {
        let (x, bias, dy) = (c.reals(n * 2 * width)?, c.reals(2 * width)?, c.reals(n * width)?);
        let own = c.blank(c.real(), n * 2 * width)?;
        let (b, out) = (if biased { bias.at() } else { 0 }, if in_place { &x } else { &own });
        let (n, w) = (n as u32, width as u32);
        c.kernels.swiglu_backward(x.at(), b, dy.at(), out.at(), n, w)?;
        c.expect(out, 1, |i| {
            let (t, j) = (i / (2 * width), i % (2 * width));
            let v = gate(&x.at_start, biased.then_some(&bias.at_start[..]), width, t, j % width);
            let (d, s) = (dy.at_start[t * width + j % width], sigmoid(v.gate));
            Some(match j < width {
                true => {
                    (d * v.up * s * (1.0 + v.gate * (1.0 - s)), d.abs() * v.up_size * (1.0 + v.gate_size))
                }
                false => (d * v.gate * s, d.abs() * (1.0 + v.gate_size)),
            })
        })?;
        c.time(timed, 2.0 * x.bytes() + dy.bytes(), |k| k.swiglu_backward(x.at(), b, dy.at(), out.at(), n, w))
    });
}
