//! Matrix products in every transposition, and launches that are captured and replayed.

use grpo_lambda_decoder::device::Dtype;

use super::array::TestArray;
use super::case::{Case, Checker, Result};
use crate::gemm::{Gemm, Matrix};
use crate::kernels::AddBias;
use crate::ptr::{Access, Float, Ptr, Real};

/// Rows, columns, and terms of a sum.
type Size = (usize, usize, usize);

const SMALL: [Size; 4] = [(1, 1, 1), (5, 7, 3), (33, 65, 17), (2, 40, 1536)];

pub(super) fn check(checker: &mut Checker) {
    for size in checker.extent.sizes(&SMALL) {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            for accumulate in [false, true] {
                for batch in [1, 3] {
                    for wide in [false, true] {
                        let product = Product { size, transposed, accumulate, batch };
                        check_product(checker, product, wide);
                    }
                }
            }
        }
    }
    replay(checker);
}

/// Elements between the rows, so that strides are not widths.
const GAP: usize = 3;
/// Factor of a product.
const ALPHA: f32 = 0.5;

/// A product, or a batch of them.
#[derive(Clone, Copy)]
struct Product {
    size: Size,
    transposed: [bool; 2],
    /// True to add it to the result.
    accumulate: bool,
    batch: usize,
}

/// The layout of a matrix of a batch.
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

    /// The place of element `(i, j)` of matrix `which`.
    fn at(self, which: usize, i: usize, j: usize) -> usize {
        let (i, j) = if self.transposed { (j, i) } else { (i, j) };
        which * self.elements() + i * self.stride + j
    }

    fn matrix<T: Float, A: Access>(self, first: Ptr<T, A>) -> Matrix<A> {
        let matrix = Matrix::new(first, self.stride).every(self.elements());
        if self.transposed { matrix.t() } else { matrix }
    }
}

impl Product {
    fn label(self, wide: bool) -> String {
        let (m, n, k) = self.size;
        let [a, b] = self.transposed.map(|t| if t { "'" } else { "" });
        format!(
            "A{a} B{b}{}{} {m} x {n} x {k}{}",
            if self.accumulate { " + C" } else { "" },
            if wide { " in f32" } else { "" },
            if self.batch == 1 { String::new() } else { format!(" of {}", self.batch) },
        )
    }

    /// The shapes of the left factor, the right factor and the result.
    ///
    /// Rows with a gap begin at even elements in bf16: no run has others, and cuBLAS promises little for them.
    fn shapes(self, dtype: Dtype) -> [Shape; 3] {
        let (m, n, k) = self.size;
        let even = dtype == Dtype::Bf16;
        let stored = |transposed: bool, rows: usize, columns: usize| {
            let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
            let stride = columns + GAP;
            Shape { rows, stride: if even { stride.next_multiple_of(2) } else { stride }, transposed }
        };
        let [a, b] = self.transposed;
        [stored(a, m, k), stored(b, k, n), stored(false, m, n)]
    }
}

/// `wide`: the result is `f32` whatever the factors are.
fn check_product(checker: &mut Checker, product: Product, wide: bool) {
    checker.case("gemm", product.label(wide), |c| match wide {
        true => multiply::<f32>(c, product),
        false => multiply::<Real>(c, product),
    });
}

fn multiply<T: Float>(c: &mut Case<'_>, product: Product) -> Result {
    let Product { size: (m, n, k), batch, .. } = product;
    let [left, right, result] = product.shapes(c.kernels.dtype);
    let (a, b) = (c.reals(batch * left.elements())?, c.reals(batch * right.elements())?);
    let out: TestArray<T> = match product.accumulate {
        true => c.random(batch * result.elements(), 1.0)?,
        false => c.blank(batch * result.elements())?,
    };
    let (x, y) = (left.matrix(a.ptr()), right.matrix(b.ptr()));
    let gemm = Gemm::new((m, n, k), x, y, result.matrix(out.ptr_mut()));
    let beta = if product.accumulate { 1.0 } else { 0.0 };
    let gemm = Gemm { batch, alpha: ALPHA, beta, ..gemm };
    c.device().gemm(&gemm)?;
    c.expect(&out, k, |place| {
        let which = place / result.elements();
        let (i, j) = (place / result.stride % m, place % result.stride);
        if j >= n {
            return None;
        }
        let term =
            |l: usize| a.initial[left.at(which, i, l)] * b.initial[right.at(which, l, j)] * f64::from(ALPHA);
        let start = if product.accumulate { out.initial[place] } else { 0.0 };
        Some((0..k).map(term).fold((start, start.abs()), |(s, a), x| (s + x, a + x.abs())))
    })?;
    // Nothing is written between the rows.
    c.exact(&out, |place| (place % result.stride >= n).then_some(out.initial[place]))
}

/// A clear, a product, a kernel and a copy, captured once and replayed on other inputs.
fn replay(checker: &mut Checker) {
    checker.case("replay", "clear and gemm and add_bias and copy".to_owned(), |c| {
        let (m, n, k) = (6, 10, 4);
        let (a, b, bias) = (c.reals(m * k)?, c.reals(k * n)?, c.reals(n)?);
        let (y, out): (TestArray<Real>, TestArray<Real>) = (c.blank(m * n)?, c.blank(m * n)?);
        let device = c.device().clone();
        let bytes = m * n * c.kernels.dtype.bytes();
        let (left, right) = (Matrix::new(a.ptr(), k), Matrix::new(b.ptr(), n));
        let gemm = Gemm::new((m, n, k), left, right, Matrix::new(y.ptr_mut(), n)).accumulate();
        let add_bias = AddBias { x: y.ptr_mut(), bias: bias.ptr(), rows: m as u32, width: n as u32 };
        // A library's first use loads code, which cannot be captured.
        device.gemm(&gemm)?;
        c.launch(add_bias)?;
        device.begin_capture()?;
        device.clear(y.ptr_mut().address(), bytes)?;
        device.gemm(&gemm)?;
        c.launch(add_bias)?;
        device.copy(out.ptr_mut().address(), y.ptr().address(), bytes)?;
        let graph = device.end_capture()?;
        c.exact(&out, |_| Some(f64::NAN))?; // captured, not run
        for factor in [1.0, -2.0] {
            a.write(&a.initial.iter().map(|x| x * factor).collect::<Vec<_>>())?;
            graph.replay()?;
            graph.replay()?;
            // The product is stored before the bias is added.
            c.expect_after(&out, k, 1.0, |place| {
                let (i, j) = (place / n, place % n);
                let term = |l: usize| factor * a.initial[i * k + l] * b.initial[l * n + j];
                let start = bias.initial[j];
                Some((0..k).map(term).fold((start, start.abs()), |(s, a), x| (s + x, a + x.abs())))
            })?;
        }
        Ok(())
    });
}
