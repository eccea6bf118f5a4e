//! Memory of the card, in the order of the stream.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::result::{self, DriverError, mem_pool};
use cudarc::driver::sys::{CUmemPool_attribute, CUmemoryPool, CUresult};
use cudarc::driver::{CudaContext, CudaStream};

use crate::device::DriverMemory;
use crate::free_list::FreeList;

/// Memory of one card.
#[derive(Debug)]
pub(super) struct Memory {
    stream: Arc<CudaStream>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The driver's pool, which keeps freed memory.
    Pool(Pool),
    /// The driver itself, if it has no pools; freed memory is kept here.
    Plain(Mutex<Kept>),
}

#[derive(Debug)]
struct Pool(CUmemoryPool);

// SAFETY: a pool belongs to the device and may be used by any thread.
unsafe impl Send for Pool {}
// SAFETY: likewise.
unsafe impl Sync for Pool {}

/// Memory of one stream is used again in the order of the stream, so nothing need be waited for.
#[derive(Debug, Default)]
struct Kept {
    free: FreeList,
    /// Sizes of what is in use, by address: a block may be larger than was asked for.
    sizes: BTreeMap<u64, u64>,
    /// Bytes that the driver gave, now and at most.
    held: u64,
    peak: u64,
}

impl Kept {
    /// Memory of the driver's.
    fn fresh(&mut self, bytes: u64) -> Result<u64, DriverError> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the caller has bound the context; what lies there is undefined, as it knows.
        let address = unsafe { result::malloc_sync(size) }?;
        self.held += bytes;
        self.peak = self.peak.max(self.held);
        Ok(address)
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of the card that the pool does not keep.
const OUTSIDE: u64 = 2 << 30;

impl Memory {
    /// The memory of `stream`'s card.
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self, DriverError> {
        let context: &CudaContext = stream.context();
        if !context.has_async_alloc() {
            return Ok(Memory { stream: stream.clone(), source: Source::Plain(Mutex::default()) });
        }
        context.bind_to_thread()?;
        // SAFETY: the device is that of the context.
        let pool = unsafe { result::device::get_mem_pool(context.cu_device()) }?;
        // What is given back stays for the next request, but for what graphs, modules and libraries take from outside the pool.
        let (pool, threshold) = (Pool(pool), (result::mem_get_info()?.1 as u64).saturating_sub(OUTSIDE));
        pool.set(CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold)?;
        Ok(Memory { stream: stream.clone(), source: Source::Pool(pool) })
    }

    /// Allocates so many bytes, more than 0. If they are refused, everything kept is given back and they are asked for again.
    pub(super) fn allocate(&self, bytes: u64) -> Result<u64, DriverError> {
        self.stream.context().bind_to_thread()?;
        match self.take(bytes) {
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                self.trim()?;
                self.take(bytes)
            }
            taken => taken,
        }
    }

    fn take(&self, bytes: u64) -> Result<u64, DriverError> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        match &self.source {
            // SAFETY: the stream lives as long as `self`; all uses of the memory are on it.
            Source::Pool(_) => unsafe { result::malloc_async(self.stream.cu_stream(), size) },
            Source::Plain(kept) => {
                let mut kept = lock(kept);
                let (address, size) = match kept.free.take(bytes) {
                    Some(block) => block,
                    None => (kept.fresh(bytes)?, bytes),
                };
                kept.sizes.insert(address, size);
                Ok(address)
            }
        }
    }

    /// Frees what [`Memory::allocate`] gave.
    pub(super) fn free(&self, address: u64) -> Result<(), DriverError> {
        self.stream.context().bind_to_thread()?;
        match &self.source {
            // SAFETY: it was allocated here and its owner gives it up; what was launched before is done with it first.
            Source::Pool(_) => unsafe { result::free_async(address, self.stream.cu_stream()) },
            Source::Plain(kept) => {
                let mut kept = lock(kept);
                if let Some(size) = kept.sizes.remove(&address) {
                    kept.free.give(address, size);
                }
                Ok(())
            }
        }
    }

    /// Gives unused memory back to the driver.
    fn trim(&self) -> Result<(), DriverError> {
        self.stream.synchronize()?;
        match &self.source {
            // SAFETY: the pool is the device's.
            Source::Pool(pool) => unsafe { mem_pool::trim_to(pool.0, 0) },
            Source::Plain(kept) => {
                let mut kept = lock(kept);
                kept.held -= kept.free.bytes();
                let blocks = kept.free.drain();
                // SAFETY: each was allocated here, is in use no more, and the stream is idle.
                blocks.into_iter().try_for_each(|address| unsafe { result::free_sync(address) })
            }
        }
    }

    /// The driver's account.
    pub(super) fn of_driver(&self) -> Result<DriverMemory, DriverError> {
        let (free, total) = self.stream.context().mem_get_info()?;
        let (held, peak) = match &self.source {
            Source::Pool(pool) => {
                let held = pool.number(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
                // A peak that was set to 0 may stay 0 until the pool grows.
                (held, held.max(pool.number(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?))
            }
            Source::Plain(kept) => {
                let kept = lock(kept);
                (kept.held, kept.peak)
            }
        };
        Ok(DriverMemory { held, peak, outside: (total as u64).saturating_sub(free as u64 + held) })
    }

    /// Gives unused memory back and begins the peak again.
    pub(super) fn restart_peak(&self) -> Result<(), DriverError> {
        self.stream.context().bind_to_thread()?;
        self.trim()?;
        match &self.source {
            // A peak can be set to 0 only.
            Source::Pool(pool) => pool.set(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0),
            Source::Plain(kept) => {
                let mut kept = lock(kept);
                kept.peak = kept.held;
                Ok(())
            }
        }
    }

    /// Free and total bytes; what is kept for the next request counts as free.
    pub(super) fn sizes(&self) -> Result<(u64, u64), DriverError> {
        let (free, total) = self.stream.context().mem_get_info()?;
        let kept = match &self.source {
            Source::Pool(pool) => {
                let held = pool.number(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
                held.saturating_sub(pool.number(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?)
            }
            Source::Plain(kept) => lock(kept).free.bytes(),
        };
        Ok((free as u64 + kept, total as u64))
    }
}

impl Pool {
    fn set(&self, attribute: CUmemPool_attribute, mut value: u64) -> Result<(), DriverError> {
        // SAFETY: the attribute is a 64-bit number, read during the call.
        unsafe { mem_pool::set_attribute(self.0, attribute, (&raw mut value).cast::<c_void>()) }
    }

    fn number(&self, attribute: CUmemPool_attribute) -> Result<u64, DriverError> {
        let mut value = 0_u64;
        // SAFETY: the attribute is a 64-bit number, written during the call.
        unsafe { mem_pool::get_attribute(self.0, attribute, (&raw mut value).cast::<c_void>()) }?;
        Ok(value)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // At the end of the process the driver takes everything back anyway.
        let _ = self.stream.context().bind_to_thread().and_then(|()| self.trim());
    }
}
