//! A product of matrices as loops, with every access checked.

use std::ffi::c_int;

use crate::memory::{Global, Outside, outside};

/// Types of numbers, as the library counts them: `f32` and `bf16`.
pub(crate) const SINGLE: c_int = 0;
pub(crate) const HALF: c_int = 14;
/// A matrix, and its distance to the next of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) ty: c_int,
    pub(crate) leading: u64,
    pub(crate) every: i64,
    pub(crate) transposed: bool,
}

/// `C = alpha A B + beta C` for every matrix of a batch, column by column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) sizes: [u64; 3],
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
    pub(crate) matrices: [Matrix; 3],
    pub(crate) batch: i64,
}

impl Matrix {
    fn bytes(self) -> u64 {
        if self.ty == SINGLE { 4 } else { 2 }
    }

    /// Address of a number, in matrix `which`.
    fn at(self, which: i64, row: u64, column: u64) -> u64 {
        let (row, column) = if self.transposed { (column, row) } else { (row, column) };
        let first = self.address.wrapping_add_signed(which * self.every * self.bytes() as i64);
        first + (column * self.leading + row) * self.bytes()
    }

    fn get(self, memory: &mut Global, address: u64) -> Result<f32, String> {
        let found = if self.ty == SINGLE {
            memory.get::<4>(address)
        } else {
            memory.get::<2>(address).map(|([low, high], all)| ([0, 0, low, high], all))
        };
        match found {
            Ok((bytes, true)) => Ok(f32::from_le_bytes(bytes)),
            Ok(_) => Err("a product reads what nobody wrote".to_owned()),
            Err(Outside) => Err(outside(address, self.bytes() as usize)),
        }
    }

    fn put(self, memory: &mut Global, address: u64, x: f32) -> Result<(), String> {
        if self.ty == SINGLE {
            return memory.write(address, &x.to_le_bytes());
        }
        let bits = x.to_bits();
        let near = (u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16;
        memory.write(address, &(if x.is_nan() { 0x7fc0 } else { near as u16 }).to_le_bytes())
    }
}

impl Product {
    pub(crate) fn run(&self, memory: &mut Global) -> Result<(), String> {
        let ([m, n, k], [a, b, c]) = (self.sizes, self.matrices);
        for which in 0..self.batch {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for t in 0..k {
                for i in 0..m {
                    left.push(a.get(memory, a.at(which, i, t))?);
                }
                for j in 0..n {
                    right.push(b.get(memory, b.at(which, t, j))?);
                }
            }
            let mut sums = vec![0.0_f32; (m * n) as usize];
            for (left, right) in left.chunks_exact(m as usize).zip(right.chunks_exact(n as usize)) {
                for (line, y) in sums.chunks_exact_mut(m as usize).zip(right) {
                    line.iter_mut().zip(left).for_each(|(sum, x)| *sum += x * y);
                }
            }
            for (at, sum) in sums.into_iter().enumerate() {
                let address = c.at(which, at as u64 % m, at as u64 / m);
                let before = if self.beta == 0.0 { 0.0 } else { self.beta * c.get(memory, address)? };
                c.put(memory, address, self.alpha * sum + before)?;
            }
        }
        Ok(())
    }
}
