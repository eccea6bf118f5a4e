//! Cards whose kernels run on the PTX machine: the places of the driver, the compiler and cuBLAS are taken by stand-ins.

use std::sync::{Arc, Once};

use grpo_lambda_gpu::cuda::Cuda;
use grpo_lambda_gpu::{Device, Dtype};
use grpo_lambda_ptx::Card;

/// A card with its kernels for `dtype`, and its number.
pub(crate) fn card(card: &Card, dtype: Dtype) -> (Arc<dyn Device>, usize) {
    static CACHE: Once = Once::new();
    CACHE.call_once(|| {
        let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/ptx");
        // SAFETY: this process reads its environment through the standard library alone, which locks it.
        unsafe { std::env::set_var("GRPO_LAMBDA_CACHE", folder) };
    });
    let number = grpo_lambda_ptx::plug(card).unwrap();
    (Arc::new(Cuda::open(number, dtype, |line| eprintln!("{line}")).unwrap()), number)
}
