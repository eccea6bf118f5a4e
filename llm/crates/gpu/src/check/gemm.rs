//! Matrix products in every transposition, and launches that are captured and replayed.

use grpo_lambda_decoder::device::Dtype;

use super::array::TestArray;
use super::case::{Case, Checker, Result};
use crate::gemm::{Gemm, Matrix};
use crate::kernels::AddBias;
use crate::ptr::{Access, Float, Ptr, Real};

/// Rows, columns, and terms of a sum.
const SIZES: [(usize, usize, usize); 4] = [(1, 1, 1), (5, 7, 3), (33, 65, 17), (2, 40, 1536)];

pub(super) fn check(checker: &mut Checker) {
    for (m, n, k) in checker.extent.sizes(&SIZES) {
        for how in 0..32u8 {
            let [left, right, accumulate, apart, wide] = std::array::from_fn(|bit| how >> bit & 1 == 1);
            let gap = if apart { GAP } else { 0 };
            let product = Product { size: (m, n, k), transposed: [left, right], accumulate, gap };
            let [a, b] = product.transposed.map(|t| if t { "'" } else { "" });
            let more = [(accumulate, " + C"), (wide, " in f32"), (apart, " with gaps")];
            let more: String = more.into_iter().filter(|(there, _)| *there).map(|(_, name)| name).collect();
            checker.case("gemm", format!("A{a} B{b}{more} {m} x {n} x {k}"), |c| match wide {
                true => multiply::<f32>(c, product),
                false => multiply::<Real>(c, product),
            });
        }
    }
    checker.case("replay", "clear and gemm and add_bias and copy", replay);
}

/// Elements between rows, so that strides are not widths.
const GAP: usize = 3;
/// Factor of a product.
const ALPHA: f32 = 0.5;

#[derive(Clone, Copy)]
struct Product {
    size: (usize, usize, usize),
    transposed: [bool; 2],
    /// True to add it to the result.
    accumulate: bool,
    /// Elements between rows.
    gap: usize,
}

/// The layout of a matrix.
#[derive(Clone, Copy)]
struct Shape {
    /// Rows, as stored.
    rows: usize,
    stride: usize,
    transposed: bool,
}

impl Shape {
    fn elements(self) -> usize {
        self.rows * self.stride
    }

    /// The place of element `(i, j)`.
    fn at(self, i: usize, j: usize) -> usize {
        let (i, j) = if self.transposed { (j, i) } else { (i, j) };
        i * self.stride + j
    }

    fn matrix<T: Float, A: Access>(self, first: Ptr<T, A>) -> Matrix<A> {
        let matrix = Matrix::new(first, self.stride);
        if self.transposed { matrix.t() } else { matrix }
    }
}

/// The layout of a matrix of this size. Rows begin at even elements in bf16: no run has others, and cuBLAS promises little for them.
fn shape((rows, columns): (usize, usize), transposed: bool, gap: usize, dtype: Dtype) -> Shape {
    let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
    let stride = columns + gap;
    let even = dtype == Dtype::Bf16;
    Shape { rows, stride: if even { stride.next_multiple_of(2) } else { stride }, transposed }
}

fn multiply<T: Float>(c: &mut Case<'_>, product: Product) -> Result {
    let Product { size: (m, n, k), transposed: [a_turned, b_turned], accumulate, gap } = product;
    let layout = |size, turned| shape(size, turned, gap, c.kernels.dtype);
    let (left, right, result) = (layout((m, k), a_turned), layout((k, n), b_turned), layout((m, n), false));
    let (a, b) = (c.random::<Real>(left.elements())?, c.random::<Real>(right.elements())?);
    let out: TestArray<T> =
        if accumulate { c.random(result.elements())? } else { c.blank(result.elements())? };
    let (x, y) = (left.matrix(a.ptr()), right.matrix(b.ptr()));
    let gemm = Gemm::new((m, n, k), x, y, result.matrix(out.out()));
    let beta = if accumulate { 1.0 } else { 0.0 };
    c.device().gemm(&Gemm { alpha: ALPHA, beta, ..gemm })?;
    // Nothing is written between the rows.
    let mut expected = out.initial.clone();
    for (place, number) in expected.iter_mut().enumerate() {
        let (i, j) = (place / result.stride, place % result.stride);
        if j < n {
            let term = |l: usize| a.initial[left.at(i, l)] * b.initial[right.at(l, j)];
            let sum: f64 = (0..k).map(term).sum();
            *number = sum * f64::from(ALPHA) + if accumulate { *number } else { 0.0 };
        }
    }
    c.near(&out, 1.0 + k as f64, &expected)
}

/// A clear, a product, a kernel and a copy, captured once and replayed on other inputs.
fn replay(c: &mut Case<'_>) -> Result {
    let (m, n, k) = (6, 10, 4);
    let (a, b, bias) = (c.random::<Real>(m * k)?, c.random::<Real>(k * n)?, c.random::<Real>(n)?);
    let (y, out) = (c.blank::<Real>(m * n)?, c.blank::<Real>(m * n)?);
    let device = c.device().clone();
    let bytes = m * n * c.kernels.dtype.bytes();
    let (left, right) = (Matrix::new(a.ptr(), k), Matrix::new(b.ptr(), n));
    let gemm = Gemm::new((m, n, k), left, right, Matrix::new(y.out(), n)).accumulate();
    let add_bias = AddBias { x: y.out(), bias: bias.ptr(), rows: m as u32, width: n as u32 };
    // A library's first use loads code, which cannot be captured.
    device.gemm(&gemm)?;
    c.launch(add_bias)?;
    device.begin_capture()?;
    device.clear(y.out().address(), bytes)?;
    device.gemm(&gemm)?;
    c.launch(add_bias)?;
    device.copy(out.out().address(), y.ptr().address(), bytes)?;
    let graph = device.end_capture()?;
    c.exact(&out, &out.initial)?; // captured, not run
    for factor in [1.0, -2.0] {
        a.write(&a.initial.iter().map(|x| x * factor).collect::<Vec<_>>())?;
        graph.replay()?;
        graph.replay()?;
        let term = |i: usize, j: usize, l: usize| factor * a.initial[i * k + l] * b.initial[l * n + j];
        let number = |place: usize| {
            bias.initial[place % n] + (0..k).map(|l| term(place / n, place % n, l)).sum::<f64>()
        };
        let expected: Vec<f64> = (0..m * n).map(number).collect();
        // The product is stored before the bias is added.
        let size = super::case::largest(&expected) + 2.0;
        c.near_stored(&out, (size, size), &expected)?;
    }
    Ok(())
}
