//! NVRTC: the kernels' source into machine code.

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};

use cudarc::nvrtc::result as nvrtc;
use cudarc::nvrtc::result::NvrtcError;
use cudarc::nvrtc::sys;
use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::disk::Disk;

use crate::device::Report;
use crate::image::{self, CacheKey, Target};
use crate::kernels;

/// The oldest compute capability whose tensor cores multiply bf16.
const BF16_CAPABILITY: u32 = 80;

/// The kernels for `dtype` on a card of this compute capability, from the cache if they are there.
pub(super) fn kernels(
    dtype: Dtype,
    capability: u32,
    compiler: (i32, i32),
    device: &str,
    report: Report,
) -> Result<Vec<u8>, DeviceError> {
    let (major, minor) = compiler;
    if dtype == Dtype::Bf16 && capability < BF16_CAPABILITY {
        return Err(DeviceError::Missing(format!(
            "{device} has compute capability {}.{}: bf16 needs 8.0 or newer; use f32",
            capability / 10,
            capability % 10
        )));
    }
    let known = architectures()
        .map_err(|e| super::failure::call("nvrtcGetSupportedArchs", device, format!("{:?}", e.0)))?;
    let Some(target) = Target::best(capability, &known) else {
        let oldest = known.iter().min().copied().unwrap_or(0);
        return Err(DeviceError::Missing(format!(
            "{device} has compute capability {}.{}; NVRTC {major}.{minor} compiles for {}.{} and newer: it \
            needs older CUDA libraries",
            capability / 10,
            capability % 10,
            oldest / 10,
            oldest % 10
        )));
    };
    let options = options(target);
    let key = CacheKey { target, dtype, compiler, options, source: source(dtype, report)? };
    let directory = image::directory(|name| std::env::var_os(name));
    let loaded = image::load_or_compile(&key, directory.as_deref(), || compile(&key));
    let (code, warning) = loaded.map_err(|failure| failure.describe(&key, directory, device))?;
    if let Some(warning) = warning {
        report(&warning);
    }
    Ok(code)
}

/// The kernels' source: built in, or from the directory that the environment names.
fn source(dtype: Dtype, report: Report) -> Result<String, DeviceError> {
    if let Some(directory) = std::env::var_os(kernels::SOURCE_DIRECTORY).filter(|named| !named.is_empty()) {
        let directory = Path::new(&directory).display();
        report(&format!("the kernels are those of {directory}, named by {}", kernels::SOURCE_DIRECTORY));
    }
    kernels::current(dtype)
}

fn options(target: Target) -> Vec<String> {
    vec![format!("--gpu-architecture={}", target.architecture()), "--std=c++17".to_owned()]
}

/// Compute capabilities that this NVRTC knows.
fn architectures() -> Result<Vec<u32>, NvrtcError> {
    let mut count = 0;
    // SAFETY: writes one int to a valid address.
    unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result()?;
    let mut known = vec![0_i32; usize::try_from(count).unwrap_or(0)];
    // SAFETY: writes as many ints as it said.
    unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) }.result()?;
    Ok(known.into_iter().filter_map(|c| u32::try_from(c).ok()).collect())
}

/// A compilation that failed.
#[derive(Debug)]
struct Failure {
    status: String,
    log: String,
}

impl Failure {
    /// One line; the compiler's log goes into a file.
    fn describe(self, key: &CacheKey, directory: Option<PathBuf>, device: &str) -> DeviceError {
        let Failure { status, log } = self;
        let (major, minor) = key.compiler;
        let call = format!(
            "compiling the {} kernels for {} with NVRTC {major}.{minor}",
            key.dtype.name(),
            key.target.architecture()
        );
        let first = log.lines().find(|l| l.contains("error")).or(log.lines().next());
        let mut reason = first.map_or(status.clone(), |line| format!("{status}: {}", line.trim()));
        if status.contains("BUILTIN_OPERATION") {
            reason += "; the directory of libnvrtc must be on LD_LIBRARY_PATH, because NVRTC opens \
                libnvrtc-builtins from there";
        }
        if !log.trim().is_empty() {
            let directory = directory.unwrap_or_else(std::env::temp_dir);
            let path = directory.join(format!("kernels-{}.log", key.dtype.name()));
            if keep(&path, log.as_bytes()) {
                reason += &format!("; all of it is in {}", path.display());
            }
        }
        super::failure::call(call, device, reason)
    }
}

fn keep(path: &Path, text: &[u8]) -> bool {
    let disk = Disk::default();
    let parent = path.parent().unwrap_or(Path::new("."));
    disk.create_directories(parent).and_then(|()| disk.replace(path, text)).is_ok()
}

/// A program of NVRTC, destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it was created and is destroyed here alone. Should that fail, some memory is lost.
        let _ = unsafe { nvrtc::destroy_program(self.0) };
    }
}

fn compile(key: &CacheKey) -> Result<Vec<u8>, Failure> {
    let bare = |status: String| Failure { status, log: String::new() };
    let failure = |e: NvrtcError| bare(format!("{:?}", e.0));
    let source = CString::new(key.source.as_str()).map_err(|e| bare(e.to_string()))?;
    let program = Program(nvrtc::create_program(&source, Some(c"kernels.cu")).map_err(failure)?);
    // SAFETY: the program lives until the end of this function, and so does its source.
    if let Err(error) = unsafe { nvrtc::compile_program(program.0, &key.options) } {
        // SAFETY: likewise.
        let log = unsafe { nvrtc::get_program_log(program.0) }.unwrap_or_default();
        return Err(Failure { status: format!("{:?}", error.0), log: text(&log) });
    }
    match key.target {
        Target::Machine(_) => machine_code(&program).map_err(failure),
        // SAFETY: likewise. It ends with a zero, as the driver wants it.
        Target::Portable(_) => unsafe { nvrtc::get_ptx(program.0) }
            .map(|text| bytemuck::cast_slice(&text).to_vec())
            .map_err(failure),
    }
}

fn machine_code(program: &Program) -> Result<Vec<u8>, NvrtcError> {
    let mut size = 0;
    // SAFETY: the program was compiled; writes one size to a valid address.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &raw mut size) }.result()?;
    let mut code = vec![0_u8; size];
    // SAFETY: writes as many bytes as it said.
    unsafe { sys::nvrtcGetCUBIN(program.0, code.as_mut_ptr().cast::<c_char>()) }.result()?;
    Ok(code)
}

fn text(chars: &[c_char]) -> String {
    String::from_utf8_lossy(bytemuck::cast_slice(chars)).trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(target: Target, dtype: Dtype, source: String) -> CacheKey {
        let options = options(target);
        CacheKey { target, dtype, compiler: (13, 0), options, source }
    }

    #[test]
    #[ignore = "needs libnvrtc, but no card"]
    fn every_kernel_compiles_for_a_hopper_card_and_for_any_newer_one() {
        assert!(architectures().expect("it tells").contains(&90));
        for dtype in [Dtype::F32, Dtype::Bf16] {
            for (target, magic) in
                [(Target::Machine(90), &b"\x7fELF"[..]), (Target::Portable(90), &b"//"[..])]
            {
                let code = compile(&key(target, dtype, kernels::source(dtype))).expect("it compiles");
                let holds = |text: &str| code.windows(text.len()).any(|w| w == text.as_bytes());
                assert!(code.starts_with(magic), "{target:?}");
                for name in kernels::names() {
                    assert!(holds(&format!("{name}_{}", dtype.name())), "{name} in {target:?}");
                }
            }
        }
    }

    #[test]
    #[ignore = "needs libnvrtc, but no card"]
    fn source_that_does_not_compile_is_one_line_and_a_log() {
        let broken = key(Target::Machine(90), Dtype::F32, "extern \"C\" __global__ void f(".to_owned());
        let place = tempfile::tempdir().expect("a temporary directory");
        let failure = compile(&broken).expect_err("it does not compile");
        let line = failure.describe(&broken, Some(place.path().to_owned()), "a card").to_string();
        let start = "compiling the f32 kernels for sm_90 with NVRTC 13.0 failed on a card: \
            NVRTC_ERROR_COMPILATION: kernels.cu(1): error: ";
        assert!(line.starts_with(start) && !line.contains('\n'), "{line}");
        let log = std::fs::read_to_string(place.path().join("kernels-f32.log")).expect("a log");
        assert!(log.contains("error") && line.ends_with("kernels-f32.log"), "{log}");
    }
}
