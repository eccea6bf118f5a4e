//! The substitute for cuBLAS: products as loops, queued on the card's stream.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments)] // the library is C

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use crate::driver::{Op, enqueue_on, has_context, version};
use crate::product::{HALF, Matrix, Product, SINGLE};

const DONE: c_int = 0;
const NOT_INITIALIZED: c_int = 1;
const INVALID: c_int = 7;
const FAILED: c_int = 13;
const UNSUPPORTED: c_int = 15;

/// Sums in `f32` of exact products.
const COMPUTE: c_int = 68;

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
    _algorithm: c_int,
) -> c_int {
    let matrix = |address, ty, leading: c_int, transposed: c_int| Matrix {
        address,
        ty,
        leading: leading.max(0) as u64,
        transposed: transposed != 0,
    };
    let matrices = [matrix(a, at, lda, ta), matrix(b, bt, ldb, tb), matrix(c, ct, ldc, 0)];
    let rows = |transposed: c_int, rows, columns| if transposed == 0 { rows } else { columns };
    if m < 1 || n < 1 || k < 0 || lda < rows(ta, m, k) || ldb < rows(tb, k, n) || ldc < m {
        return INVALID;
    }
    if at != bt || ![(SINGLE, SINGLE), (HALF, HALF), (HALF, SINGLE)].contains(&(at, ct)) || compute != COMPUTE
    {
        return UNSUPPORTED;
    }
    // SAFETY: the caller gives two valid addresses.
    let (alpha, beta) = unsafe { (*alpha, *beta) };
    let product = Product { sizes: [m as u64, n as u64, k as u64], alpha, beta, matrices };
    with(handle, |handle| match has_context() && handle.workspace != 0 {
        true if enqueue_on(handle.stream, Op::Product(product)) => DONE,
        true => FAILED,
        false => INVALID,
    })
}
