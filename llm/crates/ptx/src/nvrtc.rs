//! The substitute for NVRTC: it knows the PTX of the committed kernels, and asks a real NVRTC for that of others if it knows of one.
#![allow(unsafe_code, non_snake_case)] // the library is C

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Names the file of a real NVRTC.
const REAL: &str = "PTX_NVRTC";
/// Makes the PTX of the real NVRTC the committed one, if set.
const UPDATE: &str = "UPDATE_PTX";

const COMMITTED: [(&str, &[u8]); 2] =
    [("f32", include_bytes!("../kernels/f32.ptx.zst")), ("bf16", include_bytes!("../kernels/bf16.ptx.zst"))];

#[derive(Default)]
struct Program {
    source: CString,
    ptx: CString,
    log: CString,
}

static PROGRAMS: Mutex<Vec<Program>> = Mutex::new(Vec::new());

const DONE: c_int = 0;
const INVALID: c_int = 3;
const COMPILATION: c_int = 6;

fn with(program: usize, f: impl FnOnce(&mut Program) -> c_int) -> c_int {
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    program.checked_sub(1).and_then(|at| programs.get_mut(at)).map_or(INVALID, f)
}

/// FNV-1a, as a line at the start of the committed PTX.
fn mark(source: &str) -> String {
    let hash = source
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("// of the source {hash:016x}\n")
}

/// PTX of kernels, or the compiler's log.
fn compile(source: &str, options: &[CString]) -> Result<String, String> {
    let dtype = usize::from(source.contains("#define BF16 1"));
    let (name, packed) = COMMITTED[dtype];
    let committed = zstd::decode_all(packed).map_err(|e| e.to_string())?;
    let committed = String::from_utf8(committed).map_err(|e| e.to_string())?;
    if committed.starts_with(&mark(source)) {
        return Ok(committed);
    }
    let Some(real) = std::env::var_os(REAL) else {
        return Err(format!(
            "kernels.cu(1): error: these are not the kernels of the committed {name}.ptx; make it again \
            with llm/gpu/check_kernels.py \
             and {UPDATE}=1 {REAL}=FILE cargo test -p grpo-lambda-gpu --test gpu on_ptx, FILE its libnvrtc.so.13"
        ));
    };
    let ptx = compile_with(Path::new(&real), source, options)?;
    if std::env::var_os(UPDATE).is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("kernels/{name}.ptx.zst"));
        let text = mark(source) + &ptx;
        let packed = zstd::encode_all(text.as_bytes(), 22).map_err(|e| e.to_string())?;
        std::fs::write(path, packed).map_err(|e| e.to_string())?;
    }
    Ok(ptx)
}

type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;
type Create = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;

fn compile_with(library: &Path, source: &str, options: &[CString]) -> Result<String, String> {
    let source = CString::new(source).map_err(|e| e.to_string())?;
    let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
    // SAFETY: the library is NVRTC, whose functions have these types; every address outlives its call.
    unsafe {
        let nvrtc = libloading::Library::new(library).map_err(|e| e.to_string())?;
        let missing = |e: libloading::Error| e.to_string();
        let create = nvrtc.get::<Create>(b"nvrtcCreateProgram").map_err(missing)?;
        let run = nvrtc.get::<Compile>(b"nvrtcCompileProgram").map_err(missing)?;
        let mut program = std::ptr::null_mut();
        let none = std::ptr::null();
        create(&raw mut program, source.as_ptr(), c"kernels.cu".as_ptr(), 0, none, none);
        let status = run(program, options.len() as c_int, options.as_ptr());
        let (size, text): (&[u8], &[u8]) = match status {
            DONE => (b"nvrtcGetPTXSize", b"nvrtcGetPTX"),
            _ => (b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog"),
        };
        let mut bytes = 0;
        nvrtc.get::<Size>(size).map_err(missing)?(program, &raw mut bytes);
        let mut reported = vec![0_u8; bytes];
        nvrtc.get::<Text>(text).map_err(missing)?(program, reported.as_mut_ptr().cast());
        // It keeps threads of its own.
        std::mem::forget(nvrtc);
        let reported = String::from_utf8_lossy(&reported).trim_end_matches('\0').to_owned();
        if status == DONE { Ok(reported) } else { Err(reported) }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    let version = crate::driver::version();
    // SAFETY: the caller gives two valid addresses.
    unsafe { (*major, *minor) = (version / 1000, version % 1000 / 10) };
    DONE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> c_int {
    // SAFETY: the caller gives a valid address.
    unsafe { *count = 1 };
    DONE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetSupportedArchs(known: *mut c_int) -> c_int {
    // SAFETY: the caller has room for as many as were counted.
    unsafe { *known = 90 };
    DONE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut usize,
    source: *const c_char,
    _name: *const c_char,
    _headers: c_int,
    _texts: *const *const c_char,
    _names: *const *const c_char,
) -> c_int {
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller gives a text and a valid address.
    unsafe {
        programs.push(Program { source: CStr::from_ptr(source).to_owned(), ..Program::default() });
        *program = programs.len();
    }
    DONE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCompileProgram(
    program: usize,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller gives so many texts.
    let options: Vec<CString> =
        (0..count).map(|n| unsafe { CStr::from_ptr(*options.add(n)).to_owned() }).collect();
    with(program, |program| match compile(&program.source.to_string_lossy(), &options) {
        Ok(ptx) => {
            program.ptx = CString::new(ptx).unwrap_or_default();
            DONE
        }
        Err(log) => {
            program.log = CString::new(log).unwrap_or_default();
            COMPILATION
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetPTXSize(program: usize, bytes: *mut usize) -> c_int {
    // SAFETY: the caller gives a valid address.
    with(program, |program| unsafe { write(bytes, program.ptx.as_bytes_with_nul().len()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLogSize(program: usize, bytes: *mut usize) -> c_int {
    // SAFETY: the caller gives a valid address.
    with(program, |program| unsafe { write(bytes, program.log.as_bytes_with_nul().len()) })
}

unsafe fn write(to: *mut usize, value: usize) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { *to = value };
    DONE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetPTX(program: usize, to: *mut c_char) -> c_int {
    // SAFETY: the caller has room for as many bytes as it was given.
    with(program, |program| unsafe { copy(&program.ptx, to) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLog(program: usize, to: *mut c_char) -> c_int {
    // SAFETY: the caller has room for as many bytes as it was given.
    with(program, |program| unsafe { copy(&program.log, to) })
}

unsafe fn copy(text: &CStr, to: *mut c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { to.copy_from_nonoverlapping(text.as_ptr(), text.to_bytes_with_nul().len()) };
    DONE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcDestroyProgram(program: *mut usize) -> c_int {
    // SAFETY: the caller gives a valid address.
    with(unsafe { *program }, |program| {
        *program = Program::default();
        DONE
    })
}
