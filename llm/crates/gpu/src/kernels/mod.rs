//! The kernels' source, and next to each file the typed launches.
//!
//! Every kernel is plain CUDA C, but for three instructions of tensor cores in `tile.cu`, over `REAL`, the dtype of weights and activations
//! ([`Real`](crate::Real) here). `load` and `store` read and write it, and kernels compute with `float`: sums, products and exponentials are
//! rounded once, when stored. No kernel uses atomics, so every sum has one order and a step repeats to the bit.
//!
//! Arrays are token-major: `[tokens, width]`, rows of the batch end to end.

mod adamw;
mod attention;
mod decode;
mod embed;
mod head_norm;
mod heads;
mod launch;
mod log_prob;
mod norm;
mod sample;
mod swiglu;

pub use adamw::*;
pub use attention::*;
pub use decode::*;
pub use embed::*;
pub use head_norm::*;
pub use heads::*;
pub use launch::{Kernel, Kernels};
pub use log_prob::*;
pub use norm::*;
pub use sample::*;
pub use swiglu::*;

use std::path::Path;

use grpo_lambda_decoder::device::{DeviceError, Dtype};

use crate::ptr::{Arg, ElementType};

/// The source, without headers; the prelude first, `softmax.cu` before those that use its online form, `heads.cu` before `decode.cu`,
/// `norm.cu` before `head_norm.cu`, `tile.cu` before `attention.cu` and that before `decode.cu`.
const SOURCES: [(&str, &str); 13] = [
    ("prelude.cu", include_str!("prelude.cu")),
    ("embed.cu", include_str!("embed.cu")),
    ("norm.cu", include_str!("norm.cu")),
    ("head_norm.cu", include_str!("head_norm.cu")),
    ("heads.cu", include_str!("heads.cu")),
    ("softmax.cu", include_str!("softmax.cu")),
    ("tile.cu", include_str!("tile.cu")),
    ("attention.cu", include_str!("attention.cu")),
    ("swiglu.cu", include_str!("swiglu.cu")),
    ("log_prob.cu", include_str!("log_prob.cu")),
    ("adamw.cu", include_str!("adamw.cu")),
    ("decode.cu", include_str!("decode.cu")),
    ("sample.cu", include_str!("sample.cu")),
];

/// Names of the kernels, in the order of the source, which has each as `KERNEL(threads, name)`; an entry is `NAME_f32` or `NAME_bf16`.
pub fn names() -> impl Iterator<Item = &'static str> {
    let heads = SOURCES.iter().flat_map(|(_, text)| text.lines()).filter_map(|l| l.strip_prefix("KERNEL("));
    heads.filter_map(|head| Some(head.split_once(", ")?.1.split_once(')')?.0))
}

/// The threads of a kernel's block and the types of its parameters, as this source declares them, in one spelling: `const float*`, `u32`.
pub fn declared(source: &str, name: &str) -> Option<(u32, Vec<String>)> {
    let (head, rest) = source.split_once(&format!(", {name})("))?;
    let threads = head.rsplit_once("KERNEL(")?.1.parse().ok()?;
    Some((threads, rest.split_once(')')?.0.split(',').map(parameter_type).collect::<Option<_>>()?))
}

/// The type of a parameter; whether the parameter itself is constant or `__restrict__` is no part of it.
fn parameter_type(parameter: &str) -> Option<String> {
    let (to, stars) = match parameter.rsplit_once('*') {
        Some((to, _)) => (to, "*"),
        None => (parameter.trim_end().rsplit_once(char::is_whitespace)?.0, ""),
    };
    let words: Vec<&str> = to.split_whitespace().filter(|word| *word != "const").collect();
    let points_to_constant = !stars.is_empty() && to.split_whitespace().any(|word| word == "const");
    let constant = if points_to_constant { "const " } else { "" };
    (!words.is_empty()).then(|| format!("{constant}{}{stars}", words.join(" ")))
}

/// True if this source declares a kernel of so many threads with parameters of the types of these arguments.
pub fn declares(source: &str, name: &str, dtype: Dtype, threads: u32, args: &[Arg]) -> bool {
    let real = if dtype == Dtype::F32 { "float" } else { "REAL" };
    let fits = |(arg, parameter): (&Arg, &String)| match arg {
        Arg::Null => parameter.ends_with('*'),
        Arg::U32(_) => parameter == "u32",
        Arg::U64(_) => parameter == "u64",
        Arg::F32(_) => parameter == "float",
        Arg::Pointer { to, writes, .. } => {
            let to = match to {
                ElementType::F32 => "float*",
                ElementType::Bf16 => "REAL*",
                ElementType::F64 => "double*",
                ElementType::U32 => "u32*",
            };
            parameter.replace("REAL", real) == if *writes { to.to_owned() } else { format!("const {to}") }
        }
    };
    declared(source, name).is_some_and(|(block, parameters)| {
        block == threads && parameters.len() == args.len() && args.iter().zip(&parameters).all(fits)
    })
}

/// Names the directory whose `.cu` files are compiled instead of those that were built in.
pub const SOURCE_DIRECTORY: &str = "GRPO_LAMBDA_KERNELS";

/// The whole source for one dtype: one translation unit without headers, for NVRTC.
pub fn source(dtype: Dtype) -> String {
    joined(dtype, &SOURCES.map(|(_, text)| text.to_owned()))
}

/// The source that is compiled: [`source`], or [`source_in`] the directory that the environment names.
///
/// # Errors
/// As [`source_in`].
pub fn current(dtype: Dtype) -> Result<String, DeviceError> {
    match std::env::var_os(SOURCE_DIRECTORY).filter(|named| !named.is_empty()) {
        Some(directory) => source_in(Path::new(&directory), dtype),
        None => Ok(source(dtype)),
    }
}

/// [`source`] of the files in this directory, so that a kernel can be changed without building anything.
///
/// # Errors
/// [`DeviceError::Missing`] if one of them cannot be read.
pub fn source_in(directory: &Path, dtype: Dtype) -> Result<String, DeviceError> {
    let read = |(name, _): &(&str, &str)| {
        let path = directory.join(name);
        std::fs::read_to_string(&path).map_err(|e| {
            let files = "the directory must have every .cu file of the kernels";
            DeviceError::Missing(format!("{SOURCE_DIRECTORY}: cannot read {}: {e}; {files}", path.display()))
        })
    };
    Ok(joined(dtype, &SOURCES.iter().map(read).collect::<Result<Vec<_>, _>>()?))
}

fn joined(dtype: Dtype, files: &[String]) -> String {
    let (bf16, name) = (u8::from(dtype == Dtype::Bf16), dtype.name());
    let defines = format!("#define BF16 {bf16}\n#define NAME(kernel) kernel##_{name}\n");
    std::iter::once(&defines).chain(files).map(String::as_str).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_the_source_does_not_declare_are_refused() {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let real = |writes| Arg::Pointer { address: 0, to: dtype.into(), writes, elements: 0 };
            let [x, bias, width] = [real(true), real(false), Arg::U32(3)];
            let source = source(dtype);
            let fits = |threads, args: &[Arg]| declares(&source, "add_bias", dtype, threads, args);
            assert!(fits(256, &[x, bias, width]) && fits(256, &[x, Arg::Null, width]));
            let counts = Arg::Pointer { address: 0, to: ElementType::U32, writes: false, elements: 0 };
            for wrong in [[bias, x, width], [x, width, bias], [x, counts, width], [x, bias, Arg::F32(3.0)]] {
                assert!(!fits(256, &wrong), "{wrong:?}");
            }
            assert!(!fits(128, &[x, bias, width]) && !fits(256, &[x, bias]));
            assert!(!declares(&source, "no_such_kernel", dtype, 256, &[x, bias, width]));
        }
    }

    #[test]
    fn spellings_of_one_declaration_are_one() {
        let fits = |parameters: &str| {
            let source = format!("KERNEL(64, k)({parameters}) {{}}");
            let pointer = |writes| Arg::Pointer { address: 0, to: ElementType::F32, writes, elements: 0 };
            declares(&source, "k", Dtype::F32, 64, &[pointer(true), pointer(false), Arg::U32(3)])
        };
        for same in [
            "float* x, const float* y, u32 n",
            "float *x, float const *y, const u32 n",
            "REAL * __restrict__ x,\n  const  float*const __restrict__ y,\tu32  n",
        ] {
            assert!(fits(same), "{same}");
        }
        for other in [
            "const float* x, float* y, u32 n",
            "float x, const float* y, u32 n",
            "float*, float**y, u32 n",
            "u32",
        ] {
            assert!(!fits(other), "{other}");
        }
    }

    #[test]
    fn files_on_disk_take_the_place_of_those_built_in() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let here = directory.path();
        for (name, text) in SOURCES {
            std::fs::write(here.join(name), text).expect("writable");
        }
        for dtype in [Dtype::F32, Dtype::Bf16] {
            assert_eq!(source_in(here, dtype), Ok(source(dtype)));
        }
        std::fs::write(here.join("swiglu.cu"), "// another").expect("writable");
        assert!(source_in(here, Dtype::F32).is_ok_and(|text| text.contains("// another")));
        std::fs::remove_file(here.join("norm.cu")).expect("there");
        let line = source_in(here, Dtype::F32).expect_err("refused").to_string();
        assert!(line.contains("GRPO_LAMBDA_KERNELS") && line.contains("norm.cu"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
}
