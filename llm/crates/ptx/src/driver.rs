//! The stand-in for the driver: one context and one stream per card, with the rules of the documentation.
//!
//! Handles are numbers, not addresses: the card in the upper half, the thing in the lower.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments)] // the library is C

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use crate::card::Card;
use crate::machine::{self, Launch};
use crate::memory::Global;
use crate::parse::Module;
use crate::product::Product;

type Code = c_int;
const INVALID_VALUE: Code = 1;
const OUT_OF_MEMORY: Code = 2;
const INVALID_DEVICE: Code = 101;
const INVALID_CONTEXT: Code = 201;
const INVALID_PTX: Code = 218;
const INVALID_HANDLE: Code = 400;
const NOT_FOUND: Code = 500;
const ILLEGAL_ADDRESS: Code = 700;
const CAPTURE_UNSUPPORTED: Code = 900;
const CAPTURE_INVALIDATED: Code = 901;
const CAPTURE_WRONG_THREAD: Code = 908;

type Answer<T = ()> = Result<T, Code>;

/// Names the CUDA version that the libraries tell, 13000 if it is not set.
pub const VERSION: &str = "PTX_CUDA";
/// Names the card of number 0, as [`Card::text`].
pub const FIRST: &str = "PTX_CARD";
/// Bytes outside of the pool, and those by which the pool grows.
const OUTSIDE: u64 = 300 << 20;
const PIECE: u64 = 32 << 20;

/// Work on a stream.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Launch {
        module: usize,
        name: String,
        grid: (u32, u32),
        threads: u32,
        arguments: Vec<u64>,
    },
    Upload {
        to: u64,
        bytes: Arc<[u8]>,
    },
    /// From or to the host's memory, when it is its turn.
    Fetch {
        to: u64,
        from: usize,
        bytes: usize,
    },
    Download {
        to: usize,
        from: u64,
        bytes: usize,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Clear {
        to: u64,
        value: u8,
        bytes: usize,
    },
    Product(Product),
    Record(usize),
    Free(u64),
}

struct Capture {
    by: ThreadId,
    ops: Vec<Op>,
    broken: bool,
}

struct Loaded {
    module: Arc<Module>,
    /// By kernel: true where an instruction was executed.
    hits: HashMap<String, Vec<bool>>,
}

struct State {
    card: Card,
    memory: Global,
    reserved: u64,
    reserved_high: u64,
    threshold: u64,
    queue: Vec<Op>,
    capture: Option<Capture>,
    /// The error that broke the context.
    fault: Option<String>,
    modules: Vec<Loaded>,
    functions: Vec<(usize, String)>,
    graphs: Vec<Vec<Op>>,
    events: Vec<Option<Instant>>,
}

static CARDS: Mutex<Vec<Arc<Mutex<State>>>> = Mutex::new(Vec::new());
/// Page-locked memory, by address.
static PINNED: Mutex<Vec<(usize, Box<[u8]>)>> = Mutex::new(Vec::new());

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    static FAULT: RefCell<CString> = RefCell::default();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn version() -> c_int {
    std::env::var(VERSION).ok().and_then(|text| text.parse().ok()).unwrap_or(13000)
}

pub(crate) fn has_context() -> bool {
    CURRENT.get() != 0
}

fn add(card: Card) -> usize {
    let state = State {
        card,
        memory: Global::new(),
        reserved: 0,
        reserved_high: 0,
        threshold: 0,
        queue: Vec::new(),
        capture: None,
        fault: None,
        modules: Vec::new(),
        functions: Vec::new(),
        graphs: Vec::new(),
        events: Vec::new(),
    };
    let mut cards = lock(&CARDS);
    cards.push(Arc::new(Mutex::new(state)));
    cards.len() - 1
}

fn handle(card: usize, thing: usize) -> u64 {
    (card as u64 + 1) << 32 | (thing as u64 + 1)
}

fn card(number: usize) -> Answer<Arc<Mutex<State>>> {
    lock(&CARDS).get(number).cloned().ok_or(INVALID_DEVICE)
}

/// Calls with the card of a handle and the thing's number.
fn with<T>(handle: u64, f: impl FnOnce(&mut State, usize) -> Answer<T>) -> Answer<T> {
    if !has_context() {
        return Err(INVALID_CONTEXT);
    }
    let number = ((handle >> 32) as usize).checked_sub(1).ok_or(INVALID_HANDLE)?;
    let state = card(number)?;
    let mut state = lock(&state);
    state.sound()?;
    f(&mut state, ((handle & 0xffff_ffff) as usize).wrapping_sub(1))
}

/// [`with`] the card of this thread's context.
fn here<T>(f: impl FnOnce(&mut State, usize) -> Answer<T>) -> Answer<T> {
    with((CURRENT.get() as u64) << 32, |state, _| f(state, CURRENT.get() - 1))
}

fn code(answer: Answer) -> Code {
    answer.err().unwrap_or(0)
}

/// Queues work on a stream; false if it is refused.
pub(crate) fn enqueue_on(stream: u64, op: Op) -> bool {
    with(stream, |state, _| state.enqueue(op)).is_ok()
}

impl State {
    /// Refuses everything once the context is broken.
    fn sound(&self) -> Answer {
        let Some(fault) = &self.fault else { return Ok(()) };
        let text = CString::new(format!("an illegal memory access was encountered: {fault}"));
        FAULT.with_borrow_mut(|told| *told = text.unwrap_or_default());
        Err(ILLEGAL_ADDRESS)
    }

    fn enqueue(&mut self, op: Op) -> Answer {
        if let Some(capture) = &mut self.capture {
            capture.broken |= capture.by != std::thread::current().id();
            capture.ops.push(op);
            return if capture.broken { Err(CAPTURE_INVALIDATED) } else { Ok(()) };
        }
        if self.card.deferred {
            self.queue.push(op);
            return Ok(());
        }
        self.run(&op);
        self.sound()
    }

    /// Does what is queued.
    fn drain(&mut self) -> Answer {
        if let Some(capture) = &mut self.capture {
            capture.broken = true;
            return Err(CAPTURE_UNSUPPORTED);
        }
        for op in std::mem::take(&mut self.queue) {
            self.run(&op);
        }
        self.sound()
    }

    fn run(&mut self, op: &Op) {
        if self.fault.is_none() {
            self.fault = self.done(op).err();
        }
    }

    fn done(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::Launch { module, name, grid, threads, arguments } => {
                let Loaded { module, hits } = &mut self.modules[*module];
                let kernel = &module.kernels[name];
                let hits = hits.entry(name.clone()).or_insert_with(|| vec![false; kernel.code.len()]);
                let (lines, liberties) = (&module.lines, self.card.liberties);
                let launch = Launch { kernel, lines, grid: *grid, threads: *threads, arguments, liberties };
                machine::run(launch, &mut self.memory, hits)
            }
            Op::Upload { to, bytes } => self.memory.write(*to, bytes),
            Op::Fetch { to, from, bytes } => {
                // SAFETY: the memory is page-locked, so it was allocated here, and its owner keeps it until the stream was waited for.
                self.memory.write(*to, unsafe { std::slice::from_raw_parts(*from as *const u8, *bytes) })
            }
            Op::Download { to, from, bytes } => {
                let mut data = vec![0; *bytes];
                self.memory.read(*from, &mut data)?;
                // SAFETY: the caller keeps the destination until it waited for the stream.
                unsafe { data.as_ptr().copy_to_nonoverlapping(*to as *mut u8, *bytes) };
                Ok(())
            }
            Op::Copy { to, from, bytes } => self.memory.copy(*to, *from, *bytes),
            Op::Clear { to, value, bytes } => self.memory.write(*to, &vec![*value; *bytes]),
            Op::Product(product) => product.run(&mut self.memory),
            Op::Record(event) => {
                self.events[*event] = Some(Instant::now());
                Ok(())
            }
            Op::Free(address) => match self.memory.free(*address) {
                true => Ok(()),
                false => Err("what is freed is not allocated".to_owned()),
            },
        }
    }

    fn allocate(&mut self, bytes: usize) -> Answer<u64> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        if self.memory.used + bytes as u64 > self.card.memory.saturating_sub(OUTSIDE) {
            return Err(OUT_OF_MEMORY);
        }
        let address = self.memory.allocate(bytes);
        self.reserved = self.reserved.max(self.memory.used.next_multiple_of(PIECE));
        self.reserved_high = self.reserved_high.max(self.reserved);
        Ok(address)
    }

    fn load(&mut self, image: &str) -> Result<usize, String> {
        let mut text = image.to_owned();
        for edit in &self.card.edits {
            text = edit.apply(&text)?;
        }
        let module = parsed(&text)?;
        if let Some(large) = module.kernels.values().find(|kernel| kernel.shared > 48 << 10) {
            return Err(format!("{}: {} bytes of static shared memory", large.name, large.shared));
        }
        self.modules.push(Loaded { module, hits: HashMap::new() });
        Ok(self.modules.len() - 1)
    }

    /// `kernel executed all` for every kernel that was loaded.
    fn coverage(&self) -> String {
        let line = |loaded: &Loaded, name: &String, all: usize| {
            let hits = loaded.hits.get(name).map_or(0, |hits| hits.iter().filter(|hit| **hit).count());
            format!("{name} {hits} {all}\n")
        };
        let kernels =
            self.modules.iter().flat_map(|loaded| loaded.module.kernels.iter().map(move |k| (loaded, k)));
        kernels.map(|(loaded, (name, kernel))| line(loaded, name, kernel.code.len())).collect()
    }
}

/// A module; each text is parsed once.
fn parsed(text: &str) -> Result<Arc<Module>, String> {
    static KNOWN: Mutex<Vec<(String, Arc<Module>)>> = Mutex::new(Vec::new());
    if let Some((_, module)) = lock(&KNOWN).iter().find(|(known, _)| known == text) {
        return Ok(module.clone());
    }
    let module = Arc::new(Module::parse(text)?);
    lock(&KNOWN).push((text.to_owned(), module.clone()));
    Ok(module)
}

/// Adds a card, [`Card::text`] of so many bytes, and returns its number, or -1.
#[unsafe(no_mangle)]
unsafe extern "C" fn ptx_card(text: *const u8, bytes: usize) -> c_int {
    // SAFETY: the caller gives so many bytes.
    let text = unsafe { std::slice::from_raw_parts(text, bytes) };
    let card = std::str::from_utf8(text).ok().and_then(Card::parse);
    card.map_or(-1, |card| c_int::try_from(add(card)).unwrap_or(-1))
}

/// Writes the coverage of a card where there is room for so many bytes; returns its length.
#[unsafe(no_mangle)]
unsafe extern "C" fn ptx_coverage(number: usize, to: *mut u8, room: usize) -> usize {
    let text = card(number).map_or(String::new(), |state| lock(&state).coverage());
    // SAFETY: the caller gives so much room.
    unsafe { to.copy_from_nonoverlapping(text.as_ptr(), text.len().min(room)) };
    text.len()
}

/// Declares calls of the driver: name, arguments, and the answer.
macro_rules! calls {
    ($($name:ident($($argument:ident: $ty:ty),*) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $ty),*) -> Code {
            let answer = || -> Answer { $body };
            code(answer())
        }
    )*};
}

/// Writes a result where the caller wants it.
fn give<T>(to: *mut T, value: T) -> Answer {
    // SAFETY: the caller of the driver gives a valid address.
    unsafe { to.write(value) };
    Ok(())
}

calls! {
    cuInit(_flags: u32) {
        if lock(&CARDS).is_empty() {
            let named = std::env::var(FIRST).ok().and_then(|text| Card::parse(&text));
            add(named.unwrap_or_default());
        }
        Ok(())
    }
    cuDriverGetVersion(to: *mut c_int) { give(to, version()) }
    cuDeviceGetCount(to: *mut c_int) { give(to, lock(&CARDS).len() as c_int) }
    cuDeviceGet(to: *mut c_int, number: c_int) {
        card(usize::try_from(number).map_err(|_| INVALID_DEVICE)?)?;
        give(to, number)
    }
    cuDeviceGetName(to: *mut c_char, room: c_int, _device: c_int) {
        let name = c"the PTX machine".to_bytes_with_nul();
        if (room as usize) < name.len() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: there is room.
        unsafe { to.copy_from_nonoverlapping(name.as_ptr().cast(), name.len()) };
        Ok(())
    }
    cuDeviceGetAttribute(to: *mut c_int, attribute: c_int, device: c_int) {
        let pools = lock(&*card(device as usize)?).card.pools;
        // Compute capability 9.1, of which NVRTC does not know: it gives PTX.
        give(to, match attribute { 75 => 9, 76 => 1, 115 => c_int::from(pools), _ => 0 })
    }
    cuDevicePrimaryCtxRetain(to: *mut u64, device: c_int) { give(to, handle(device as usize, 0)) }
    cuDevicePrimaryCtxRelease_v2(_device: c_int) { Ok(()) }
    cuCtxGetCurrent(to: *mut u64) {
        give(to, CURRENT.get().checked_sub(1).map_or(0, |card| handle(card, 0)))
    }
    cuCtxSetCurrent(context: u64) {
        CURRENT.set((context >> 32) as usize);
        Ok(())
    }
    cuCtxSynchronize() { here(|state, _| state.drain()) }
    cuStreamCreate(to: *mut u64, _flags: u32) { here(|_, card| give(to, handle(card, 0))) }
    cuStreamDestroy_v2(stream: u64) { with(stream, |state, _| state.drain()) }
    cuStreamSynchronize(stream: u64) { with(stream, |state, _| state.drain()) }
    cuStreamBeginCapture_v2(stream: u64, _mode: c_int) {
        with(stream, |state, _| {
            if state.capture.is_some() {
                return Err(INVALID_VALUE);
            }
            let by = std::thread::current().id();
            state.capture = Some(Capture { by, ops: Vec::new(), broken: false });
            Ok(())
        })
    }
    cuStreamEndCapture(stream: u64, to: *mut u64) {
        with(stream, |state, _| {
            let capture = state.capture.take().ok_or(INVALID_VALUE)?;
            if capture.by != std::thread::current().id() {
                state.capture = Some(capture);
                return Err(CAPTURE_WRONG_THREAD);
            }
            if capture.broken {
                give(to, 0)?;
                return Err(CAPTURE_INVALIDATED);
            }
            state.graphs.push(capture.ops);
            give(to, handle((stream >> 32) as usize - 1, state.graphs.len() - 1))
        })
    }
    cuStreamIsCapturing(stream: u64, to: *mut c_int) {
        with(stream, |state, _| give(to, c_int::from(state.capture.is_some())))
    }
    cuGraphInstantiateWithFlags(to: *mut u64, graph: u64, _flags: u64) { give(to, graph) }
    cuGraphUpload(graph: u64, _stream: u64) { with(graph, |_, _| Ok(())) }
    cuGraphLaunch(graph: u64, _stream: u64) {
        with(graph, |state, number| {
            let ops = state.graphs.get(number).ok_or(INVALID_HANDLE)?.clone();
            ops.into_iter().try_for_each(|op| state.enqueue(op))
        })
    }
    cuGraphExecDestroy(_graph: u64) { Ok(()) }
    cuGraphDestroy(_graph: u64) { Ok(()) }
    cuEventCreate(to: *mut u64, _flags: u32) {
        here(|state, card| {
            state.events.push(None);
            give(to, handle(card, state.events.len() - 1))
        })
    }
    cuEventDestroy_v2(_event: u64) { Ok(()) }
    cuEventRecord(event: u64, _stream: u64) {
        with(event, |state, number| state.enqueue(Op::Record(number)))
    }
    cuEventSynchronize(event: u64) { with(event, |state, _| state.drain()) }
    cuEventElapsedTime_v2(to: *mut f32, from: u64, until: u64) {
        // Drivers before 12.8 do not have it: the bindings would end the process.
        if version() < 12080 {
            std::process::abort();
        }
        let at = |event| with(event, |state, number| state.events.get(number).copied().flatten().ok_or(INVALID_HANDLE));
        give(to, at(until)?.duration_since(at(from)?).as_secs_f32() * 1e3)
    }
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        here(|state, _| {
            give(total, state.card.memory as usize)?;
            give(free, state.card.memory.saturating_sub(state.reserved + OUTSIDE) as usize)
        })
    }
    cuDeviceGetMemPool(to: *mut u64, device: c_int) { give(to, handle(device as usize, 0)) }
    cuMemPoolSetAttribute(pool: u64, attribute: c_int, value: *mut c_void) {
        // SAFETY: the attributes are 64-bit numbers.
        let value = unsafe { *value.cast::<u64>() };
        with(pool, |state, _| match (attribute, value) {
            (4, _) => { state.threshold = value; Ok(()) }
            (6, 0) => { state.reserved_high = 0; Ok(()) }
            _ => Err(INVALID_VALUE),
        })
    }
    cuMemPoolGetAttribute(pool: u64, attribute: c_int, value: *mut c_void) {
        let held = with(pool, |state, _| match attribute {
            4 => Ok(state.threshold),
            5 => Ok(state.reserved),
            6 => Ok(state.reserved_high),
            7 => Ok(state.memory.used),
            _ => Err(INVALID_VALUE),
        })?;
        give(value.cast::<u64>(), held)
    }
    cuMemPoolTrimTo(pool: u64, keep: usize) {
        with(pool, |state, _| {
            state.reserved = state.memory.used.max(keep as u64).next_multiple_of(PIECE);
            Ok(())
        })
    }
    cuMemAllocAsync(to: *mut u64, bytes: usize, stream: u64) {
        with(stream, |state, _| {
            state.drain()?;
            give(to, state.allocate(bytes)?)
        })
    }
    cuMemFreeAsync(address: u64, stream: u64) { with(stream, |state, _| state.enqueue(Op::Free(address))) }
    cuMemAlloc_v2(to: *mut u64, bytes: usize) { here(|state, _| give(to, state.allocate(bytes)?)) }
    cuMemFree_v2(address: u64) {
        here(|state, _| {
            state.drain()?;
            if state.memory.free(address) { Ok(()) } else { Err(INVALID_VALUE) }
        })
    }
    cuMemHostAlloc(to: *mut usize, bytes: usize, _flags: u32) {
        let memory = vec![0xAA; bytes].into_boxed_slice();
        let address = memory.as_ptr() as usize;
        lock(&PINNED).push((address, memory));
        give(to, address)
    }
    cuMemFreeHost(address: usize) {
        let mut pinned = lock(&PINNED);
        let place = pinned.iter().position(|(start, _)| *start == address).ok_or(INVALID_VALUE)?;
        pinned.remove(place);
        Ok(())
    }
    cuMemcpyHtoDAsync_v2(to: u64, from: usize, bytes: usize, stream: u64) {
        let holds = |(start, memory): &(usize, Box<[u8]>)| *start <= from && from + bytes <= start + memory.len();
        let op = if lock(&PINNED).iter().any(holds) {
            Op::Fetch { to, from, bytes }
        } else {
            // SAFETY: the caller gives so many bytes; the driver takes other memory than page-locked at once.
            Op::Upload { to, bytes: unsafe { std::slice::from_raw_parts(from as *const u8, bytes) }.into() }
        };
        with(stream, |state, _| state.enqueue(op))
    }
    cuMemcpyDtoHAsync_v2(to: usize, from: u64, bytes: usize, stream: u64) {
        with(stream, |state, _| state.enqueue(Op::Download { to, from, bytes }))
    }
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) {
        with(stream, |state, _| state.enqueue(Op::Copy { to, from, bytes }))
    }
    cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: u64) {
        with(stream, |state, _| state.enqueue(Op::Clear { to, value, bytes }))
    }
    cuModuleLoadData(to: *mut u64, image: *const c_char) {
        // SAFETY: the caller gives a text.
        let text = unsafe { std::ffi::CStr::from_ptr(image) }.to_string_lossy();
        here(|state, card| match state.load(&text) {
            Ok(module) => give(to, handle(card, module)),
            Err(why) => {
                eprintln!("the PTX machine: {why}");
                Err(INVALID_PTX)
            }
        })
    }
    cuModuleUnload(_module: u64) { Ok(()) }
    cuModuleGetFunction(to: *mut u64, module: u64, name: *const c_char) {
        // SAFETY: the caller gives a text.
        let name = unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned();
        with(module, |state, number| {
            let known = state.modules.get(number).ok_or(INVALID_HANDLE)?.module.kernels.contains_key(&name);
            if !known {
                return Err(NOT_FOUND);
            }
            state.functions.push((number, name));
            give(to, handle((module >> 32) as usize - 1, state.functions.len() - 1))
        })
    }
    cuFuncGetAttribute(to: *mut c_int, attribute: c_int, function: u64) {
        with(function, |state, number| {
            let (module, name) = state.functions.get(number).ok_or(INVALID_HANDLE)?;
            let shared = state.modules[*module].module.kernels[name].shared;
            if attribute == 1 { give(to, shared as c_int) } else { Err(INVALID_VALUE) }
        })
    }
    cuFuncSetAttribute(function: u64, attribute: c_int, value: c_int) {
        // The share of the first-level cache that is shared memory.
        let known = attribute == 9 && (-1..=100).contains(&value);
        with(function, |_, _| if known { Ok(()) } else { Err(INVALID_VALUE) })
    }
    cuLaunchKernel(
        function: u64, x: u32, y: u32, z: u32, threads: u32, bys: u32, bzs: u32, shared: u32, stream: u64,
        arguments: *const *const c_void, extra: *const c_void
    ) {
        with(function, |state, number| {
            let (module, name) = state.functions.get(number).cloned().ok_or(INVALID_HANDLE)?;
            let kernel = &state.modules[module].module.kernels[&name];
            let flat = (z, bys, bzs, shared) == (1, 1, 1, 0) && extra.is_null() && stream >> 32 == function >> 32;
            let grid = (1..=0x7fff_ffff).contains(&x) && (1..=65_535).contains(&y);
            if !flat || !grid || threads == 0 || threads > kernel.threads {
                return Err(INVALID_VALUE);
            }
            let argument = |(n, bytes): (usize, &usize)| {
                let mut value = [0; 8];
                // SAFETY: the caller gives the address of every parameter of the kernel.
                unsafe { (*arguments.add(n)).cast::<u8>().copy_to_nonoverlapping(value.as_mut_ptr(), *bytes) };
                u64::from_le_bytes(value)
            };
            let arguments = kernel.parameters.iter().enumerate().map(argument).collect();
            state.enqueue(Op::Launch { module, name, grid: (x, y), threads, arguments })
        })
    }
    cuGetErrorString(error: c_int, to: *mut *const c_char) {
        if error != ILLEGAL_ADDRESS {
            return give(to, c"an error of the PTX machine".as_ptr());
        }
        // Read at once by the caller, before this thread's next call.
        give(to, FAULT.with_borrow(|told| told.as_ptr()))
    }
}
