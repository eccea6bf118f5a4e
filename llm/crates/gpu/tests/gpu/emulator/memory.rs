//! Memory of the emulated device: of the host, poisoned, between guards.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes before and at least so many behind an allocation; also its alignment.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xA5;
const POISON: u8 = 0xFF;

/// Allocations by address.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) limit: u64,
    live: Mutex<BTreeMap<u64, Allocation>>,
}

#[derive(Clone, Copy, Debug)]
struct Allocation {
    what: &'static str,
    bytes: usize,
}

impl Allocation {
    fn layout(self) -> Layout {
        let size = GUARD + self.bytes.div_ceil(GUARD) * GUARD + GUARD;
        Layout::from_size_align(size, GUARD).expect("a size that fits")
    }

    fn check(self, address: u64) -> Result<(), String> {
        let before = address as usize - GUARD;
        let behind = address as usize + self.bytes;
        let end = before + self.layout().size();
        // SAFETY: the bytes from `before` to `end` are one live allocation of this layout.
        let (before, behind) = unsafe {
            (
                std::slice::from_raw_parts(before as *const u8, GUARD),
                std::slice::from_raw_parts(behind as *const u8, end - behind),
            )
        };
        let Allocation { what, bytes } = self;
        let changed = |guard: &[u8]| guard.iter().position(|b| *b != GUARD_BYTE);
        if let Some(at) = changed(before) {
            return Err(format!("{} bytes before {what} ({bytes} bytes) were written", GUARD - at));
        }
        if let Some(at) = changed(behind) {
            return Err(format!("byte {} of {what} ({bytes} bytes) was written", bytes + at));
        }
        Ok(())
    }
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Self {
        Memory { limit, live: Mutex::default() }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, Allocation>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn allocate(&self, what: &'static str, bytes: usize) -> u64 {
        let allocation = Allocation { what, bytes };
        let layout = allocation.layout();
        // SAFETY: the layout is not empty; what is written lies in it.
        let address = unsafe {
            let start = alloc(layout);
            assert!(!start.is_null(), "the host has no {} bytes", layout.size());
            start.write_bytes(GUARD_BYTE, layout.size());
            start.add(GUARD).write_bytes(POISON, bytes);
            start.add(GUARD) as u64
        };
        self.live().insert(address, allocation);
        address
    }

    /// Refuses what was not allocated like this, or was written around.
    pub(crate) fn free(&self, what: &'static str, address: u64, bytes: usize) -> Result<(), String> {
        let allocation =
            self.live().remove(&address).ok_or_else(|| format!("{what} is not at this address"))?;
        if (allocation.what, allocation.bytes) != (what, bytes) {
            return Err(format!(
                "{} of {} bytes is freed as {what} of {bytes}",
                allocation.what, allocation.bytes
            ));
        }
        let checked = allocation.check(address);
        // SAFETY: allocated with this layout and forgotten above.
        unsafe { dealloc((address as usize - GUARD) as *mut u8, allocation.layout()) };
        checked
    }

    /// True if these bytes lie in one live allocation.
    pub(crate) fn holds(&self, address: u64, bytes: usize) -> bool {
        let live = self.live();
        live.range(..=address)
            .next_back()
            .is_some_and(|(start, allocation)| address + bytes as u64 <= start + allocation.bytes as u64)
    }

    pub(crate) fn check_guards(&self) -> Result<(), String> {
        self.live().iter().try_for_each(|(address, allocation)| allocation.check(*address))
    }

    fn range(&self, address: u64, bytes: usize) -> Result<*mut u8, String> {
        match self.holds(address, bytes) {
            true => Ok(address as *mut u8),
            false => Err(format!("{bytes} bytes that do not lie in one live allocation")),
        }
    }

    pub(crate) fn read(&self, address: u64, to: &mut [u8]) -> Result<(), String> {
        let from = self.range(address, to.len())?;
        // SAFETY: `range` found the bytes live; `to` is other memory.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let to = self.range(address, bytes.len())?;
        // SAFETY: as in `read`.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (address, allocation) in &*self.live() {
            // SAFETY: live, so allocated with this layout.
            unsafe { dealloc((*address as usize - GUARD) as *mut u8, allocation.layout()) };
        }
    }
}
