//! The substitute for the driver: one context and one stream per card, with the rules of the documentation.
//!
//! Handles are numbers, not addresses: the card in the upper half, the thing in the lower.
#![allow(unsafe_code)] // memory of the host is read and written when it is its turn

mod calls;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use crate::card::{Card, Fault};
use crate::machine::{self, Launch};
use crate::memory::Global;
use crate::parse::Module;
use crate::product::{Product, SINGLE};

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
    events: usize,
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
        events: 0,
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
        FAULT.with_borrow_mut(|reported| *reported = text.unwrap_or_default());
        Err(ILLEGAL_ADDRESS)
    }

    fn enqueue(&mut self, op: Op) -> Answer {
        if let Some(capture) = &mut self.capture {
            capture.broken |= capture.by != std::thread::current().id();
            capture.ops.push(op.clone());
            let broken = capture.broken;
            if self.card.fault == Some(Fault::Captures) {
                self.run(&op);
            }
            return if broken { Err(CAPTURE_INVALIDATED) } else { Ok(()) };
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
                machine::run(launch, &mut self.memory, hits)?;
                match &self.card.fault {
                    Some(Fault::Corrupts { kernel, argument, byte }) if kernel == name => {
                        flip(&mut self.memory, arguments[*argument], *byte)
                    }
                    Some(_) | None => Ok(()),
                }
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
            Op::Product(product) => {
                product.run(&mut self.memory)?;
                match self.card.fault {
                    Some(Fault::Products) => {
                        let result = product.matrices[2];
                        flip(&mut self.memory, result.address, if result.ty == SINGLE { 2 } else { 0 })
                    }
                    Some(_) | None => Ok(()),
                }
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

/// Flips a bit of the upper mantissa, or of the exponent, in a byte after an address; nothing at address 0.
fn flip(memory: &mut Global, address: u64, byte: u64) -> Result<(), String> {
    if address == 0 {
        return Ok(());
    }
    let mut held = [0];
    memory.read(address + byte, &mut held)?;
    memory.write(address + byte, &[held[0] ^ 0x40])
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
