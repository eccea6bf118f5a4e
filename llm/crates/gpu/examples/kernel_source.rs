//! Prints the source of the GPU kernels for one dtype, as NVRTC gets it: `cargo run -p grpo-lambda-gpu --example kernel_source bf16`. With
//! `GRPO_LAMBDA_KERNELS=DIR` it is that of the files there.

use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::kernels::current;

fn main() -> anyhow::Result<()> {
    let dtype = match std::env::args().nth(1).as_deref() {
        Some("f32") => Dtype::F32,
        Some("bf16") => Dtype::Bf16,
        other => anyhow::bail!("the dtype is {}: give f32 or bf16", other.unwrap_or("missing")),
    };
    print!("{}", current(dtype)?);
    Ok(())
}
