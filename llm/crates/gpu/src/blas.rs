//! A product of row-major matrices as the product of column-major ones that BLAS libraries compute.
//!
//! A row-major matrix of row stride `s`, read by columns, is its own transpose with leading dimension `s`. So `C = op(A) op(B)` is asked
//! for as `C^T = op(B)^T op(A)^T`: the factors change places, `m` and `n` too, and each keeps its operation. `check` compares such products in
//! every transposition with sums by rows.

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
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
}

/// The product by columns that computes `gemm`; an error if `gemm` is empty, contradicts itself or is beyond what a library counts with.
pub(crate) fn by_columns(gemm: &Gemm) -> Result<Product, String> {
    let Gemm { m, n, k, a, b, c, alpha, beta } = *gemm;
    if m == 0 || n == 0 || k == 0 {
        return Err(format!("a product of {m} x {n} with sums of {k} terms"));
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
    let stored =
        |x: Matrix, rows: usize, columns: usize| if x.transposed { (columns, rows) } else { (rows, columns) };
    Ok(Product {
        m: count(n)?,
        n: count(m)?,
        k: count(k)?,
        left: operand("right", b, stored(b, k, n))?,
        right: operand("left", a, stored(a, m, k))?,
        result: operand("result's", c, (m, n))?,
        alpha,
        beta,
    })
}

fn operand<A: Access>(which: &str, x: Matrix<A>, (rows, columns): (usize, usize)) -> Result<Operand, String> {
    // Of a single row, the stride says nothing; a library checks it all the same.
    let leading = if rows == 1 { x.stride.max(columns) } else { x.stride };
    if leading < columns {
        return Err(format!("the {which} rows of {columns} numbers are only {leading} numbers apart"));
    }
    Ok(Operand { address: x.address, dtype: x.dtype, leading: count(leading)?, transposed: x.transposed })
}

fn count(n: usize) -> Result<i32, String> {
    i32::try_from(n).map_err(|_| format!("{n} is more than a matrix product counts with ({})", i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptr::{Ptr, Real, Write};

    fn matrix<A: Access>(address: u64, dtype: Dtype, stride: usize) -> Matrix<A> {
        Matrix::new(Ptr::<Real, A>::new(address, dtype), stride)
    }

    #[test]
    fn one_row_may_have_any_stride() {
        let [a, b]: [Matrix; 2] = [0, 10].map(|address| matrix(address, Dtype::F32, 0));
        let gemm = Gemm::new((1, 1, 4), a, b.t(), matrix(20, Dtype::F32, 0));
        let p = by_columns(&gemm).expect("one row each");
        assert_eq!((p.left.leading, p.right.leading, p.result.leading), (4, 4, 1));
    }

    #[test]
    fn what_contradicts_itself_or_is_empty_is_refused_in_one_line() {
        let [f, h]: [Matrix; 2] = [Dtype::F32, Dtype::Bf16].map(|dtype| matrix(0, dtype, 8));
        let [into_f, into_h]: [Matrix<Write>; 2] = [Dtype::F32, Dtype::Bf16].map(|dtype| matrix(0, dtype, 8));
        let ok = Gemm::new((2, 3, 4), f, f, into_f);
        for (gemm, expected) in [
            (Gemm { b: h, ..ok }, "f32 and bf16 into f32: must be of f32 into f32"),
            (Gemm { c: into_h, ..ok }, "f32 and f32 into bf16"),
            (Gemm { c: into_f.t(), ..ok }, "transposed"),
            (Gemm { k: 0, ..ok }, "2 x 3 with sums of 0 terms"),
            (Gemm { m: 0, ..ok }, "0 x 3 with sums of 4 terms"),
            (Gemm { n: 0, ..ok }, "2 x 0 with sums of 4 terms"),
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
    }
}
