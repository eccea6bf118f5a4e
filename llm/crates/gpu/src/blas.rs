//! A product of row-major matrices as the product of column-major ones that BLAS libraries compute.
//!
//! A row-major matrix of row stride `s`, read by columns, is its own transpose with leading dimension `s`. So `C = op(A) op(B)` is asked
//! for as `C^T = op(B)^T op(A)^T`: the factors change places, `m` and `n` too, and each keeps its operation.

use grpo_lambda_decoder::device::Dtype;

use super::gemm::{Gemm, Matrix};
use super::ptr::Access;

/// A matrix by columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) address: u64,
    pub(crate) dtype: Dtype,
    /// Elements from one column to the next.
    pub(crate) leading: i32,
    /// Elements from one matrix of the batch to the next.
    pub(crate) stride: i64,
    pub(crate) transposed: bool,
}

/// `result = alpha left right + beta result`, all by columns: `left` is `m x k`, `right` `k x n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Product {
    pub(crate) m: i32,
    pub(crate) n: i32,
    pub(crate) k: i32,
    pub(crate) left: Operand,
    pub(crate) right: Operand,
    pub(crate) result: Operand,
    pub(crate) batch: i32,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
}

/// The product by columns that computes `gemm`; `None` if there is nothing to compute; an error if `gemm` contradicts itself or
/// is beyond what a library counts with.
pub(crate) fn by_columns(gemm: &Gemm) -> Result<Option<Product>, String> {
    let Gemm { m, n, k, a, b, c, batch, alpha, beta } = *gemm;
    if m == 0 || n == 0 || batch == 0 {
        return Ok(None);
    }
    if k == 0 {
        return Err(format!("a product of {m} x {n} with sums of 0 terms"));
    }
    if a.dtype != b.dtype || (a.dtype, c.dtype) == (Dtype::F32, Dtype::Bf16) {
        let [a, b, c] = [a.dtype, b.dtype, c.dtype].map(Dtype::name);
        return Err(format!(
            "a product of {a} and {b} into {c}: must be of f32 into f32, or of bf16 into bf16 or f32"
        ));
    }
    if c.transposed {
        return Err("a product into a transposed matrix".to_owned());
    }
    if batch > 1 && c.batch_stride == 0 {
        return Err(format!("a batch of {batch} products into one matrix"));
    }
    let stored =
        |x: Matrix, rows: usize, columns: usize| if x.transposed { (columns, rows) } else { (rows, columns) };
    Ok(Some(Product {
        m: count(n)?,
        n: count(m)?,
        k: count(k)?,
        left: operand("right", b, stored(b, k, n))?,
        right: operand("left", a, stored(a, m, k))?,
        result: operand("result's", c, (m, n))?,
        batch: count(batch)?,
        alpha,
        beta,
    }))
}

fn operand<A: Access>(which: &str, x: Matrix<A>, (rows, columns): (usize, usize)) -> Result<Operand, String> {
    // Of a single row, the stride says nothing; a library checks it all the same.
    let leading = if rows == 1 { x.stride.max(columns) } else { x.stride };
    if leading < columns {
        return Err(format!("the {which} rows of {columns} numbers are only {leading} numbers apart"));
    }
    let stride = i64::try_from(x.batch_stride).map_err(|_| too_many(x.batch_stride))?;
    Ok(Operand {
        address: x.address,
        dtype: x.dtype,
        leading: count(leading)?,
        stride,
        transposed: x.transposed,
    })
}

fn count(n: usize) -> Result<i32, String> {
    i32::try_from(n).map_err(|_| too_many(n))
}

fn too_many(n: usize) -> String {
    format!("{n} is more than a matrix product counts with ({})", i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptr::{Ptr, Real, Write};

    fn matrix<A: Access>(address: u64, dtype: Dtype, stride: usize) -> Matrix<A> {
        Matrix::new(Ptr::<Real, A>::new(address, dtype), stride)
    }

    /// `alpha op(left) op(right) + beta result` by the definition of BLAS: element `(i, j)` of a matrix is at `i + j leading`.
    fn multiply_by_columns(p: &Product, memory: &mut [f64]) {
        let at = |x: &Operand, batch: usize, i: usize, j: usize| {
            let (i, j) = if x.transposed { (j, i) } else { (i, j) };
            x.address as usize + batch * x.stride as usize + i + j * x.leading as usize
        };
        for batch in 0..p.batch as usize {
            for (i, j) in (0..p.m as usize).flat_map(|i| (0..p.n as usize).map(move |j| (i, j))) {
                let term = |l| memory[at(&p.left, batch, i, l)] * memory[at(&p.right, batch, l, j)];
                let sum: f64 = (0..p.k as usize).map(term).sum();
                let to = at(&p.result, batch, i, j);
                memory[to] = f64::from(p.alpha) * sum + f64::from(p.beta) * memory[to];
            }
        }
    }

    /// The product by the definition of [`Gemm`]: element `(i, j)` of a matrix is at `i stride + j`.
    fn multiply_by_rows(g: &Gemm, memory: &mut [f64]) {
        fn at<A>(x: &Matrix<A>, batch: usize, i: usize, j: usize) -> usize {
            let (i, j) = if x.transposed { (j, i) } else { (i, j) };
            x.address as usize + batch * x.batch_stride + i * x.stride + j
        }
        for batch in 0..g.batch {
            for (i, j) in (0..g.m).flat_map(|i| (0..g.n).map(move |j| (i, j))) {
                let term = |l| memory[at(&g.a, batch, i, l)] * memory[at(&g.b, batch, l, j)];
                let sum: f64 = (0..g.k).map(term).sum();
                let to = at(&g.c, batch, i, j);
                memory[to] = f64::from(g.alpha) * sum + f64::from(g.beta) * memory[to];
            }
        }
    }

    /// A matrix with a gap after every row, and after itself.
    fn gapped<A: Access>(address: u64, (rows, columns): (usize, usize), t: bool, gap: usize) -> Matrix<A> {
        let (rows, columns) = if t { (columns, rows) } else { (rows, columns) };
        let stride = columns + gap;
        let x = matrix(address, Dtype::F32, stride).every(rows * stride + gap);
        if t { x.t() } else { x }
    }

    #[test]
    fn the_product_by_columns_is_the_product_by_rows() {
        let shapes = [(1, 1, 1), (3, 4, 5), (7, 2, 3), (1, 5, 3), (4, 1, 2), (2, 3, 1)];
        let mut compared = 0;
        for (m, n, k) in shapes {
            for case in 0..4 {
                for (gap, batch) in [(0, 1), (1, 1), (3, 2), (0, 3)] {
                    let a: Matrix = gapped(5, (m, k), case & 1 == 1, gap);
                    let b: Matrix = gapped(1000, (k, n), case & 2 == 2, gap);
                    let c = gapped(2000, (m, n), false, gap);
                    for (alpha, beta, a) in [(1.0, 0.0, a), (0.5, 1.0, a), (-2.0, 0.25, a.every(0))] {
                        let gemm = Gemm { batch, alpha, beta, ..Gemm::new((m, n, k), a, b, c) };
                        let product = by_columns(&gemm).expect("consistent").expect("not empty");
                        // Whole numbers, so that sums are exact in any order.
                        let numbers: Vec<f64> = (0..3000).map(|i| f64::from(i * 7919 % 23 - 11)).collect();
                        let (mut one, mut other) = (numbers.clone(), numbers.clone());
                        multiply_by_columns(&product, &mut one);
                        multiply_by_rows(&gemm, &mut other);
                        assert_eq!(one, other, "{gemm:?}");
                        assert_ne!(one, numbers, "{gemm:?}");
                        compared += 1;
                    }
                }
            }
        }
        assert_eq!(compared, 6 * 4 * 4 * 3);
    }

    #[test]
    fn heads_that_lie_between_each_other_are_a_batch() {
        // Two heads of 3 numbers in rows of 6: the batch stride is smaller than a matrix.
        let x: Matrix = matrix(0, Dtype::Bf16, 6).every(3);
        let scores = matrix(100, Dtype::F32, 4).every(16);
        let gemm = Gemm { batch: 2, ..Gemm::new((4, 4, 3), x, x.t(), scores) };
        let p = by_columns(&gemm).expect("consistent").expect("not empty");
        assert_eq!((p.m, p.n, p.k, p.batch), (4, 4, 3, 2));
        assert_eq!((p.left.leading, p.left.stride, p.left.transposed), (6, 3, true));
        assert_eq!((p.right.leading, p.right.stride, p.right.transposed), (6, 3, false));
    }

    #[test]
    fn one_row_may_have_any_stride() {
        let [a, b]: [Matrix; 2] = [0, 10].map(|address| matrix(address, Dtype::F32, 0));
        let gemm = Gemm::new((1, 1, 4), a, b.t(), matrix(20, Dtype::F32, 0));
        let p = by_columns(&gemm).expect("one row each").expect("not empty");
        assert_eq!((p.left.leading, p.right.leading, p.result.leading), (4, 4, 1));
    }

    #[test]
    fn what_contradicts_itself_is_refused_in_one_line_and_nothing_is_nothing() {
        let [f, h]: [Matrix; 2] = [Dtype::F32, Dtype::Bf16].map(|dtype| matrix(0, dtype, 8));
        let [into_f, into_h]: [Matrix<Write>; 2] = [Dtype::F32, Dtype::Bf16].map(|dtype| matrix(0, dtype, 8));
        let ok = Gemm::new((2, 3, 4), f, f, into_f);
        for (gemm, expected) in [
            (Gemm { b: h, ..ok }, "f32 and bf16 into f32: must be of f32 into f32"),
            (Gemm { c: into_h, ..ok }, "f32 and f32 into bf16"),
            (Gemm { c: into_f.t(), ..ok }, "transposed"),
            (Gemm { k: 0, ..ok }, "sums of 0 terms"),
            (Gemm { batch: 2, ..ok }, "a batch of 2 products into one matrix"),
            (Gemm { k: 9, ..ok }, "the left rows of 9 numbers are only 8 numbers apart"),
            (Gemm { n: 9, ..ok }, "the right rows of 9 numbers are only 8 numbers apart"),
            (Gemm { m: 1 << 31, ..ok }, "2147483648 is more than a matrix product counts with"),
        ] {
            let error = by_columns(&gemm).expect_err(expected);
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        for c in [into_f, into_h] {
            assert!(by_columns(&Gemm { a: h, b: h, c, ..ok }).is_ok());
        }
        for empty in [Gemm { m: 0, ..ok }, Gemm { n: 0, ..ok }, Gemm { batch: 0, ..ok }] {
            assert_eq!(by_columns(&empty), Ok(None));
        }
    }
}
