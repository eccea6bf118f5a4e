//! The stand-in for cuBLAS: products as loops, queued on the card's stream.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments)] // the library is C

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use crate::driver::{Op, enqueue_on, has_context, version};
use crate::memory::{Global, Outside, outside};

const DONE: c_int = 0;
const NOT_INITIALIZED: c_int = 1;
const INVALID: c_int = 7;
const FAILED: c_int = 13;
const UNSUPPORTED: c_int = 15;

/// Types of numbers, as the library counts them: `f32` and `bf16`.
const SINGLE: c_int = 0;
const HALF: c_int = 14;
/// Sums in `f32` of exact products.
const COMPUTE: c_int = 68;

/// A matrix, and its distance to the next of a batch.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    address: u64,
    ty: c_int,
    leading: u64,
    every: i64,
    transposed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    sizes: [u64; 3],
    alpha: f32,
    beta: f32,
    matrices: [Matrix; 3],
    batch: i64,
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

#[derive(Default)]
struct Handle {
    stream: u64,
    workspace: u64,
}

static HANDLES: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

fn with(handle: usize, f: impl FnOnce(&mut Handle) -> c_int) -> c_int {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    handle.checked_sub(1).and_then(|at| handles.get_mut(at)).map_or(NOT_INITIALIZED, f)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasCreate_v2(handle: *mut usize) -> c_int {
    if !has_context() {
        return NOT_INITIALIZED;
    }
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    handles.push(Handle::default());
    // SAFETY: the caller gives a valid address.
    unsafe { *handle = handles.len() };
    DONE
}

#[unsafe(no_mangle)]
extern "C" fn cublasDestroy_v2(handle: usize) -> c_int {
    with(handle, |_| DONE)
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetStream_v2(handle: usize, stream: u64) -> c_int {
    with(handle, |handle| {
        *handle = Handle { stream, workspace: 0 };
        DONE
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetWorkspace_v2(handle: usize, workspace: u64, _bytes: usize) -> c_int {
    if !workspace.is_multiple_of(256) {
        return INVALID;
    }
    with(handle, |handle| {
        handle.workspace = workspace;
        DONE
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetMathMode(handle: usize, mode: c_int) -> c_int {
    with(handle, |_| if mode & !(3 | 16) == 0 { DONE } else { INVALID })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGetProperty(property: c_int, value: *mut c_int) -> c_int {
    // SAFETY: the caller gives a valid address.
    unsafe { *value = if property == 0 { version() / 1000 } else { 0 } };
    DONE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGemmStridedBatchedEx(
    handle: usize,
    ta: c_int,
    tb: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const f32,
    a: u64,
    at: c_int,
    lda: c_int,
    sa: i64,
    b: u64,
    bt: c_int,
    ldb: c_int,
    sb: i64,
    beta: *const f32,
    c: u64,
    ct: c_int,
    ldc: c_int,
    sc: i64,
    batch: c_int,
    compute: c_int,
    _algorithm: c_int,
) -> c_int {
    let matrix = |address, ty, leading: c_int, every, transposed: c_int| Matrix {
        address,
        ty,
        leading: leading.max(0) as u64,
        every,
        transposed: transposed != 0,
    };
    let matrices = [matrix(a, at, lda, sa, ta), matrix(b, bt, ldb, sb, tb), matrix(c, ct, ldc, sc, 0)];
    let rows = |transposed: c_int, rows, columns| if transposed == 0 { rows } else { columns };
    if m < 1 || n < 1 || k < 0 || batch < 0 || lda < rows(ta, m, k) || ldb < rows(tb, k, n) || ldc < m {
        return INVALID;
    }
    if at != bt || ![(SINGLE, SINGLE), (HALF, HALF), (HALF, SINGLE)].contains(&(at, ct)) || compute != COMPUTE
    {
        return UNSUPPORTED;
    }
    // SAFETY: the caller gives two valid addresses.
    let (alpha, beta) = unsafe { (*alpha, *beta) };
    let sizes = [m as u64, n as u64, k as u64];
    let product = Product { sizes, alpha, beta, matrices, batch: i64::from(batch) };
    with(handle, |handle| match has_context() && handle.workspace != 0 {
        true if enqueue_on(handle.stream, Op::Product(product)) => DONE,
        true => FAILED,
        false => INVALID,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGemmEx(
    handle: usize,
    ta: c_int,
    tb: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const f32,
    a: u64,
    at: c_int,
    lda: c_int,
    b: u64,
    bt: c_int,
    ldb: c_int,
    beta: *const f32,
    c: u64,
    ct: c_int,
    ldc: c_int,
    compute: c_int,
    algorithm: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        cublasGemmStridedBatchedEx(
            handle, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c, ct, ldc, 0, 1, compute,
            algorithm,
        )
    }
}
