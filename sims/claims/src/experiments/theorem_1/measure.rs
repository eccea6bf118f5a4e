//! What is computed: both sides of the theorem on policy gradients, in exact rationals, for other operators and for long responses.

use grpo_lambda::advantage::{Delta, td_errors};
use grpo_lambda::trace::{AsPrinted, Both, Recent, RowNormalised, Sequence, Style, Trace};
use rand_chacha::ChaCha8Rng;

use super::policy_gradients::{OnMdp, on_zoo};
use super::rationals::{Rationals, in_rationals};
use crate::experiment::Context;
use crate::experiments::common::random::{noise, stream};
use crate::experiments::common::vectors::{dot, largest};

pub(super) struct Numbers {
    /// MDPs with policy gradients.
    pub(super) mdps: usize,
    pub(super) on_mdps: Vec<OnMdp>,
    pub(super) rationals: Rationals,
    pub(super) operators: Operators,
    pub(super) lengths: Vec<Length>,
}

/// The exchange of sums with operators that have nothing to do with GAE.
pub(super) struct Operators {
    pub(super) names: Vec<&'static str>,
    /// The largest difference of the two sides.
    pub(super) worst: f64,
}

/// Both sides for random numbers of one length.
pub(super) struct Length {
    pub(super) q: f64,
    pub(super) len: usize,
    /// The largest difference, relative to the sum of magnitudes.
    pub(super) difference: f64,
    /// `Σ δ_t / (r - V(s_0))` of the TD errors of a random critic.
    pub(super) counted_td: f64,
    /// The same of `δ_t = A_NAE`.
    pub(super) counted_nae: f64,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let on_zoo = on_zoo(context.seed);
    (context.progress)(0.5, "exact rationals");
    let rationals = in_rationals(&mut stream(context.seed, 100));
    let operators = other_operators(&mut stream(context.seed, 101));
    let lengths = [0.9, 0.99, 1.0].into_iter().flat_map(|q| (0..=13).map(move |power| (q, power)));
    let lengths = lengths.map(|(q, power)| of_length(q, 1 << power, &mut stream(context.seed, 200 + power)));
    Ok(Numbers {
        mdps: on_zoo.len(),
        on_mdps: on_zoo.into_iter().flatten().collect(),
        rationals,
        operators,
        lengths: lengths.collect(),
    })
}

fn other_operators(rng: &mut ChaCha8Rng) -> Operators {
    let others: [(&str, Box<dyn Trace>); 4] = [
        ("both", Box::new(Both { q: 0.9 })),
        ("printed", Box::new(AsPrinted { q: 0.9, floor: 0.0, style: Style::Both, max_length: None })),
        ("sequence", Box::new(Sequence)),
        ("normalised", Box::new(RowNormalised(Recent { q: 0.9 }))),
    ];
    let mut worst = 0.0f64;
    for (_, trace) in &others {
        for len in 1..=64 {
            let (x, y) = (noise(rng, len), noise(rng, len));
            worst = worst.max((dot(&y, &trace.apply(&x)) - dot(&trace.adjoint(&y), &x)).abs());
        }
    }
    Operators { names: others.map(|(name, _)| name).into(), worst }
}

fn of_length(q: f64, len: usize, rng: &mut ChaCha8Rng) -> Length {
    let difference = largest((0..8).map(|_| rounding(rng, q, len)));
    let critic = noise(rng, len);
    let rewards = Delta::Terminal.spread(1.0, len);
    let counted_td = td_errors(&rewards, &critic, 1.0).iter().sum::<f64>() / (1.0 - critic[0]);
    let counted_nae = Delta::Constant.spread(1.0, len).iter().sum();
    Length { q, len, difference, counted_td, counted_nae }
}

/// The rounding difference of both sides for random numbers, relative to the sum of magnitudes.
fn rounding(rng: &mut ChaCha8Rng, q: f64, len: usize) -> f64 {
    let (delta, nabla) = (noise(rng, len), noise(rng, len));
    let advantages = Recent { q }.adjoint(&delta);
    let traces = Recent { q }.apply(&nabla);
    let products = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<_>>();
    let (left, right) = (products(&advantages, &nabla), products(&delta, &traces));
    let magnitude: f64 = left.iter().map(|x| x.abs()).sum();
    (left.iter().sum::<f64>() - right.iter().sum::<f64>()).abs() / magnitude
}
