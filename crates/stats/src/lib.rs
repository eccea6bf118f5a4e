#![doc = include_str!("../README.md")]
//!
//! # Rules
//!
//! All values are `f64`. A sample that is too small for the question gives `None`. A value that is not finite, a level outside 0..1 or lengths that do
//! not match are mistakes of the caller, and panic. Whatever is random takes a seed and gives the same
//! number for the same seed on every machine.
//!
//! Sources: Wilson (1927) and Clopper & Pearson (1934) for proportions; Hyndman & Fan (1996) for
//! quantiles; Holm (1979) for many tests; Agarwal et al., "Deep Reinforcement Learning at the Edge of
//! the Statistical Precipice" (2021, the `rliable` library) for the interquartile mean, the stratified
//! bootstrap and the probability of improvement; Phipson & Smyth (2010) for Monte-Carlo p-values; Chen et al. (2021) for pass@k;
//! McNemar (1947) for paired proportions.

mod attempts;
mod bootstrap;
mod compare;
mod interval;
mod maximum;
mod moments;
mod over_tasks;
mod power;
mod rank;
mod sign_flip;
pub mod table;
mod visible;

pub use attempts::pass_at_k;
pub use bootstrap::{Bootstrap, probability_of_improvement};
pub use compare::{Permutation, holm, paired_permutation, two_proportions};
pub use interval::{
    Estimate, Interval, clopper_pearson, mean_of_independent, normal_interval, t_interval, wilson,
};
pub use maximum::expected_max_normal;
pub use moments::{iqm, mean, quantile, standard_error, variance};
pub use over_tasks::{OverTasks, chosen_on_the_others};
pub use power::{fewest_discordant, least_detectable_difference, least_detectable_mean, mcnemar_power};
pub use rank::{ranks, spearman};
pub use sign_flip::sign_flip_test;
pub use visible::{hanging, visible, visible_line};

use moments::{check, quantile_of_sorted, sorted};
