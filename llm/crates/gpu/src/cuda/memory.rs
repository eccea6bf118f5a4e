//! Memory of the card, in the order of the stream.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::result::{self, DriverError, mem_pool};
use cudarc::driver::sys::{CUmemPool_attribute, CUmemoryPool, CUresult};
use cudarc::driver::{CudaContext, CudaStream};

use crate::free_list::FreeList;

/// Where memory comes from.
#[derive(Debug)]
pub(super) struct Memory {
    stream: Arc<CudaStream>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The driver's pool, which keeps what is given back.
    Pool(Pool),
    /// The driver itself, where it has no pools; what is given back is kept here.
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
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of the card that the pool does not keep.
const OUTSIDE: u64 = 2 << 30;

impl Memory {
    /// Of the card of `stream`.
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self, DriverError> {
        let context: &CudaContext = stream.context();
        if !context.has_async_alloc() {
            return Ok(Memory { stream: stream.clone(), source: Source::Plain(Mutex::default()) });
        }
        context.bind_to_thread()?;
        // SAFETY: the device is that of the context.
        let pool = unsafe { result::device::get_mem_pool(context.cu_device()) }?;
        // What is given back stays for the next request, but for what graphs, modules and libraries take from outside the pool.
        let mut threshold = (result::mem_get_info()?.1 as u64).saturating_sub(OUTSIDE);
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the attribute is a 64-bit number, read during the call.
        unsafe { mem_pool::set_attribute(pool, attribute, (&raw mut threshold).cast::<c_void>()) }?;
        Ok(Memory { stream: stream.clone(), source: Source::Pool(Pool(pool)) })
    }

    /// So many bytes, more than 0. Once it is refused, all that is kept is given back and it is asked for again.
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
                    // SAFETY: the context is bound; what lies there is undefined, as the caller knows.
                    None => (unsafe { result::malloc_sync(size) }?, bytes),
                };
                kept.sizes.insert(address, size);
                Ok(address)
            }
        }
    }

    /// Gives back what [`Memory::allocate`] gave.
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

    /// Gives back to the driver what nobody uses.
    fn trim(&self) -> Result<(), DriverError> {
        self.stream.synchronize()?;
        match &self.source {
            // SAFETY: the pool is the device's.
            Source::Pool(pool) => unsafe { mem_pool::trim_to(pool.0, 0) },
            Source::Plain(kept) => {
                let blocks = lock(kept).free.drain();
                // SAFETY: each was allocated here, is in use no more, and the stream is idle.
                blocks.into_iter().try_for_each(|address| unsafe { result::free_sync(address) })
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
