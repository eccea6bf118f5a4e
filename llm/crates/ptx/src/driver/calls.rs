//! Calls of the driver that the bindings make, and two of this crate's own.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments)] // the library is C

use std::ffi::{c_char, c_int, c_void};

use super::{
    Answer, CAPTURE_INVALIDATED, CAPTURE_WRONG_THREAD, CARDS, CURRENT, Capture, Code, FAULT, FIRST,
    ILLEGAL_ADDRESS, INVALID_DEVICE, INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, NOT_FOUND, OUTSIDE, Op,
    PIECE, PINNED, add, card, code, handle, here, lock, version, with,
};
use crate::card::{Card, Fault};

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
            if state.card.fault == Some(Fault::Replays) {
                return Ok(());
            }
            ops.into_iter().try_for_each(|op| state.enqueue(op))
        })
    }
    cuGraphExecDestroy(_graph: u64) { Ok(()) }
    cuGraphDestroy(_graph: u64) { Ok(()) }
    cuEventCreate(to: *mut u64, _flags: u32) {
        here(|state, card| {
            state.events += 1;
            give(to, handle(card, state.events - 1))
        })
    }
    cuEventDestroy_v2(_event: u64) { Ok(()) }
    cuEventRecord(event: u64, _stream: u64) {
        with(event, |_, _| Ok(()))
    }
    cuEventSynchronize(event: u64) { with(event, |state, _| state.drain()) }
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
        give(to, FAULT.with_borrow(|reported| reported.as_ptr()))
    }
}
