//! Matrix products in every transposition, and launches that are recorded and replayed.

use grpo_lambda_decoder::device::Dtype;

use super::Extent;
use super::trial::{Bench, Kind};
use crate::device::{Gemm, Matrix};

/// Rows, columns, and terms of a sum.
type Size = (usize, usize, usize);

const SMALL: [Size; 4] = [(1, 1, 1), (5, 7, 3), (33, 65, 17), (2, 40, 1536)];

/// The products of a layer of a 1.5B model over 4096 tokens: forward, gradient of the input, gradient of the weight.
const STEP: [(Size, [bool; 2]); 3] = [
    ((4096, 8960, 1536), [false, true]),
    ((4096, 1536, 8960), [false, false]),
    ((8960, 1536, 4096), [true, false]),
];

/// How many numbers of a large result are looked at.
const LOOKED_AT: usize = 4096;

pub(super) fn check(bench: &mut Bench) {
    for (size, _) in bench.extent.of(&SMALL) {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            for beta in [0.0, 1.0] {
                for batch in [1, 3] {
                    for wide in [false, true] {
                        product(bench, size, transposed, beta, batch, wide, false);
                    }
                }
            }
        }
    }
    if bench.extent == Extent::Full {
        for (size, transposed) in STEP {
            product(bench, size, transposed, 0.0, 1, transposed[0], true);
        }
    }
    replay(bench);
}

/// Rows lie three numbers further apart than they are long, so that strides are not widths.
const GAP: usize = 3;

/// `wide`: the result is `f32` whatever the factors are.
fn product(
    bench: &mut Bench,
    (m, n, k): Size,
    transposed: [bool; 2],
    beta: f32,
    batch: usize,
    wide: bool,
    timed: bool,
) {
    let mark = |t: bool| if t { "'" } else { "" };
    let sizes = format!(
        "A{} B{}{}{} {m} x {n} x {k}{}",
        mark(transposed[0]),
        mark(transposed[1]),
        if beta == 0.0 { "" } else { " + C" },
        if wide { " in f32" } else { "" },
        if batch == 1 { String::new() } else { format!(" of {batch}") },
    );
    bench.case("gemm", sizes, |c| {
        let alpha = 0.5f32;
        let gap = if timed { 0 } else { GAP };
        let stored = |t: bool, rows: usize, columns: usize| if t { (columns, rows) } else { (rows, columns) };
        let (a_rows, a_width) = stored(transposed[0], m, k);
        let (b_rows, b_width) = stored(transposed[1], k, n);
        let (a_stride, b_stride, c_stride) = (a_width + gap, b_width + gap, n + gap);
        let (a, b) = (c.reals(batch * a_rows * a_stride)?, c.reals(batch * b_rows * b_stride)?);
        let kind = if wide { Kind::F32 } else { c.real() };
        let out = match beta == 0.0 {
            true => c.blank(kind, batch * m * c_stride)?,
            false => c.random(kind, batch * m * c_stride, 1.0)?,
        };
        let of = |x: u64, stride: usize, rows: usize, t: bool, dtype: Dtype| Matrix {
            address: x,
            dtype,
            stride,
            batch_stride: rows * stride,
            transposed: t,
        };
        let dtype = c.kernels.dtype;
        let gemm = Gemm {
            batch,
            alpha,
            beta,
            ..Gemm::new(
                (m, n, k),
                of(a.at(), a_stride, a_rows, transposed[0], dtype),
                of(b.at(), b_stride, b_rows, transposed[1], dtype),
                of(out.at(), c_stride, m, false, if wide { Dtype::F32 } else { dtype }),
            )
        };
        c.device().gemm(&gemm)?;
        let every = (batch * m * n).div_ceil(LOOKED_AT);
        let at = |t: bool, stride: usize, i: usize, j: usize| if t { j * stride + i } else { i * stride + j };
        c.expect(&out, k, |place| {
            let (which, i, j) = (place / (m * c_stride), place / c_stride % m, place % c_stride);
            if j >= n || place % every != 0 {
                return None;
            }
            let (a0, b0) = (which * a_rows * a_stride, which * b_rows * b_stride);
            let term = |l: usize| {
                a.at_start[a0 + at(transposed[0], a_stride, i, l)]
                    * b.at_start[b0 + at(transposed[1], b_stride, l, j)]
                    * f64::from(alpha)
            };
            let start = if beta == 0.0 { 0.0 } else { out.at_start[place] * f64::from(beta) };
            Some((0..k).map(term).fold((start, start.abs()), |(s, a), x| (s + x, a + x.abs())))
        })?;
        // What lies between the rows is nobody's.
        c.exact(&out, |place| (place % c_stride >= n).then_some(out.at_start[place]))?;
        c.operations(gemm.operations());
        c.time(timed, a.bytes() + b.bytes() + out.bytes(), |k| k.device.gemm(&gemm))
    });
}

/// A clear, a product, a kernel and a copy, recorded once and replayed on other inputs.
fn replay(bench: &mut Bench) {
    bench.case("replay", "clear and gemm and add_bias and copy".to_owned(), |c| {
        let (m, n, k) = (6, 10, 4);
        let (a, b, bias) = (c.reals(m * k)?, c.reals(k * n)?, c.reals(n)?);
        let (y, out) = (c.blank(c.real(), m * n)?, c.blank(c.real(), m * n)?);
        let dtype = c.kernels.dtype;
        let device = c.device().clone();
        let bytes = m * n * dtype.bytes();
        let of = |x: u64, stride: usize| Matrix::new(x, dtype, stride);
        let gemm = Gemm::new((m, n, k), of(a.at(), k), of(b.at(), n), of(y.at(), n)).accumulate();
        // What a library loads at first use must not fall into the recording.
        device.gemm(&gemm)?;
        c.kernels.add_bias(y.at(), bias.at(), m as u32, n as u32)?;
        device.begin_recording()?;
        device.clear(y.at(), bytes)?;
        device.gemm(&gemm)?;
        c.kernels.add_bias(y.at(), bias.at(), m as u32, n as u32)?;
        device.copy(out.at(), y.at(), bytes)?;
        let recording = device.end_recording()?;
        c.exact(&out, |_| Some(f64::NAN))?; // recorded, not run
        for factor in [1.0, -2.0] {
            a.write(&a.at_start.iter().map(|x| x * factor).collect::<Vec<_>>())?;
            recording.replay()?;
            recording.replay()?;
            // The product is stored before the bias is added.
            c.expect_after(&out, k, 1.0, |place| {
                let (i, j) = (place / n, place % n);
                let term = |l: usize| factor * a.at_start[i * k + l] * b.at_start[l * n + j];
                let start = bias.at_start[j];
                Some((0..k).map(term).fold((start, start.abs()), |(s, a), x| (s + x, a + x.abs())))
            })?;
        }
        Ok(())
    });
}
