//! Cards whose kernels run on the PTX machine: the places of the driver, the compiler and cuBLAS are taken by substitutes.

use std::sync::{Arc, Once};

use grpo_lambda_gpu::cuda::Cuda;
use grpo_lambda_gpu::ledger::Uses;
use grpo_lambda_gpu::{Device, Dtype};
use grpo_lambda_ptx::{Card, FIRST, Liberties, Order};

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

/// A card that does nothing before somebody waits for it, or the one that the environment tells.
pub(crate) fn start() -> Arc<dyn Device> {
    ordered(Order::Forward)
}

/// Such a card, whose threads run in this order.
pub(crate) fn ordered(order: Order) -> Arc<dyn Device> {
    let reported = std::env::var(FIRST).ok().and_then(|text| Card::parse(&text));
    let base = reported.unwrap_or(Card { deferred: true, ..Card::default() });
    card(&Card { liberties: Liberties { order, ..base.liberties }, ..base }, Dtype::F32).0
}

/// The use of the memory that a card has for its libraries.
const LIBRARIES: &str = "library workspace";

/// The peak of what was asked for, without the libraries' part.
pub(crate) fn peak(device: &dyn Device) -> (u64, Uses) {
    let (mut bytes, mut uses) = device.ledger().peak();
    bytes -= uses.remove(LIBRARIES).unwrap_or(0);
    (bytes, uses)
}

/// Bytes held without the libraries' part.
pub(crate) fn held(device: &dyn Device) -> u64 {
    device.ledger().total() - device.ledger().peak().1[LIBRARIES]
}
