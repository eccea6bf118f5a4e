//! Devices that a run is predicted for: one table of their best rates, and one assumed share of them.

use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::dry::Ceilings;

/// The share of its best rates that a run on a GPU is assumed to reach. Steps of 1.5B to 7B reached 0.59 to 0.73 of those of an H100, one with
/// prompts of 16,384 tokens 0.34 (`paper/data/gpu_h100_bench.csv`); what has not been timed is assumed to reach less than most.
pub const UTILISATION: f64 = 0.5;
/// The share on the processor: a guess.
const ON_PROCESSOR: f64 = 0.3;

/// A device and its best rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Card {
    pub name: &'static str,
    pub about: &'static str,
    /// Its name by its driver. Cards of like names are slower: H100 PCIe, H200 NVL, A100 of 40 GB.
    driver: Option<&'static str>,
    /// Number format of the weights while computing.
    pub dtype: Dtype,
    /// Bytes of memory for a run; `None` for the processor, which has the machine's.
    pub memory: Option<u64>,
    pub ceilings: Ceilings,
    /// The share of the rates that a run is assumed to reach.
    pub utilisation: f64,
    /// Origin of the rates.
    pub source: &'static str,
}

const GIB: u64 = 1 << 30;

/// Every known device, the default first.
pub fn cards() -> [Card; 4] {
    let measured = Ceilings::default();
    let rates = |operations, bandwidth| Ceilings { operations, bandwidth, ..measured };
    let card = |name, about, driver, memory, ceilings, source| Card {
        name,
        about,
        driver: Some(driver),
        dtype: Dtype::Bf16,
        memory: Some(memory),
        ceilings,
        utilisation: UTILISATION,
        source,
    };
    let of_copies = "measured in a large copy and a large product";
    [
        card("h100", "NVIDIA H100 SXM, bf16", "NVIDIA H100 80GB HBM3", 78 * GIB, measured, of_copies),
        card("h200", "NVIDIA H200 SXM, bf16", "NVIDIA H200", 130 * GIB, rates(803e12, 4.2e12), of_copies),
        card(
            "a100",
            "NVIDIA A100 80 GB SXM, bf16",
            "NVIDIA A100-SXM4-80GB",
            78 * GIB,
            rates(312e12, 2.039e12),
            "data sheet",
        ),
        Card {
            name: "cpu",
            about: "two cores of a Zen 5, f32",
            driver: None,
            dtype: Dtype::F32,
            memory: None,
            ceilings: Ceilings { gap: 0.0, ..rates(462e9, 50e9) },
            utilisation: ON_PROCESSOR,
            source: "operations measured in a product within the caches; the bandwidth is a guess",
        },
    ]
}

/// The card with this name by its driver, as in `NVIDIA H100 80GB HBM3`.
pub fn of_driver(name: &str) -> Option<Card> {
    cards().into_iter().find(|card| card.driver == Some(name))
}
