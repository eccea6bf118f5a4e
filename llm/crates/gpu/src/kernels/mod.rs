//! The kernels: their source, and beside each file of it the launches, typed.
//!
//! Every kernel is plain CUDA C, but for three instructions of tensor cores in `tile.cu`, over `REAL`, the dtype of weights and activations ([`Real`](crate::Real) here), which is read and
//! written through `load` and `store` and computed with as `float`: sums, products and exponentials are rounded once, when stored. No
//! kernel uses atomics, so every sum has one order and a step repeats to the bit.
//!
//! # Layouts
//!
//! Token-major: `[tokens, width]`, rows of the batch end to end.

mod adamw;
mod attention;
mod decode;
mod decode_qkv;
mod embed;
mod head_norm;
mod heads;
mod launch;
mod log_prob;
mod norm;
mod sample;
mod swiglu;

pub use adamw::{AdamWStep, AdamWUpdate, Round, SumOfSquares};
pub use attention::{Attention, AttentionKeys, AttentionQueries, Segments, TILE};
pub use decode::{DecodeAttention, DecodeCombine, DecodeHeads, FillCache, PAGE};
pub use decode_qkv::DecodeQkv;
pub use embed::{Embed, EmbedBackward, GatherRows, ScatterRows};
pub use head_norm::{HeadNorm, HeadNormBackward, HeadNormWeight};
pub use heads::{HeadShape, RotateHeads};
pub use launch::{Kernel, Kernels};
pub use log_prob::{LogProb, LogProbBackward};
pub use norm::{AddBias, ColumnSum, RmsNorm, RmsNormBackward, RmsNormWeight};
pub use sample::{Sample, SampleState, Status};
pub use swiglu::{Swiglu, SwigluBackward};

use std::path::Path;

use grpo_lambda_decoder::device::{DeviceError, Dtype};

/// The source, without headers; the prelude first, `softmax.cu` before those that use its online form, `heads.cu` before `decode.cu`,
/// `norm.cu` before `head_norm.cu`, `tile.cu` before `attention.cu`, and that before `decode.cu` and `decode_qkv.cu`.
const SOURCES: [(&str, &str); 14] = [
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
    ("decode_qkv.cu", include_str!("decode_qkv.cu")),
    ("sample.cu", include_str!("sample.cu")),
];

/// Every kernel; its entry is `NAME_f32` or `NAME_bf16`.
pub const NAMES: [&str; 29] = [
    Embed::NAME,
    EmbedBackward::NAME,
    GatherRows::NAME,
    ScatterRows::NAME,
    RmsNorm::NAME,
    RmsNormBackward::NAME,
    RmsNormWeight::NAME,
    AddBias::NAME,
    ColumnSum::NAME,
    HeadNorm::NAME,
    HeadNormBackward::NAME,
    HeadNormWeight::NAME,
    RotateHeads::NAME,
    Attention::NAME,
    AttentionQueries::NAME,
    AttentionKeys::NAME,
    Swiglu::NAME,
    SwigluBackward::NAME,
    LogProb::NAME,
    LogProbBackward::NAME,
    SumOfSquares::NAME,
    AdamWUpdate::NAME,
    Round::NAME,
    DecodeQkv::NAME,
    DecodeHeads::NAME,
    DecodeAttention::NAME,
    DecodeCombine::NAME,
    FillCache::NAME,
    Sample::NAME,
];

/// Names the directory whose `.cu` files are compiled instead of those that were built in.
pub const SOURCE_DIRECTORY: &str = "GRPO_LAMBDA_KERNELS";

/// The whole source for one dtype: one translation unit without headers, for NVRTC (or, with the emulator's header before it, for
/// a C++ compiler).
pub fn source(dtype: Dtype) -> String {
    joined(dtype, &SOURCES.map(|(_, text)| text.to_owned()))
}

/// [`source`] of the files in this directory, so that a kernel can be changed without building anything.
///
/// # Errors
/// [`DeviceError::Missing`] when one of them cannot be read.
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
    fn every_kernel_of_the_source_is_named() {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let source = source(dtype);
            let heads = source.lines().filter_map(|line| line.strip_prefix("KERNEL("));
            let names = heads.filter_map(|head| head.split_once(", ")?.1.split_once(')'));
            let mut found: Vec<&str> = names.map(|(name, _)| name).collect();
            let mut named = NAMES.to_vec();
            found.sort_unstable();
            named.sort_unstable();
            assert_eq!(found, named);
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
