//! One run over several processes: the leader trains as ever, and workers compute their share of what it asks for.
//!
//! | module | holds |
//! | --- | --- |
//! | `launch` | which process of how many this is, by what `mpirun` or another launcher says |
//! | [`link`] | what a transport has to do: move bytes between two processes |
//! | [`threads`] | processes that are threads, for tests |
//! | `mpi` (feature `mpi`) | processes of MPI |
//! | [`error`] | why a team cannot work, or go on |
//! | [`leader`] | the leader's side of the conversation |
//! | [`engine`] | the engine of a run whose work the team shares |
//! | [`worker`] | what a worker does, order by order |
//! | `order` | the orders and their answers |
//! | [`owners`] | which process has the optimiser of which tensor |
//! | `share` | a process's part of the gradient, and how all parts are added up |
//! | `spread` | how weights that have moved come to all |
//! | [`shards`] | which row belongs to which shard, and which shard to which process |
//! | [`tree`] | the one order of additions |
//!
//! # Who does what
//!
//! The leader, process 0, is the only one that reads the configuration's files, grades, evaluates, decides on a step and writes the run
//! directory. Every process holds a copy of the weights, its shards' gradients, and the optimiser of the tensors that it owns. Workers sample their
//! part of the responses, score their part under the policy and under the reference, and add up their part of the gradient. Between two orders a
//! worker waits; it decides nothing.
//!
//! A step has three parts. The gradient of each tensor is added up at its owner. Owners tell the leader the squares of theirs; it adds them in the
//! order of names, which is that of one process, clips or skips, and tells all. Owners move their tensors and send them to all. A checkpoint asks the
//! owners for their state array by array, in the file's order.
//!
//! # The equation
//!
//! The gradient of a batch is a sum over its rows, and a sum of `f32` depends on the order of its additions. So the order is fixed. Row `i` of a
//! step belongs to shard `i mod S`, with `S` a power of two. With `g_s` the gradient of shard `s`, its rows accumulated in order,
//!
//! ```text
//! G = T(0, S),     T(a, 1) = g_a,     T(a, n) = T(a, n/2) + T(a + n/2, n/2)     (one rounding per + and element)
//! ```
//!
//! Of `N <= S` processes, process `r` owns the shards `r S/N .. (r+1) S/N`, rounded down. It adds up the complete subtrees among them and sends these;
//! the tensor's owner adds the rest. Hence `G` has the same bits for every `N`, and with it the norm it is clipped by, the optimiser and the weights.
//!
//! **`S` (the setting `shards`) belongs to the result, like a seed; `N` does not, like a number of threads.** A run continued on other hardware keeps
//! `S` and chooses `N`. With `S = 1` the bits are those of a run without a team.
//!
//! What else could depend on `N` does not: a response depends on its address alone and a score on its row alone; the loss, its credit and its
//! normaliser are the leader's, of the whole batch.
//!
//! # Memory
//!
//! A process holds `S/N` buffers of the gradient's size, and gradient and optimiser of its own tensors: at most an `N`-th of all and the largest
//! tensor. An adapter's optimiser is the leader's alone. The reference comes to a worker when it is first asked for.
//!
//! # Failures
//!
//! A worker that fails says why, and the leader ends the run with its number and reason. A process that dies ends all: `mpirun` sees it and names it.
//! One that hangs is given up after a while (`--patience`), by name. The run continues from its last checkpoint, with any `N`.

pub mod engine;
pub mod error;
mod launch;
pub mod leader;
pub mod link;
#[cfg(test)]
mod memory_tests;
#[cfg(feature = "mpi")]
mod mpi;
mod order;
pub mod owners;
pub mod shards;
mod share;
mod spread;
pub mod threads;
pub mod tree;
pub mod worker;

pub use engine::TeamEngine;
pub use error::TeamError;
pub use launch::{LaunchError, Seat, join};
pub use leader::Team;
pub use link::{Link, LinkError};
pub use shards::Shards;
