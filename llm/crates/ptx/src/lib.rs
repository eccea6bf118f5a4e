//! A card for tests: a machine that executes PTX on the CPU, with substitutes for the CUDA driver, NVRTC and cuBLAS.
//!
//! A program that loads the CUDA libraries when it runs finds this crate's library in their place, so that all of it is under test, down to
//! the instructions: what is loaded and called, captured and replayed, and every access to memory. Reported as an illegal access are reads and
//! writes outside of an allocation, misaligned ones, reads of what nobody wrote, races inside shared memory, barriers that not all threads
//! reach, and lanes that are missing where a warp executes together. The translation of PTX into machine code, caches, cuBLAS's algorithms
//! and times are not the card's.
//!
//! ```no_run
//! let number = grpo_lambda_ptx::plug(&grpo_lambda_ptx::Card::default())?;
//! # Ok::<(), String>(())
//! ```

mod blas;
mod card;
mod driver;
mod execute;
mod machine;
mod memory;
mod nvrtc;
mod parse;
mod plug;
mod product;

pub use card::{Card, Change, Edit, Fault};
pub use driver::{FIRST, VERSION};
pub use machine::{Liberties, Order};
pub use parse::{Kernel, Module};
pub use plug::{coverage, libraries, plug};
