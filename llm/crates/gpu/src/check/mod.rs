//! Every kernel, matrix product and captured graph of a device against the CPU's operations
//! ([`grpo_lambda_decoder::model::ops`]) in `f64`, at a table of sizes for each kernel: below, at and beyond what a block works on.
//!
//! A case fills its inputs with random numbers, rounded to their dtype first, launches, and compares every number that the kernel writes, and
//! those that must stay. Outputs begin as NaN and end in guard bytes, so a number that is not written, or beyond the end, shows. A number may
//! be off by
//!
//! ```text
//! bound = 2^-19 size  +  2^-8 |value| when it is stored in bf16
//! ```
//! with `size` the magnitude of the terms from which the case's numbers are computed. Copies, indices, tokens and the optimiser have bound 0.
//! The reported error is that of the number furthest out by its own bound.

mod array;
mod attention;
mod case;
mod decode;
mod flat;
mod gemm;
mod heads;
mod model;
mod proof;
mod report;
mod rows;
mod vocabulary;

use std::sync::Arc;

use grpo_lambda_decoder::device::Dtype;

use super::device::Device;
use super::kernels::{self, HeadShape};

pub use model::Reference;
pub use proof::{prove_card, prove_shape};
pub use report::{COLUMNS, csv_rows, passed, table};

/// Checks besides the kernels: matrix products, captured graphs, and a model from tokens to gradients.
pub const OTHERS: [&str; 3] = ["gemm", "replay", "decoder"];

/// The sizes that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Odd sizes.
    Odd,
    /// Odd sizes, and the widths of a 1.5B model in a few rows.
    Small,
}

impl Extent {
    /// The sizes to check, of which the last is that of a 1.5B model.
    fn sizes<T: Copy>(self, small: &[T]) -> Vec<T> {
        small[..small.len() - usize::from(self == Extent::Odd)].to_vec()
    }
}

/// Heads of odd sizes, of which a lane of a warp has more than four numbers, the widest that a kernel keeps in registers, more query heads to a
/// key head than a block works on, and those of a 1.5B model.
const HEADS: [HeadShape; 7] = [
    HeadShape { query: 1, key: 1, dim: 2 },
    HeadShape { query: 6, key: 3, dim: 10 },
    HeadShape { query: 4, key: 1, dim: 64 },
    HeadShape { query: 4, key: 2, dim: 134 },
    HeadShape { query: 2, key: 2, dim: HeadShape::WIDEST },
    HeadShape { query: 20, key: 1, dim: 32 },
    HeadShape { query: 12, key: 2, dim: 128 },
];

/// The result of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The kernel, or one of [`OTHERS`].
    pub kernel: &'static str,
    /// The dtype of its numbers.
    pub dtype: Dtype,
    /// Its sizes.
    pub case: String,
    /// The error of the worst number.
    pub error: f64,
    /// The bound of that number's error.
    pub bound: f64,
    /// Any other problem, in one line.
    pub problem: Option<String>,
    /// A hash of the bits of every number that was compared: equal findings of two runs read equal bits.
    pub bits: u64,
}

impl Finding {
    /// True if every number was within its bound and there was no other problem.
    pub fn passed(&self) -> bool {
        self.problem.is_none() && self.error <= self.bound
    }
}

/// Checks small models on a device, from tokens to gradients, against the implementation that is called `name`.
pub fn against(
    device: &Arc<dyn Device>,
    dtype: Dtype,
    name: &str,
    reference: &Reference<'_>,
) -> Vec<Finding> {
    let mut checker = case::Checker::new(device, dtype, Extent::Small, None);
    model::check_by(&mut checker, &format!(", against {name}"), reference);
    checker.findings
}

/// Checks what a device computes in `dtype`; with `only`, one kernel or one of [`OTHERS`]. A kernel without a case is a finding
/// that did not pass. Ends at a case after which the device refuses every call.
pub fn run(device: &Arc<dyn Device>, dtype: Dtype, extent: Extent, only: Option<&str>) -> Vec<Finding> {
    let mut checker = case::Checker::new(device, dtype, extent, only);
    rows::check(&mut checker);
    heads::check(&mut checker);
    attention::check(&mut checker);
    decode::check(&mut checker);
    vocabulary::check(&mut checker);
    flat::check(&mut checker);
    gemm::check(&mut checker);
    model::check(&mut checker);

    let (mut findings, lost) = (checker.findings, checker.lost);
    for name in kernels::names().chain(OTHERS).filter(|name| only.is_none_or(|o| o == *name)) {
        if !lost && findings.iter().all(|f| f.kernel != name) {
            findings.push(case::broken(name, dtype, "none", "no case checks it"));
        }
    }
    findings
}
