//! Matrix products.

use std::marker::PhantomData;

use grpo_lambda_decoder::device::Dtype;

use super::ptr::{Access, Float, Ptr, Read, Write};

/// A matrix in row-major order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matrix<A = Read> {
    /// Address of its first element.
    pub address: u64,
    /// The storage of its elements.
    pub dtype: Dtype,
    /// Elements from one row as stored to the next.
    pub stride: usize,
    /// True to read it transposed; never for a result.
    pub transposed: bool,
    access: PhantomData<fn() -> A>,
}

/// A matrix that a product is stored in.
pub type MatrixMut = Matrix<Write>;

impl<A: Access> Matrix<A> {
    /// A matrix of this row stride.
    pub fn new<T: Float>(first: Ptr<T, A>, stride: usize) -> Self {
        let (address, dtype) = (first.address(), first.dtype());
        Matrix { address, dtype, stride, transposed: false, access: PhantomData }
    }

    /// Read transposed.
    pub fn t(self) -> Self {
        Matrix { transposed: !self.transposed, ..self }
    }
}

/// `C = alpha A B + beta C` with `A` `m x k`, `B` `k x n`, `C` `m x n` (after transposition).
///
/// `A` and `B` have one dtype; products are summed in `f32`. With `beta` = 0, `C` is not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// Left factor.
    pub a: Matrix,
    /// Right factor.
    pub b: Matrix,
    /// Result.
    pub c: MatrixMut,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of the previous `C`.
    pub beta: f32,
}

impl Gemm {
    /// `C = A B`.
    pub fn new((m, n, k): (usize, usize, usize), a: Matrix, b: Matrix, c: MatrixMut) -> Self {
        Gemm { m, n, k, a, b, c, alpha: 1.0, beta: 0.0 }
    }

    /// `C += A B`.
    pub fn accumulate(self) -> Self {
        Gemm { beta: 1.0, ..self }
    }

    /// A multiply-add counts two.
    pub(crate) fn operations(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Bytes of the factors and of the result, each once; a result that is added to is also read.
    pub(crate) fn bytes(&self) -> f64 {
        let bytes =
            |rows: usize, columns: usize, dtype: Dtype| rows as f64 * columns as f64 * dtype.bytes() as f64;
        let passes = if self.beta == 0.0 { 1.0 } else { 2.0 };
        let factors = bytes(self.m, self.k, self.a.dtype) + bytes(self.k, self.n, self.b.dtype);
        factors + passes * bytes(self.m, self.n, self.c.dtype)
    }
}
