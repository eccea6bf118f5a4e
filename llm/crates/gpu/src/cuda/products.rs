//! cuBLAS: matrix products.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublas::result as blas;
use cudarc::cublas::result::CublasError;
use cudarc::cublas::sys::{
    self, cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasMath_t, cublasOperation_t,
    cudaDataType,
};
use cudarc::driver::CudaStream;
use grpo_lambda_decoder::device::{DeviceError, Dtype};

use super::failure;
use crate::blas::{Operand, Product};

/// Bytes of cuBLAS's workspace, given once: a captured product cannot allocate, and with one workspace cuBLAS always sums in the same order.
pub(super) const WORKSPACE: usize = 64 << 20;

/// A handle of cuBLAS on one stream.
#[derive(Debug)]
pub(super) struct Products {
    handle: Mutex<Handle>,
    stream: Arc<CudaStream>,
}

#[derive(Debug)]
struct Handle(cublasHandle_t);

// SAFETY: a handle belongs to the context, not to a thread; the lock above gives it to one thread at a time.
unsafe impl Send for Handle {}

impl Products {
    /// Multiplies on `stream`, with [`WORKSPACE`] bytes at `workspace` to work in.
    ///
    /// The workspace must stay allocated for as long as this lives and graphs with its products are replayed.
    pub(super) fn new(stream: &Arc<CudaStream>, workspace: u64, device: &str) -> Result<Self, DeviceError> {
        let failed =
            |call: &'static str| move |e: CublasError| failure::call(call, device, format!("{:?}", e.0));
        stream.context().bind_to_thread().map_err(failure::driver("cuCtxSetCurrent", device))?;
        let handle = blas::create_handle().map_err(failed("cublasCreate"))?;
        let products = Products { handle: Mutex::new(Handle(handle)), stream: stream.clone() };
        // SAFETY: handle and stream live as long as `products`.
        unsafe { blas::set_stream(handle, stream.cu_stream().cast()) }.map_err(failed("cublasSetStream"))?;
        // After the stream, which resets it.
        // SAFETY: the caller keeps the memory.
        unsafe { sys::cublasSetWorkspace_v2(handle, workspace as *mut c_void, WORKSPACE) }
            .result()
            .map_err(failed("cublasSetWorkspace"))?;
        // Sums of parts stay in f32 where the result is bf16.
        let mode = cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
        // SAFETY: the handle is valid.
        unsafe { sys::cublasSetMathMode(handle, mode) }.result().map_err(failed("cublasSetMathMode"))?;
        Ok(products)
    }

    /// Launches a product.
    pub(super) fn launch(&self, p: &Product, device: &str) -> Result<(), DeviceError> {
        self.stream.context().bind_to_thread().map_err(failure::driver("cuCtxSetCurrent", device))?;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, right, result) = (&p.left, &p.right, &p.result);
        // SAFETY: the handle is valid and locked. That the matrices lie in allocated memory is what `Device::gemm` asks of its
        // caller, and the shapes were checked against the leading dimensions. The factors are read from the host during the call.
        let launched = unsafe {
            blas::gemm_ex(
                handle.0,
                operation(left),
                operation(right),
                p.m,
                p.n,
                p.k,
                (&raw const p.alpha).cast::<c_void>(),
                left.address as *const c_void,
                element_type(left),
                left.leading,
                right.address as *const c_void,
                element_type(right),
                right.leading,
                (&raw const p.beta).cast::<c_void>(),
                result.address as *mut c_void,
                element_type(result),
                result.leading,
                COMPUTE,
                ALGORITHM,
            )
        };
        launched.map_err(|e| {
            let [m, n, k] = [p.n, p.m, p.k];
            let types = [right, left, result].map(|x| x.dtype.name()).join(", ");
            let call = format!("a product of {m} x {k} and {k} x {n} ({types}) in cuBLAS");
            failure::call(call, device, format!("{:?}", e.0))
        })
    }
}

/// Sums in f32 of products that are exact: no TF32 for f32.
const COMPUTE: cublasComputeType_t = cublasComputeType_t::CUBLAS_COMPUTE_32F;
const ALGORITHM: cublasGemmAlgo_t = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;

impl Drop for Products {
    fn drop(&mut self) {
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner);
        if self.stream.context().bind_to_thread().is_ok() {
            // SAFETY: it was created in `new` and is destroyed here alone. Should that fail, some memory is lost.
            let _ = unsafe { blas::destroy_handle(handle.0) };
        }
    }
}

fn operation(x: &Operand) -> cublasOperation_t {
    if x.transposed { cublasOperation_t::CUBLAS_OP_T } else { cublasOperation_t::CUBLAS_OP_N }
}

fn element_type(x: &Operand) -> cudaDataType {
    match x.dtype {
        Dtype::F32 => cudaDataType::CUDA_R_32F,
        Dtype::Bf16 => cudaDataType::CUDA_R_16BF,
    }
}
