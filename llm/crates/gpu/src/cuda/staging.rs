//! Page-locked host memory, through which large arrays go to the card and back.
//!
//! The driver copies from and to other memory at a fraction of the link's rate, through a small buffer of its own. Here one piece is on its way
//! while the host fills or empties the other.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, result};

/// Bytes of a piece.
const PIECE: usize = 16 << 20;

/// Bytes from which an array goes through the pieces.
pub(super) const LARGE: usize = 1 << 20;

/// Two pieces, used in turn.
#[derive(Debug)]
pub(super) struct Staging {
    pieces: [Piece; 2],
}

#[derive(Debug)]
struct Piece {
    context: Arc<CudaContext>,
    memory: *mut c_void,
    /// The end of the copy under way, if any.
    copied: Option<CudaEvent>,
}

// SAFETY: page-locked memory belongs to the context, not to a thread; a piece is used through `&mut` only.
unsafe impl Send for Piece {}

impl Piece {
    fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        // SAFETY: the caller has bound the context. The memory is cleared before it is read, below.
        let memory = unsafe { result::malloc_host(PIECE, 0) }?;
        // SAFETY: it was allocated with this size.
        unsafe { memory.cast::<u8>().write_bytes(0, PIECE) };
        Ok(Piece { context: context.clone(), memory, copied: None })
    }

    /// The first bytes of the memory, once no copy is under way.
    fn idle(&mut self, bytes: usize) -> Result<&mut [u8], DriverError> {
        self.copied.take().map_or(Ok(()), |copied| copied.synchronize())?;
        // SAFETY: there are `PIECE` initialised bytes, of which nobody else reads or writes any now.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.memory.cast::<u8>(), bytes.min(PIECE)) })
    }

    /// Marks the copy that was launched last as this piece's.
    fn launched(&mut self, stream: &CudaStream) -> Result<(), DriverError> {
        self.copied = Some(stream.record_event(None)?);
        Ok(())
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let idle = self.context.bind_to_thread().and_then(|()| self.idle(0).map(|_| ()));
        if idle.is_ok() {
            // SAFETY: it was allocated here, and no copy is under way. Should that fail, some memory is lost.
            let _ = unsafe { result::free_host(self.memory) };
        }
    }
}

impl Staging {
    /// Page-locks the pieces. The context is bound to this thread.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        Ok(Staging { pieces: [Piece::new(context)?, Piece::new(context)?] })
    }

    /// Copies `bytes` to the card, where `address` is a buffer of that size, and waits for it.
    pub(super) fn upload(
        &mut self,
        stream: &CudaStream,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), DriverError> {
        for (number, part) in bytes.chunks(PIECE).enumerate() {
            let piece = &mut self.pieces[number % 2];
            let memory = piece.idle(part.len())?;
            memory.copy_from_slice(part);
            // SAFETY: the destination is within the caller's buffer; the source stays as it is until the copy is waited for.
            unsafe {
                result::memcpy_htod_async(address + (number * PIECE) as u64, memory, stream.cu_stream())
            }?;
            piece.launched(stream)?;
        }
        stream.synchronize()
    }

    /// Copies a buffer of the card at `address` to `bytes`, which have its size.
    pub(super) fn download(
        &mut self,
        stream: &CudaStream,
        address: u64,
        bytes: &mut [u8],
    ) -> Result<(), DriverError> {
        let parts: Vec<&mut [u8]> = bytes.chunks_mut(PIECE).collect();
        let mut waiting: Option<(usize, &mut [u8])> = None;
        for (number, part) in parts.into_iter().enumerate() {
            let piece = &mut self.pieces[number % 2];
            let memory = piece.idle(part.len())?;
            // SAFETY: the source is within the caller's buffer; the destination is not touched before the copy is waited for.
            unsafe {
                result::memcpy_dtoh_async(memory, address + (number * PIECE) as u64, stream.cu_stream())
            }?;
            piece.launched(stream)?;
            if let Some((earlier, part)) = waiting.replace((number, part)) {
                part.copy_from_slice(self.pieces[earlier % 2].idle(part.len())?);
            }
        }
        waiting.map_or(Ok(()), |(last, part)| {
            part.copy_from_slice(self.pieces[last % 2].idle(part.len())?);
            Ok(())
        })
    }
}
