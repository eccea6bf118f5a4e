//! Kernels of the optimiser: the norm of gradients, AdamW, rounding.

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings};

use super::Extent;
use super::trial::{Bench, Kind, rounded};
use crate::kernels::{AdamWStep, Kernels};

const SMALL: [usize; 4] = [1, 5, 1023, 150_001];

pub(super) fn check(bench: &mut Bench) {
    let mut sizes = bench.extent.of(&SMALL);
    if bench.extent == Extent::Full {
        sizes.push((1 << 24, true));
    }
    for (n, timed) in sizes {
        sum_of_squares(bench, n, timed);
        round(bench, n, timed);
        for compensated in [false, true] {
            adamw(bench, n, compensated, timed);
        }
    }
}

/// Only the sums over all blocks are laid down; which block has which numbers is not.
fn sum_of_squares(bench: &mut Bench, n: usize, timed: bool) {
    for not_finite in [0, 2] {
        bench.case("sum_of_squares", format!("{n} numbers, {not_finite} not finite").replace(',', ""), |c| {
            let mut x = c.random(Kind::F32, n, 1e3)?.at_start;
            let bad = [f64::NAN, f64::NEG_INFINITY].into_iter().take(not_finite).enumerate();
            for (i, value) in bad {
                x[(n - 1) * i] = value;
            }
            let (x, parts) = (c.of(Kind::F32, x)?, c.blank(Kind::F64, 2 * Kernels::PARTS as usize)?);
            let launch = |k: &Kernels| k.sum_of_squares(x.at(), n as u64, parts.at());
            launch(c.kernels)?;
            let all = parts.now()?;
            let total = |from: usize| all.iter().skip(from).step_by(2).sum::<f64>();
            let finite = || x.at_start.iter().filter(|x| x.is_finite());
            let squares: f64 = finite().map(|x| x * x).sum();
            c.number(total(0), squares, 1e-12 * squares);
            c.number(total(1), (n - finite().count()) as f64, 0.0);
            c.exact(&parts, |i| all[i].is_nan().then_some(0.0))?;
            c.time(timed && not_finite == 0, x.bytes(), launch)
        });
    }
}

fn round(bench: &mut Bench, n: usize, timed: bool) {
    bench.case("round", format!("{n} numbers"), |c| {
        let (x, y) = (c.random(Kind::F32, n, 1.0)?, c.blank(c.real(), n)?);
        c.kernels.round(x.at(), y.at(), n as u64)?;
        c.exact(&y, |i| Some(rounded(x.at_start[i], y.kind)))?;
        c.time(timed, x.bytes() + y.bytes(), |k| k.round(x.at(), y.at(), n as u64))
    });
}

/// Three steps, to the bit as the optimiser of the CPU.
fn adamw(bench: &mut Bench, n: usize, compensated: bool, timed: bool) {
    bench.case("adamw", format!("{n} numbers{}", if compensated { " compensated" } else { "" }), |c| {
        let settings = AdamWSettings {
            weight_decay: 0.01,
            max_grad_norm: None,
            compensated,
            ..AdamWSettings::default()
        };
        let master = c.random(Kind::F32, n, 0.1)?;
        let [m, v, residual] = [(); 3].map(|()| c.of(Kind::F32, vec![0.0; n]));
        let (m, v, residual) = (m?, v?, residual?);
        let (gradient, weight) = (c.random(Kind::F32, n, 0.01)?, c.blank(c.real(), n)?);
        let single = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<_>>();
        let mut twin = AdamW::new(settings.clone(), [("w".to_owned(), single(&master.at_start))]);
        let launch = |k: &Kernels, t: i32| -> Result<(), DeviceError> {
            let step = AdamWStep {
                rate: 1e-3,
                beta1: settings.beta1,
                beta2: settings.beta2,
                epsilon: settings.epsilon,
                decay: settings.weight_decay,
                correction1: 1.0 - settings.beta1.powf(f64::from(t)),
                correction2: 1.0 - settings.beta2.powf(f64::from(t)),
                scale: 1.0,
            };
            let rest = if compensated { residual.at() } else { 0 };
            k.adamw(master.at(), m.at(), v.at(), rest, gradient.at(), weight.at(), n as u64, step)
        };
        for t in 1..=3 {
            let numbers = c.random(Kind::F32, n, 0.01 / f64::from(t))?.at_start;
            gradient.write(&numbers)?;
            launch(c.kernels, t)?;
            if let Err(error) = twin.step(1e-3, &[("w", &single(&numbers))]) {
                return Err(DeviceError::Missing(error.to_string()));
            }
        }
        let expected = twin.weights("w").unwrap_or_default();
        c.exact(&master, |i| Some(f64::from(expected[i])))?;
        c.exact(&weight, |i| Some(rounded(f64::from(expected[i]), weight.kind)))?;
        let arrays = if compensated { 9.0 } else { 7.0 };
        c.time(timed, arrays * master.bytes() + weight.bytes(), |k| launch(k, 4))
    });
}
