//! Kernels of the optimiser: the norm of gradients, AdamW, rounding.

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings, STATE_PARTS, StepOutcome};

use super::array::rounded;
use super::case::Checker;
use crate::kernels::{AdamWStep, AdamWUpdate, Round, SumOfSquares};

const SMALL: [usize; 4] = [1, 5, 1023, 150_001];

pub(super) fn check(checker: &mut Checker) {
    sum_of_squares(checker, 0);
    every_upper_half(checker);
    for n in checker.extent.sizes(&SMALL) {
        sum_of_squares(checker, n);
        round(checker, n);
        for compensated in [false, true] {
            adamw(checker, n, compensated);
        }
    }
}

/// The contract has the sums over all blocks alone, not the numbers of a block.
fn sum_of_squares(checker: &mut Checker, n: usize) {
    for not_finite in [0, 2] {
        checker.case(
            "sum_of_squares",
            format!("{n} numbers, {not_finite} not finite").replace(',', ""),
            |c| {
                let mut x = c.random::<f32>(n, 1e3)?.initial;
                let bad = [f64::NAN, f64::NEG_INFINITY].into_iter().take(not_finite.min(n)).enumerate();
                for (i, value) in bad {
                    x[(n - 1) * i] = value;
                }
                let (x, parts) = (c.array(x)?, c.blank(2 * SumOfSquares::PARTS as usize)?);
                c.launch(SumOfSquares { x: x.ptr(), parts: parts.ptr_mut(), n: n as u64 })?;
                let all = parts.read()?;
                let total = |from: usize| all.iter().skip(from).step_by(2).sum::<f64>();
                let finite = || x.initial.iter().filter(|x| x.is_finite());
                let squares = finite().fold(0.0, |sum, x| sum + x * x);
                c.number(total(0), squares, 1e-12 * squares);
                c.number(total(1), (n - finite().count()) as f64, 0.0);
                c.exact(&parts, |i| all[i].is_nan().then_some(0.0))
            },
        );
    }
}

fn round(checker: &mut Checker, n: usize) {
    checker.case("round", format!("{n} numbers"), |c| {
        let (x, y) = (c.random(n, 1.0)?, c.blank(n)?);
        c.launch(Round { x: x.ptr(), y: y.ptr_mut(), n: n as u64 })?;
        c.exact(&y, |i| Some(rounded(x.initial[i], y.stored)))
    });
}

/// A number with each upper half of its bits, above, at and below the middle between two roundings.
fn every_upper_half(checker: &mut Checker) {
    checker.case("round", "every upper half".to_owned(), |c| {
        let lower = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
        let numbers = (0..=0xffff).flat_map(|high| lower.map(|low| f32::from_bits(high << 16 | low)));
        let x = c.array(numbers.map(f64::from).collect())?;
        let n = x.initial.len();
        let y = c.blank(n)?;
        c.launch(Round { x: x.ptr(), y: y.ptr_mut(), n: n as u64 })?;
        c.exact(&y, |i| Some(rounded(x.initial[i], y.stored)))
    });
}

/// Three steps, clipped if there are many numbers, to the bits of the optimiser of the CPU; then a NaN, which must not be hidden.
fn adamw(checker: &mut Checker, n: usize, compensated: bool) {
    checker.case("adamw", format!("{n} numbers{}", if compensated { " compensated" } else { "" }), |c| {
        let settings = AdamWSettings { weight_decay: 0.01, compensated, ..AdamWSettings::default() };
        let master = c.random(n, 0.1)?;
        let [m, v, compensation] = [(); 3].map(|()| c.array(vec![0.0; n]));
        let (m, v, compensation) = (m?, v?, compensation?);
        let (gradient, weight) = (c.random(n, 0.01)?, c.blank(n)?);
        let single = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<_>>();
        let mut twin = AdamW::new(settings.clone(), [("w".to_owned(), single(&master.initial))]);
        let kernel = |t: i32, scale: f64| AdamWUpdate {
            master: master.ptr_mut(),
            m: m.ptr_mut(),
            v: v.ptr_mut(),
            compensation: compensated.then(|| compensation.ptr_mut()),
            gradient: gradient.ptr(),
            weight: weight.ptr_mut(),
            n: n as u64,
            step: AdamWStep {
                rate: 1e-3,
                beta1: settings.beta1,
                beta2: settings.beta2,
                epsilon: settings.epsilon,
                decay: settings.weight_decay,
                correction1: 1.0 - settings.beta1.powf(f64::from(t)),
                correction2: 1.0 - settings.beta2.powf(f64::from(t)),
                scale,
            },
        };
        for t in 1..=3 {
            let numbers = c.random::<f32>(n, 0.01 / f64::from(t))?.initial;
            gradient.write(&numbers)?;
            match twin.step(1e-3, &[("w", &single(&numbers))]) {
                Ok(StepOutcome::Applied { scale, .. }) => c.launch(kernel(t, scale))?,
                other => return Err(DeviceError::Missing(format!("the optimiser of the CPU: {other:?}"))),
            }
        }
        for (part, array) in STATE_PARTS.into_iter().zip([&master, &compensation, &m, &v]) {
            let Some(expected) = twin.array(part, "w") else { continue };
            c.exact(array, |i| Some(f64::from(expected[i])))?;
        }
        let expected = twin.weights("w").unwrap_or_default();
        c.exact(&weight, |i| Some(rounded(f64::from(expected[i]), weight.stored)))?;
        gradient.write(&[f64::NAN])?;
        c.launch(kernel(4, 1.0))?;
        for array in [master.read()?, weight.read()?] {
            c.number(array[0], f64::NAN, 0.0);
        }
        Ok(())
    });
}
