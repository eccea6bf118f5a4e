//! A CUDA card: driver, NVRTC and cuBLAS, opened when the program runs.
//!
//! One context, one stream. The driver of a machine with several cards shows those that `CUDA_VISIBLE_DEVICES` names. With
//! `CUDA_LAUNCH_BLOCKING=1` it waits for every kernel, so that the call that fails is the one that is named.
#![allow(unsafe_code)] // the libraries are C

mod compile;
mod failure;
mod libraries;
mod memory;
mod module;
mod products;
mod staging;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaGraph, CudaStream, DriverError, result};
use grpo_lambda_decoder::device::{DeviceError, Dtype};
use libraries::Versions;
use memory::Memory;
use module::Module;
use products::{Products, WORKSPACE};
use staging::Staging;

use super::blas;
use super::device::{Device, DriverMemory, Graph, Report};
use super::gemm::Gemm;
use super::ledger::Ledger;
use super::ptr::Arg;

/// A card. Its memory, kernels and stream live until the last graph of it is dropped, too.
#[derive(Clone, Debug)]
pub struct Cuda {
    card: Arc<Card>,
}

/// Fields are dropped in this order.
#[derive(Debug)]
struct Card {
    products: Products,
    /// Made for the first large array; `None` if the host has no such memory.
    staging: OnceLock<Option<Mutex<Staging>>>,
    /// Kernels in `f32` and in `bf16`.
    modules: [OnceLock<Module>; 2],
    memory: Memory,
    workspace: u64,
    ledger: Ledger,
    /// True while the stream captures instead of running.
    capturing: AtomicBool,
    versions: Versions,
    capability: u32,
    name: String,
    report: Report,
    stream: Arc<CudaStream>,
}

impl Cuda {
    /// The card of this number among those that the driver shows, with its kernels for `dtype`; `report` takes a line about the compiler.
    ///
    /// # Errors
    /// [`DeviceError::Missing`] if the driver, a library or the card is not there; [`DeviceError::Call`] if a call fails.
    pub fn open(number: usize, dtype: Dtype, report: Report) -> Result<Self, DeviceError> {
        let versions = libraries::open()?;
        let here = format!("card {number}");
        let cards = CudaContext::device_count().map_err(failure::driver("cuDeviceGetCount", &here))?;
        if i64::try_from(number).unwrap_or(i64::MAX) >= i64::from(cards) {
            return Err(DeviceError::Missing(format!(
                "there is no card {number}: the NVIDIA driver shows {cards}, counted from 0"
            )));
        }
        let opened = || {
            let context = CudaContext::new(number)?;
            Ok((context.name()?, context.compute_capability()?, context.new_stream()?))
        };
        let (name, (major, minor), stream) = opened().map_err(failure::driver("opening it", &here))?;
        let capability = u32::try_from(major * 10 + minor).unwrap_or(0);
        let memory = Memory::new(&stream).map_err(failure::driver("opening its memory", &name))?;
        let ledger = Ledger::default();
        let workspace = memory
            .allocate(WORKSPACE as u64)
            .map_err(|e| short_of_memory(e, "library workspace", WORKSPACE, &memory, &ledger, &name))?;
        ledger.take("library workspace", WORKSPACE);
        let products = Products::new(&stream, workspace, &name)?;
        let modules = [OnceLock::new(), OnceLock::new()];
        let capturing = AtomicBool::new(false);
        let card = Card {
            products,
            staging: OnceLock::new(),
            modules,
            memory,
            workspace,
            ledger,
            capturing,
            versions,
            capability,
            name,
            report,
            stream,
        };
        card.module(dtype)?;
        Ok(Cuda { card: Arc::new(card) })
    }

    /// The stream on which everything happens, for other libraries that are to keep its order.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.card.stream
    }
}

impl Card {
    /// The kernels for `dtype`; compiled on the first call.
    fn module(&self, dtype: Dtype) -> Result<&Module, DeviceError> {
        let cell = &self.modules[usize::from(dtype == Dtype::Bf16)];
        if let Some(module) = cell.get() {
            return Ok(module);
        }
        let code = compile::kernels(dtype, self.capability, self.versions.compiler, &self.name, self.report)?;
        let module = Module::load(self.stream.context(), &code, dtype, &self.name)?;
        // Should another thread have been faster, its module stays and this one is unloaded.
        Ok(cell.get_or_init(|| module))
    }

    /// Refuses what a graph cannot hold: addresses of the host, and memory that comes and goes.
    fn not_capturing(&self, call: &str) -> Result<(), DeviceError> {
        if self.capturing.load(Ordering::Relaxed) {
            return Err(failure::call(call, &self.name, "it may not happen while a sequence is recorded"));
        }
        Ok(())
    }

    /// Moves a large array through page-locked memory; `None` for one that is not large, or without such memory.
    fn staged<T>(&self, bytes: usize, copy: impl FnOnce(&mut Staging) -> T) -> Option<T> {
        if bytes < staging::LARGE {
            return None;
        }
        let staging =
            self.staging.get_or_init(|| Staging::new(self.stream.context()).ok().map(Mutex::new)).as_ref()?;
        Some(copy(&mut staging.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Binds the context to this thread and makes a call.
    fn call(&self, name: &str, call: impl FnOnce() -> Result<(), DriverError>) -> Result<(), DeviceError> {
        let context = self.stream.context();
        // What failed where nobody could be informed, in a drop, is not this call's.
        context.check_err().map_err(failure::driver("an earlier call", &self.name))?;
        context.bind_to_thread().and_then(|()| call()).map_err(failure::driver(name, &self.name))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // In the order of the stream, so after the last product.
        let _ = self.memory.free(self.workspace);
    }
}

fn short_of_memory(
    error: DriverError,
    what: &'static str,
    bytes: usize,
    memory: &Memory,
    ledger: &Ledger,
    device: &str,
) -> DeviceError {
    if error.0 != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return failure::call(
            format!("allocating {bytes} bytes for {what}"),
            device,
            failure::of_driver(error),
        );
    }
    let mib = |bytes: u64| bytes >> 20;
    DeviceError::OutOfMemory {
        what,
        wanted: Ledger::rounded(bytes).div_ceil(1 << 20),
        in_use: mib(ledger.total()),
        free: mib(memory.sizes().map_or(0, |(free, _)| free)),
        device: device.to_owned(),
    }
}

impl Device for Cuda {
    fn name(&self) -> String {
        self.card.name.clone()
    }

    fn identity(&self) -> Option<String> {
        let Card { name, capability, versions, .. } = &*self.card;
        Some(format!("{name}, {capability}, {}, llm-train {}", versions.text(), env!("CARGO_PKG_VERSION")))
    }

    fn allocate(&self, what: &'static str, bytes: usize) -> Result<u64, DeviceError> {
        self.card.not_capturing("allocate")?;
        let Card { memory, ledger, name, .. } = &*self.card;
        // The driver refuses 0 bytes; an empty buffer has an address all the same.
        let address = memory
            .allocate(Ledger::rounded(bytes.max(1)))
            .map_err(|e| short_of_memory(e, what, bytes, memory, ledger, name))?;
        ledger.take(what, bytes);
        Ok(address)
    }

    fn free(&self, what: &'static str, address: u64, bytes: usize) {
        // Nobody could be informed of a failure but the next call, which meets it too.
        let _ = self.card.memory.free(address);
        self.card.ledger.give(what, bytes);
    }

    fn ledger(&self) -> &Ledger {
        &self.card.ledger
    }

    fn memory(&self) -> Result<(u64, u64), DeviceError> {
        self.card.memory.sizes().map_err(failure::driver("cuMemGetInfo", &self.card.name))
    }

    fn driver_memory(&self) -> Result<DriverMemory, DeviceError> {
        self.card.memory.of_driver().map_err(failure::driver("cuMemPoolGetAttribute", &self.card.name))
    }

    fn restart_driver_peak(&self) -> Result<(), DeviceError> {
        self.card.not_capturing("restart_driver_peak")?;
        self.card.memory.restart_peak().map_err(failure::driver("cuMemPoolTrimTo", &self.card.name))
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.card.not_capturing("upload")?;
        if bytes.is_empty() {
            return Ok(());
        }
        let stream = &self.card.stream;
        self.card.call("cuMemcpyHtoDAsync", || {
            if let Some(done) = self.card.staged(bytes.len(), |s| s.upload(stream, address, bytes)) {
                return done;
            }
            // SAFETY: the destination is the caller's buffer of that size, and the source lives until the copy is waited for.
            unsafe { result::memcpy_htod_async(address, bytes, stream.cu_stream()) }?;
            stream.synchronize()
        })
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.card.not_capturing("download")?;
        let stream = &self.card.stream;
        self.card.call("cuMemcpyDtoHAsync", || {
            if let Some(done) = self.card.staged(bytes.len(), |s| s.download(stream, address, bytes)) {
                return done;
            }
            if !bytes.is_empty() {
                // SAFETY: the source is the caller's buffer of that size; the destination is not touched before the wait.
                unsafe { result::memcpy_dtoh_async(bytes, address, stream.cu_stream()) }?;
            }
            stream.synchronize()
        })
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), DeviceError> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.card.stream.cu_stream();
        // SAFETY: both are the caller's buffers of that size, and do not overlap.
        self.card.call("cuMemcpyDtoDAsync", || unsafe { result::memcpy_dtod_async(to, from, bytes, stream) })
    }

    fn clear(&self, address: u64, bytes: usize) -> Result<(), DeviceError> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.card.stream.cu_stream();
        // SAFETY: it is the caller's buffer of that size.
        self.card.call("cuMemsetD8Async", || unsafe { result::memset_d8_async(address, 0, bytes, stream) })
    }

    fn launch(
        &self,
        name: &'static str,
        dtype: Dtype,
        grid: (u32, u32),
        block: u32,
        args: &[Arg],
    ) -> Result<(), DeviceError> {
        let function = self.card.module(dtype)?.function(name, &self.card.name)?;
        let mut values: Vec<u64> = args.iter().map(module::bits).collect();
        let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|x| (&raw mut *x).cast()).collect();
        let stream = self.card.stream.cu_stream();
        self.card.call(name, || {
            // SAFETY: the function is of a module that lives as long as the card; the values are read during the call. That
            // they are those of the kernel, and the addresses valid, is what the types of `kernels` see to.
            unsafe {
                result::launch_kernel(function, (grid.0, grid.1, 1), (block, 1, 1), 0, stream, &mut pointers)
            }
        })
    }

    fn gemm(&self, gemm: &Gemm) -> Result<(), DeviceError> {
        let name = &self.card.name;
        let product =
            blas::by_columns(gemm).map_err(|reason| failure::call("a matrix product", name, reason))?;
        self.card.products.launch(&product, name)
    }

    fn begin_capture(&self) -> Result<(), DeviceError> {
        self.card.not_capturing("begin_capture")?;
        // Calls that cannot be captured fail then, in this thread; others go on.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.card.call("cuStreamBeginCapture", || self.card.stream.begin_capture(mode))?;
        self.card.capturing.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn end_capture(&self) -> Result<Box<dyn Graph>, DeviceError> {
        let name = &self.card.name;
        if !self.card.capturing.swap(false, Ordering::Relaxed) {
            return Err(failure::call("end_capture", name, "nothing is recorded"));
        }
        // An error that a drop left must not keep the stream in capture mode.
        let earlier = self.card.stream.context().check_err();
        let ended = self.card.stream.end_capture(CUgraphInstantiate_flags(0));
        earlier.map_err(failure::driver("an earlier call", name))?;
        let graph = ended.map_err(failure::driver("cuStreamEndCapture", name))?;
        let graph = graph.ok_or_else(|| failure::call("cuStreamEndCapture", name, "it gave no graph"))?;
        graph.upload().map_err(failure::driver("cuGraphUpload", name))?;
        Ok(Box::new(Captured { graph, card: self.card.clone() }))
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.card.not_capturing("synchronize")?;
        self.card.call("waiting for the card", || self.card.stream.synchronize())
    }
}

/// A captured graph, with the card whose kernels and workspace are in it.
struct Captured {
    graph: CudaGraph,
    card: Arc<Card>,
}

// SAFETY: a graph belongs to the context, not to a thread, and may be used by one thread at a time, which is what an owner that is not
// `Sync` does; every call binds the context to its thread first.
unsafe impl Send for Captured {}

impl Graph for Captured {
    fn replay(&self) -> Result<(), DeviceError> {
        self.graph.launch().map_err(failure::driver("cuGraphLaunch", &self.card.name))
    }
}
