//! One case: numbers on a device, a launch, and the numbers expected afterwards.

use std::cell::Cell;
use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::rng::{below, normal, unit};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::array::TestArray;
use super::{Extent, Finding, OTHERS};
use crate::device::Device;
use crate::kernels::{Kernel, Kernels};
use crate::ptr::{Element, ElementType, Real};

/// One rounding to `f32`, relative.
pub(super) const F32: f64 = 1.0 / (1u64 << 24) as f64;
/// One rounding to bf16, relative.
pub(super) const BF16: f64 = 1.0 / 256.0;
/// Numbers whose expected values are computed at a time, by all processors.
const TOGETHER: usize = 1 << 18;

pub(super) type Result<T = ()> = std::result::Result<T, DeviceError>;

/// A value, and the sum of its absolute terms.
pub(super) type Term = (f64, f64);

/// Runs cases on a device.
pub(super) struct Checker {
    kernels: Kernels,
    rng: ChaCha8Rng,
    pub(super) extent: Extent,
    only: Option<String>,
    /// True if each array is also the only one that is not aligned.
    pub(super) one_by_one: bool,
    pub(super) findings: Vec<Finding>,
    /// True if the device has failed for good.
    pub(super) lost: bool,
}

impl Checker {
    pub(super) fn new(device: &Arc<dyn Device>, dtype: Dtype, extent: Extent, only: Option<&str>) -> Self {
        Checker {
            kernels: Kernels { device: device.clone(), dtype },
            rng: ChaCha8Rng::seed_from_u64(0),
            extent,
            only: only.map(str::to_owned),
            one_by_one: false,
            findings: Vec::new(),
            lost: false,
        }
    }

    /// One case; `body` fills a [`Case`], launches and compares. A kernel gets the same numbers a second time, one
    /// element from aligned addresses, and where it is asked for again with each array alone there.
    pub(super) fn case(
        &mut self,
        kernel: &'static str,
        sizes: String,
        body: impl Fn(&mut Case<'_>) -> Result,
    ) {
        if self.lost || self.only.as_deref().is_some_and(|only| only != kernel) {
            return;
        }
        let mut finding = broken(kernel, self.kernels.dtype, &sizes, "nothing was compared");
        finding.error = 0.0;
        let rng = self.rng.clone();
        let mut case = Case { kernels: &self.kernels, rng, arrays: Cell::new(0), shifted: None, finding };
        let mut done = body(&mut case);
        let start = std::mem::replace(&mut self.rng, case.rng.clone());
        let each = if self.one_by_one { case.arrays.get() } else { 0 };
        for shifted in std::iter::once(Shifted::All).chain((0..each).map(Shifted::One)) {
            if done.is_ok() && !OTHERS.contains(&kernel) {
                case.arrays.set(0);
                (case.rng, case.shifted) = (start.clone(), Some(shifted));
                done = body(&mut case);
            }
        }
        let failed = done.inspect_err(|error| case.finding.problem = Some(error.to_string()));
        self.findings.push(case.finding);
        // After an illegal access a card refuses everything: what follows would be blamed on kernels that were not run.
        if failed.is_err() && self.kernels.device.synchronize().is_err() {
            self.lost = true;
            let problem =
                "not run: since this case the device refuses every call; check another kernel alone";
            self.findings.push(broken(kernel, self.kernels.dtype, "all that follows", problem));
        }
    }
}

/// A finding of nothing but `problem`.
pub(super) fn broken(kernel: &'static str, dtype: Dtype, case: &str, problem: &str) -> Finding {
    Finding {
        kernel,
        dtype,
        case: case.to_owned(),
        error: f64::INFINITY,
        bound: 0.0,
        problem: Some(problem.to_owned()),
    }
}

/// Arrays whose first element lies one element from an aligned address.
#[derive(Clone, Copy, Debug)]
enum Shifted {
    All,
    /// The array of this number, in the order in which a case makes them.
    One(usize),
}

/// The device of one case, its random numbers and its finding.
pub(super) struct Case<'a> {
    pub(super) kernels: &'a Kernels,
    rng: ChaCha8Rng,
    /// Arrays made so far.
    arrays: Cell<usize>,
    shifted: Option<Shifted>,
    finding: Finding,
}

impl Case<'_> {
    pub(super) fn device(&self) -> &Arc<dyn Device> {
        &self.kernels.device
    }

    /// Launches a kernel.
    pub(super) fn launch<K: Kernel>(&self, kernel: K) -> Result {
        self.kernels.launch(kernel)
    }

    /// These numbers, rounded as they are stored.
    pub(super) fn array<T: Element>(&self, numbers: Vec<f64>) -> Result<TestArray<T>> {
        let number = self.arrays.replace(self.arrays.get() + 1);
        let shifted = match self.shifted {
            None => false,
            Some(Shifted::All) => true,
            Some(Shifted::One(one)) => one == number,
        };
        TestArray::new(self.device(), self.kernels.dtype, usize::from(shifted), numbers)
    }

    /// Normal numbers of this deviation.
    pub(super) fn random<T: Element>(&mut self, n: usize, deviation: f64) -> Result<TestArray<T>> {
        let numbers = (0..n).map(|_| normal(&mut self.rng) * deviation).collect();
        self.array(numbers)
    }

    /// Normal numbers of deviation 1, stored as weights are.
    pub(super) fn reals(&mut self, n: usize) -> Result<TestArray<Real>> {
        self.random(n, 1.0)
    }

    /// Such numbers in rows; from three rows on, one number of the second is NaN: it must spoil its own results and no other.
    pub(super) fn rows(&mut self, rows: usize, width: usize) -> Result<TestArray<Real>> {
        let mut numbers = self.reals(rows * width)?.initial;
        if rows > 2 {
            numbers[width + width / 2] = f64::NAN;
        }
        self.array(numbers)
    }

    /// Whole numbers.
    pub(super) fn integers(&self, numbers: impl IntoIterator<Item = usize>) -> Result<TestArray<u32>> {
        self.array(numbers.into_iter().map(|x| x as f64).collect())
    }

    /// Random whole numbers below `most`.
    pub(super) fn below(&mut self, n: usize, most: usize) -> Result<TestArray<u32>> {
        let numbers = (0..n).map(|_| below(&mut self.rng, most as u64) as f64).collect();
        self.array(numbers)
    }

    /// `n` of `0..most` in random order, none twice.
    pub(super) fn distinct(&mut self, n: usize, most: usize) -> Vec<f64> {
        let mut all: Vec<f64> = (0..most).map(|i| i as f64).collect();
        for i in 0..n {
            let other = i + below(&mut self.rng, (most - i) as u64) as usize;
            all.swap(i, other);
        }
        all.truncate(n);
        all
    }

    /// A number in `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        unit(rand::Rng::next_u64(&mut self.rng))
    }

    /// Such numbers for a kernel that copies: the first is NaN and the last -0.
    pub(super) fn copied(&mut self, n: usize) -> Result<TestArray<Real>> {
        let mut numbers = self.reals(n)?.initial;
        numbers[0] = f64::NAN;
        numbers[n - 1] = -0.0;
        self.array(numbers)
    }

    /// An array that is not written yet: NaN, or the largest whole number.
    pub(super) fn blank<T: Element>(&self, n: usize) -> Result<TestArray<T>> {
        let integer = T::stored(self.kernels.dtype) == ElementType::U32;
        self.array(vec![if integer { f64::from(u32::MAX) } else { f64::NAN }; n])
    }

    /// Compares every element `i` of `array` that has an `expected` value, up to the rounding of `f32` if a thread adds `serial` numbers
    /// of the sum one after the other.
    pub(super) fn expect<T: Element>(
        &mut self,
        array: &TestArray<T>,
        serial: usize,
        expected: impl Fn(usize) -> Option<Term> + Sync,
    ) -> Result {
        self.expect_after(array, serial, 0.0, expected)
    }

    /// [`Case::expect`] of a value whose terms were stored so many times on the way.
    pub(super) fn expect_after<T: Element>(
        &mut self,
        array: &TestArray<T>,
        serial: usize,
        stored: f64,
        expected: impl Fn(usize) -> Option<Term> + Sync,
    ) -> Result {
        let rounding = if array.stored == ElementType::Bf16 { BF16 } else { 0.0 };
        let unit = F32 * (8.0 + (serial as f64).sqrt()) + stored * rounding;
        let bound = |(value, magnitude): Term| {
            unit * magnitude + rounding * value.abs() + f64::from(f32::MIN_POSITIVE)
        };
        self.compare(array, |i| expected(i).map(|term| (term.0, bound(term))))
    }

    /// [`Case::expect`] to the bit; any NaN is equal to any other.
    pub(super) fn exact<T: Element>(
        &mut self,
        array: &TestArray<T>,
        expected: impl Fn(usize) -> Option<f64> + Sync,
    ) -> Result {
        self.compare(array, |i| expected(i).map(|value| (value, 0.0)))
    }

    /// Expects the numbers that the array had at first.
    pub(super) fn untouched<T: Element>(&mut self, array: &TestArray<T>) -> Result {
        self.exact(array, |i| Some(array.initial[i]))
    }

    /// Compares every element that has an `expected` value, up to the bound beside it, and the guard bytes.
    pub(super) fn compare<T: Element>(
        &mut self,
        array: &TestArray<T>,
        expected: impl Fn(usize) -> Option<Term> + Sync,
    ) -> Result {
        let found = array.read()?;
        for (chunk, numbers) in found.chunks(TOGETHER).enumerate() {
            let terms: Vec<_> =
                (0..numbers.len()).into_par_iter().map(|i| expected(chunk * TOGETHER + i)).collect();
            for (found, term) in numbers.iter().zip(terms) {
                if let Some((value, bound)) = term {
                    self.number(*found, value, bound);
                }
            }
        }
        if !array.guarded()? {
            self.finding.problem = Some("it wrote beyond the end of an array".to_owned());
        }
        Ok(())
    }

    /// One number found, the value it should have, and its bound.
    pub(super) fn number(&mut self, found: f64, value: f64, bound: f64) {
        let finding = &mut self.finding;
        if finding.problem.as_deref() == Some("nothing was compared") {
            finding.problem = None;
        }
        // With a bound of 0, 0 is not -0.
        let sign = bound > 0.0 || found.is_sign_negative() == value.is_sign_negative();
        let same = (found == value && sign) || (found.is_nan() && value.is_nan());
        let error = match found == value {
            _ if same => 0.0,
            true => f64::INFINITY,
            false => (found - value).abs(),
        };
        let error = if error.is_nan() { f64::INFINITY } else { error };
        // The number that is furthest out by its own measure; all errors of 0 are alike.
        let worse = |e: f64, b: f64, than_e: f64, than_b: f64| {
            if e == 0.0 {
                than_e == 0.0 && b > than_b
            } else {
                than_e == 0.0 || e * than_b > than_e * b || e.is_infinite()
            }
        };
        if worse(error, bound, finding.error, finding.bound) {
            (finding.error, finding.bound) = (error, bound);
        }
    }
}
