//! The kernels as a shared library of the host, one per dtype.

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use grpo_lambda_gpu::kernels::{names, source};
use grpo_lambda_gpu::ptr::ElementType;
use grpo_lambda_gpu::{Arg, Dtype};
use libloading::Library;
use rayon::prelude::*;

/// No fused multiply-add and no other liberty; a misaligned access, an error on a card, ends the process.
const FLAGS: [&str; 9] = [
    "-std=c++17",
    "-O3",
    "-ffp-contract=off",
    "-fsanitize=alignment",
    "-fsanitize-undefined-trap-on-error",
    "-fno-strict-aliasing",
    "-Wno-unknown-pragmas",
    "-shared",
    "-fPIC",
];

/// The compiler, or why there is none.
pub(crate) fn compiler() -> &'static Result<String, String> {
    static FOUND: OnceLock<Result<String, String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let name = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
        match Command::new(&name).arg("--version").output() {
            Ok(out) if out.status.success() => Ok(name),
            _ => Err(format!("no C++ compiler `{name}`, which the emulator compiles the kernels with")),
        }
    })
}

/// CUDA C and its kernels, compiled when first launched.
#[derive(Debug)]
pub(crate) struct Program {
    /// The ending of the entries.
    pub(crate) ending: &'static str,
    pub(crate) source: String,
    pub(crate) names: Vec<&'static str>,
    open: OnceLock<Result<Launch, String>>,
}

/// The product's kernels, compiled once per process.
pub(crate) fn kernels(dtype: Dtype) -> &'static Program {
    static PROGRAMS: [OnceLock<Program>; 2] = [const { OnceLock::new() }; 2];
    PROGRAMS[usize::from(dtype == Dtype::Bf16)]
        .get_or_init(|| Program::new(dtype.name(), source(dtype), names().collect()))
}

impl Program {
    pub(crate) fn new(ending: &'static str, source: String, names: Vec<&'static str>) -> Self {
        Program { ending, source, names, open: OnceLock::new() }
    }

    /// The number of threads that a kernel is for: `KERNEL(threads, name)`. More are an error on a card.
    fn threads(&self, name: &str) -> Option<u32> {
        let end = self.source.find(&format!(", {name})("))?;
        let start = self.source[..end].rfind("KERNEL(")? + "KERNEL(".len();
        self.source[start..end].parse().ok()
    }

    /// The kernels between what CUDA provides and the way in.
    fn text(&self) -> String {
        let entries = self.names.iter().map(|name| {
            let entry = format!("{name}_{}", self.ending);
            format!("{{\"{name}\", emulated::Entry<{entry}>::kinds, emulated::Entry<{entry}>::call}},\n")
        });
        let entries: String = entries.collect();
        let table = format!("static const emulated::Named TABLE[] = {{\n{entries}}};\n");
        [include_str!("cuda.hpp"), &self.source, &table, include_str!("launch.hpp")].concat()
    }

    fn build(&self) -> Result<PathBuf, String> {
        let compiler = compiler().as_ref().map_err(Clone::clone)?;
        let text = self.text();
        let mut hash = DefaultHasher::new();
        (compiler, FLAGS, &text).hash(&mut hash);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let library = folder.join(format!("kernels_{}_{:016x}.so", self.ending, hash.finish()));
        if library.exists() {
            return Ok(library);
        }
        // Others may build the same: each in a folder of its own, moved into place when whole.
        let own = tempfile::tempdir_in(folder).map_err(|e| e.to_string())?;
        let (input, output) = (own.path().join("kernels.cpp"), own.path().join("kernels.so"));
        fs::write(&input, text).map_err(|e| e.to_string())?;
        let run = Command::new(compiler).args(FLAGS).arg("-o").arg(&output).arg(&input).output();
        let run = run.map_err(|e| e.to_string())?;
        if !run.status.success() {
            return Err(format!("{compiler} refuses the kernels:\n{}", String::from_utf8_lossy(&run.stderr)));
        }
        fs::rename(&output, &library).map_err(|e| e.to_string())?;
        Ok(library)
    }

    fn entry(&self) -> Result<Launch, String> {
        let open = || {
            let path = self.build()?;
            // SAFETY: the library is this module's own; it has no initialisers, and stays open to the end of the process.
            unsafe {
                let library = Box::leak(Box::new(Library::new(path).map_err(|e| format!("{e:?}"))?));
                library.get::<Launch>(b"emulated_launch").map(|launch| *launch).map_err(|e| e.to_string())
            }
        };
        self.open.get_or_init(open).clone()
    }

    /// Runs a kernel; blocks in several threads of the host.
    pub(crate) fn launch(
        &self,
        name: &str,
        grid: (u32, u32),
        block: u32,
        order: u64,
        args: &[Arg],
    ) -> Result<(), String> {
        if let Some(threads) = self.threads(name)
            && threads != block
        {
            return Err(format!("it is written for {threads} threads, not {block}"));
        }
        let launch = self.entry()?;
        let kinds: Vec<u8> = args.iter().map(|arg| kind_and_bits(*arg).0).collect();
        let kinds = CString::new(kinds).expect("letters");
        let slots: Vec<u64> = args.iter().map(|arg| kind_and_bits(*arg).1).collect();
        let name = CString::new(name).expect("a name");
        let blocks = u64::from(grid.0) * u64::from(grid.1);
        let span = blocks.div_ceil(4 * rayon::current_num_threads() as u64).max(1);
        let run = |part: u64| {
            let (from, to) = (part * span, ((part + 1) * span).min(blocks));
            // SAFETY: the library checks the arguments' types, and the caller that addresses are live; what is pointed at
            // outlives the call.
            unsafe {
                let (name, kinds, slots) = (name.as_ptr(), kinds.as_ptr(), slots.as_ptr());
                let problem = launch(name, kinds, grid.0, grid.1, block, from, to, order, slots);
                match problem.is_null() {
                    true => Ok(()),
                    false => Err(CStr::from_ptr(problem).to_string_lossy().into_owned()),
                }
            }
        };
        (0..blocks.div_ceil(span)).into_par_iter().try_for_each(run)
    }
}

type Launch = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    u32,
    u32,
    u32,
    u64,
    u64,
    u64,
    *const u64,
) -> *const c_char;

/// The letter that `cuda.hpp` gives a parameter of this type, and the bits. Of a pointer the letter says what it points at, in capitals
/// where that may be written; a null pointer is as good as any.
fn kind_and_bits(arg: Arg) -> (u8, u64) {
    match arg {
        Arg::Pointer { address, to, writes, .. } => {
            let letter = match to {
                ElementType::F32 => b's',
                ElementType::Bf16 => b'h',
                ElementType::F64 => b'd',
                ElementType::U32 => b'u',
            };
            (if writes { letter.to_ascii_uppercase() } else { letter }, address)
        }
        Arg::Null => (b'0', 0),
        Arg::U32(x) => (b'i', u64::from(x)),
        Arg::U64(x) => (b'l', x),
        Arg::F32(x) => (b'f', u64::from(x.to_bits())),
    }
}
