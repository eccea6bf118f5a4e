//! Matrix products by loops, summed in `f32` in the order of the terms.

use grpo_lambda_gpu::ptr::Access;
use grpo_lambda_gpu::{Dtype, Gemm, Matrix};
use half::bf16;
use rayon::prelude::*;

fn read(address: u64, dtype: Dtype) -> f32 {
    // SAFETY: the caller has checked that the matrix lies in live memory.
    unsafe {
        match dtype {
            Dtype::F32 => (address as *const f32).read(),
            Dtype::Bf16 => (address as *const bf16).read().to_f32(),
        }
    }
}

fn write(address: u64, dtype: Dtype, x: f32) {
    // SAFETY: as in `read`.
    unsafe {
        match dtype {
            Dtype::F32 => (address as *mut f32).write(x),
            Dtype::Bf16 => (address as *mut bf16).write(bf16::from_f32(x)),
        }
    }
}

/// The address of number `(row, column)` of matrix `batch`, rows and columns after transposition.
fn at<A: Access>(matrix: Matrix<A>, batch: usize, row: usize, column: usize) -> u64 {
    let (row, column) = if matrix.transposed { (column, row) } else { (row, column) };
    let index = batch * matrix.batch_stride + row * matrix.stride + column;
    matrix.address + (index * matrix.dtype.bytes()) as u64
}

/// `rows x columns` in row-major order.
fn dense(matrix: Matrix, batch: usize, rows: usize, columns: usize) -> Vec<f32> {
    let number = |i| read(at(matrix, batch, i / columns, i % columns), matrix.dtype);
    (0..rows * columns).map(number).collect()
}

fn check<A: Access>(
    name: &str,
    matrix: Matrix<A>,
    batch: usize,
    (rows, columns): (usize, usize),
    holds: &impl Fn(u64, usize) -> bool,
) -> Result<(), String> {
    let stored = if matrix.transposed { rows } else { columns };
    if matrix.stride < stored {
        return Err(format!("{name} has rows of {stored} numbers at a stride of {}", matrix.stride));
    }
    let (first, last) = (at(matrix, 0, 0, 0), at(matrix, batch - 1, rows - 1, columns - 1));
    match holds(first, (last - first) as usize + matrix.dtype.bytes()) {
        true => Ok(()),
        false => Err(format!("{name}, {batch} of {rows} x {columns}, does not lie in one live allocation")),
    }
}

/// Computes it; `holds` says whether bytes are live.
pub(crate) fn run(gemm: &Gemm, holds: impl Fn(u64, usize) -> bool) -> Result<(), String> {
    let Gemm { m, n, k, a, b, c, batch, alpha, beta } = *gemm;
    if a.dtype != b.dtype {
        return Err("its factors differ in dtype".to_owned());
    }
    if c.transposed {
        return Err("its result is transposed".to_owned());
    }
    if batch == 0 || m == 0 || n == 0 {
        return Ok(());
    }
    if k > 0 {
        check("A", a, batch, (m, k), &holds)?;
        check("B", b, batch, (k, n), &holds)?;
    }
    check("C", c, batch, (m, n), &holds)?;
    for i in 0..batch {
        let (left, right) = (dense(a, i, m, k), dense(b, i, k, n));
        let row = |r: usize| {
            let mut sums = vec![0.0f32; n];
            for (x, line) in left[r * k..(r + 1) * k].iter().zip(right.chunks_exact(n)) {
                for (sum, y) in sums.iter_mut().zip(line) {
                    *sum += x * y;
                }
            }
            for (j, sum) in sums.into_iter().enumerate() {
                let to = at(c, i, r, j);
                let before = if beta == 0.0 { 0.0 } else { beta * read(to, c.dtype) };
                write(to, c.dtype, alpha * sum + before);
            }
        };
        match m * n * k {
            0..65_536 => (0..m).for_each(row),
            _ => (0..m).into_par_iter().for_each(row),
        }
    }
    Ok(())
}
