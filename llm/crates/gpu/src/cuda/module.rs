//! Kernels on the card: machine code that was loaded, and its entry points.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::result::module;
use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUmodule};
use cudarc::driver::{CudaContext, DriverError, result};
use grpo_lambda_decoder::device::{DeviceError, Dtype};

use super::failure;
use crate::kernels;
use crate::ptr::Arg;

/// Loaded machine code and its entry points.
#[derive(Debug)]
pub(super) struct Module {
    context: Arc<CudaContext>,
    handle: CUmodule,
    functions: BTreeMap<&'static str, CUfunction>,
}

// SAFETY: modules and functions belong to the context, not to a thread; every call binds the context to its thread first.
unsafe impl Send for Module {}
// SAFETY: likewise, and nothing here changes them after loading.
unsafe impl Sync for Module {}

impl Module {
    /// Loads `code` and finds every kernel in it.
    pub(super) fn load(
        context: &Arc<CudaContext>,
        code: &[u8],
        dtype: Dtype,
        device: &str,
    ) -> Result<Self, DeviceError> {
        context.bind_to_thread().map_err(failure::driver("cuCtxSetCurrent", device))?;
        // SAFETY: `code` is what NVRTC made, machine code or text that ends with a zero; the driver copies it.
        let handle = unsafe { module::load_data(code.as_ptr().cast::<c_void>()) }
            .map_err(failure::driver("cuModuleLoadData", device))?;
        let mut loaded = Module { context: context.clone(), handle, functions: BTreeMap::new() };
        for name in kernels::names() {
            let symbol = format!("{name}_{}", dtype.name());
            let text =
                CString::new(symbol.as_str()).map_err(|e| failure::call(&symbol, device, e.to_string()))?;
            // SAFETY: the module was loaded above and is unloaded when `loaded` is dropped.
            let function = unsafe { module::get_function(handle, text) }
                .map_err(|e| failure::call(format!("finding {symbol}"), device, failure::of_driver(e)))?;
            prefer_shared_memory(function).map_err(failure::driver("cuFuncSetAttribute", device))?;
            loaded.functions.insert(name, function);
        }
        Ok(loaded)
    }

    /// The kernel of this name.
    pub(super) fn function(&self, name: &str, device: &str) -> Result<CUfunction, DeviceError> {
        let found = self.functions.get(name).copied();
        found.ok_or_else(|| failure::call(name, device, "there is no such kernel"))
    }
}

/// Static shared memory, in bytes, from which a kernel's blocks per multiprocessor depend on how much of the first-level cache is shared memory.
const MUCH: i32 = 16 << 10;

/// Asks for all the shared memory that a multiprocessor can have, for a kernel whose blocks take much of it; the driver would guess.
fn prefer_shared_memory(function: CUfunction) -> Result<(), DriverError> {
    use CUfunction_attribute::{
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT as CARVEOUT,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as STATIC,
    };
    // SAFETY: the function is of a loaded module.
    unsafe {
        match result::function::get_function_attribute(function, STATIC)? >= MUCH {
            true => result::function::set_function_attribute(function, CARVEOUT, 100),
            false => Ok(()),
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Work under way may be of its kernels.
        let idle = self.context.bind_to_thread().and_then(|()| result::ctx::synchronize());
        if idle.is_ok() {
            // SAFETY: it was loaded, nothing runs, and its functions go with it. Should that fail, some memory is lost.
            let _ = unsafe { module::unload(self.handle) };
        }
    }
}

/// The value of an argument in the low bytes of eight: what a kernel reads at the address of the eight, little-endian as every host
/// with CUDA is.
pub(super) fn bits(arg: &Arg) -> u64 {
    match *arg {
        Arg::Pointer { address, .. } => address,
        Arg::Null => 0,
        Arg::U64(x) => x,
        Arg::U32(x) => u64::from(x),
        Arg::F32(x) => u64::from(x.to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptr::Ptr;

    #[test]
    fn a_kernel_reads_its_arguments_at_the_address_of_their_bits() {
        let at = |arg| bits(&arg).to_ne_bytes();
        let pointer = Ptr::<f32>::new(0x0102_0304_0506_0708, Dtype::F32);
        assert_eq!(at(pointer.into()), 0x0102_0304_0506_0708_u64.to_ne_bytes());
        assert_eq!(at(Arg::Null), [0; 8]);
        assert_eq!(at(Arg::U64(u64::MAX - 1)), (u64::MAX - 1).to_ne_bytes());
        assert_eq!(at(Arg::U32(0x8000_0001))[..4], 0x8000_0001_u32.to_ne_bytes());
        assert_eq!(at(Arg::F32(-1.5))[..4], (-1.5_f32).to_ne_bytes());
    }
}
