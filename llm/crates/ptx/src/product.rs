//! A product of matrices as loops, with every access checked.

use std::ffi::c_int;

use crate::memory::{Global, Outside, outside};

/// Types of numbers, as the library counts them: `f32` and `bf16`.
pub(crate) const SINGLE: c_int = 0;
pub(crate) const HALF: c_int = 14;
/// A matrix by columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) ty: c_int,
    pub(crate) leading: u64,
    pub(crate) transposed: bool,
}

/// `C = alpha A B + beta C`, column by column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) sizes: [u64; 3],
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
    pub(crate) matrices: [Matrix; 3],
}

impl Matrix {
    fn bytes(self) -> u64 {
        if self.ty == SINGLE { 4 } else { 2 }
    }

    /// Exchanges rows and columns.
    fn turned(self) -> Matrix {
        Matrix { transposed: !self.transposed, ..self }
    }

    /// Address of a number.
    fn at(self, row: u64, column: u64) -> u64 {
        let (row, column) = if self.transposed { (column, row) } else { (row, column) };
        self.address + (column * self.leading + row) * self.bytes()
    }

    /// Its numbers, column by column.
    fn dense(self, memory: &mut Global, rows: u64, columns: u64) -> Result<Vec<f32>, String> {
        let bytes = self.bytes() as usize;
        let (first, last) = (self.at(0, 0), self.at(rows - 1, columns - 1));
        let all = (last - first) as usize + bytes;
        let (data, written) = memory.span(first, all).map_err(|Outside| outside(first, all))?;
        let number = |(column, row)| {
            let at = (self.at(row, column) - first) as usize;
            let bits = match data[at..at + bytes] {
                [low, high] => [0, 0, low, high],
                [a, b, c, d] => [a, b, c, d],
                _ => [0; 4],
            };
            let reported = "a product reads what nobody wrote";
            if written[at..at + bytes].contains(&false) {
                Err(reported.to_owned())
            } else {
                Ok(f32::from_le_bytes(bits))
            }
        };
        (0..columns).flat_map(|column| (0..rows).map(move |row| (column, row))).map(number).collect()
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
        // Of every term the column of the left factor, and the row of the right one.
        let (left, right) = match k {
            0 => (Vec::new(), Vec::new()),
            _ => (a.dense(memory, m, k)?, b.turned().dense(memory, n, k)?),
        };
        let mut sums = vec![0.0_f32; (m * n) as usize];
        for (left, right) in left.chunks_exact(m as usize).zip(right.chunks_exact(n as usize)) {
            for (line, y) in sums.chunks_exact_mut(m as usize).zip(right) {
                line.iter_mut().zip(left).for_each(|(sum, x)| *sum += x * y);
            }
        }
        let before = if self.beta == 0.0 { vec![0.0; sums.len()] } else { c.dense(memory, m, n)? };
        for (at, (sum, before)) in sums.into_iter().zip(before).enumerate() {
            let address = c.at(at as u64 % m, at as u64 / m);
            c.put(memory, address, self.alpha * sum + self.beta * before)?;
        }
        Ok(())
    }
}
