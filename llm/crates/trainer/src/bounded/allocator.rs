//! The process's allocator: the system's, with an account for threads that have a limit.
#![allow(unsafe_code)] // an allocator cannot be had otherwise; every call is handed on as it came

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

/// Bytes from which on a block has pages of its own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: usize = 1 << 20;

/// Gives every block of at least 1 MiB pages of its own, which return to the system with it. By itself glibc raises that limit to 32 MiB, and blocks
/// whose sizes change from step to step leave holes: training SmolLM2-135M took a fifth more memory so.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn large_blocks_return() {
    // SAFETY: it sets a number of the allocator, under its lock.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE as libc::c_int) };
}

/// Does nothing: this system's allocator has no such limit.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn large_blocks_return() {}

/// The limit that a thread reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    Memory,
    Stack,
}

/// The state of limited work, shared with the thread that waits for it.
pub(super) struct Account {
    /// The waiting thread.
    pub(super) owner: Thread,
    exceeded: OnceLock<Exceeded>,
    abandoned: AtomicBool,
}

impl Account {
    pub(super) fn new(owner: Thread) -> Account {
        Account { owner, exceeded: OnceLock::new(), abandoned: AtomicBool::new(false) }
    }

    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get().copied()
    }

    /// Stops waiting for the work, whose thread sleeps at its next allocation.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Wakes the owner, and never returns.
    fn stop(&self, limit: Option<Exceeded>) -> ! {
        if let Some(limit) = limit {
            // A limit that was reached before is the reason all the same.
            let _ = self.exceeded.set(limit);
        }
        self.owner.unpark();
        loop {
            std::thread::sleep(Duration::from_secs(1 << 20));
        }
    }
}

thread_local! {
    /// The account of this thread while it is counted, else null. No cell here needs to be made or dropped, so an allocator may use them.
    static ACCOUNT: Cell<*const Account> = const { Cell::new(ptr::null()) };
    /// Bytes that this thread may still allocate.
    static LEFT: Cell<isize> = const { Cell::new(0) };
    /// The lowest address that the stack of this thread may reach.
    static LOWEST: Cell<usize> = const { Cell::new(0) };
}

/// Does `work` with at most `memory` bytes of this thread's own, and at most `stack` bytes of stack at any call of the allocator: a recursion without end
/// asks for memory, or gives some back, at each level.
pub(super) fn counted<T>(account: &Account, (memory, stack): (usize, usize), work: impl FnOnce() -> T) -> T {
    LEFT.set(signed(memory));
    LOWEST.set(here().saturating_sub(stack));
    ACCOUNT.set(account);
    let done = work();
    ACCOUNT.set(ptr::null());
    done
}

/// Bytes that this thread may still allocate.
pub(super) fn left() -> isize {
    LEFT.get()
}

/// The address of the top of the stack, roughly.
#[inline(always)]
fn here() -> usize {
    let local = 0u8;
    ptr::from_ref(std::hint::black_box(&local)).addr()
}

/// Takes `bytes` more (or gives them back) on the account of this thread, if it has one.
fn book(bytes: isize) {
    let account = ACCOUNT.get();
    if account.is_null() {
        return;
    }
    let left = LEFT.get().saturating_sub(bytes);
    LEFT.set(left);
    // SAFETY: `counted` holds a reference to the account as long as the pointer is set, and only its own thread reads the pointer.
    let account = unsafe { &*account };
    if here() < LOWEST.get() {
        account.stop(Some(Exceeded::Stack));
    }
    if bytes > 0 && left < 0 {
        account.stop(Some(Exceeded::Memory));
    }
    if bytes > 0 && account.abandoned.load(Ordering::Relaxed) {
        account.stop(None);
    }
}

/// A size as a difference; none is larger than `isize::MAX`.
fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

/// Passes on what the system gave. Where it refused, the process ends with a line and not with a signal, which is all that the standard library
/// does. Neither the line nor the end of the process needs memory.
fn given(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if pointer.is_null() {
        let line = "llm-train: error: out of memory: the system refused";
        drop(writeln!(
            std::io::stderr(),
            "{line} {bytes} bytes; raise the limit (ulimit -v) or free some memory"
        ));
        std::process::exit(1);
    }
    pointer
}

/// [`given`]. A large block gets pages of 2 MiB where the system has them: weights are read whole for every token, and
/// one entry of the processor's table of addresses then serves 512 times as many of them.
fn large(pointer: *mut u8, bytes: usize) -> *mut u8 {
    let pointer = given(pointer, bytes);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if bytes >= LARGE {
        let page = pointer.map_addr(|address| address & !4095);
        // SAFETY: the pages hold this block; a hint changes nothing that they hold, and may be refused.
        unsafe { libc::madvise(page.cast(), bytes, libc::MADV_HUGEPAGE) };
    }
    pointer
}

// SAFETY: every call is handed to `System` with its own arguments, and neither `book` nor `large` allocates or unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        book(signed(layout.size()));
        // SAFETY: as the caller promised.
        large(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        book(signed(layout.size()));
        // SAFETY: as the caller promised.
        large(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        book(-signed(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        book(signed(size) - signed(layout.size()));
        // SAFETY: as the caller promised.
        large(unsafe { System.realloc(pointer, layout, size) }, size)
    }
}
