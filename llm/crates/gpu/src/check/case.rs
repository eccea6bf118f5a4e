//! One case: numbers on a device, a launch, and the numbers expected afterwards.

use std::cell::RefCell;
use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::rng::{below, normal};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::array::{TestArray, rounded};
use super::{Extent, Finding, OTHERS};
use crate::device::Device;
use crate::kernels::{self, Kernel, Kernels};
use crate::ptr::{Arg, Element, ElementType, Real};

/// Roundings to `f32` that a number may have had, relative to the magnitude of its terms.
const F32: f64 = 32.0 / (1u64 << 24) as f64;
/// One rounding to bf16, relative.
const BF16: f64 = 1.0 / 256.0;

pub(super) type Result<T = ()> = std::result::Result<T, DeviceError>;

/// Runs cases on a device.
pub(super) struct Checker {
    kernels: Kernels,
    /// The source that the device runs.
    source: String,
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
            // A source that cannot be read is a failure of the first launch.
            source: kernels::current(dtype).unwrap_or_default(),
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
        sizes: impl ToString,
        body: impl Fn(&mut Case<'_>) -> Result,
    ) {
        if self.lost || self.only.as_deref().is_some_and(|only| only != kernel) {
            return;
        }
        let mut finding = broken(kernel, self.kernels.dtype, &sizes.to_string(), "nothing was compared");
        finding.error = 0.0;
        let rng = self.rng.clone();
        let (kernels, source, arrays) = (&self.kernels, self.source.as_str(), RefCell::default());
        let mut case = Case { kernels, source, rng, arrays, shifted: None, finding };
        let mut done = body(&mut case);
        let start = std::mem::replace(&mut self.rng, case.rng.clone());
        let each = if self.one_by_one { case.arrays.borrow().len() } else { 0 };
        for shifted in std::iter::once(Shifted::All).chain((0..each).map(Shifted::One)) {
            if done.is_ok() && !OTHERS.contains(&kernel) {
                case.arrays.borrow_mut().clear();
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
        bits: 0,
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
    source: &'a str,
    pub(super) rng: ChaCha8Rng,
    /// Address and bytes of the arrays made so far.
    arrays: RefCell<Vec<(u64, usize)>>,
    shifted: Option<Shifted>,
    finding: Finding,
}

impl Case<'_> {
    pub(super) fn device(&self) -> &Arc<dyn Device> {
        &self.kernels.device
    }

    /// Launches a kernel, if its source declares the arguments that it gets, and they have what the launch says of them.
    pub(super) fn launch<K: Kernel>(&self, kernel: K) -> Result {
        let (args, arrays) = (kernel.args(), self.arrays.borrow());
        let short = |arg: &&Arg| match **arg {
            Arg::Pointer { address, .. } => arrays
                .iter()
                .rev()
                .find(|array| array.0 == address)
                .is_some_and(|array| arg.bytes() > array.1),
            Arg::Null | Arg::U32(_) | Arg::U64(_) | Arg::F32(_) => false,
        };
        if !kernels::declares(self.source, K::NAME, self.kernels.dtype, K::BLOCK, &args) {
            let why = format!("the launch of {} gives other arguments than its source declares", K::NAME);
            return Err(DeviceError::Missing(why));
        }
        if let Some(arg) = args.iter().find(short) {
            return Err(DeviceError::Missing(format!(
                "{} gets an array that is too short: {arg:?}",
                K::NAME
            )));
        }
        self.kernels.launch(kernel)
    }

    /// These numbers, rounded as they are stored.
    pub(super) fn array<T: Element>(&self, numbers: Vec<f64>) -> Result<TestArray<T>> {
        let mut arrays = self.arrays.borrow_mut();
        let shifted = match self.shifted {
            None => false,
            Some(Shifted::All) => true,
            Some(Shifted::One(one)) => one == arrays.len(),
        };
        let array = TestArray::new(self.device(), self.kernels.dtype, usize::from(shifted), numbers)?;
        arrays.push((array.out().address(), array.initial.len() * array.stored.bytes()));
        Ok(array)
    }

    /// Normal numbers.
    pub(super) fn normals(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| normal(&mut self.rng)).collect()
    }

    /// Normal numbers on the device.
    pub(super) fn random<T: Element>(&mut self, n: usize) -> Result<TestArray<T>> {
        let numbers = self.normals(n);
        self.array(numbers)
    }

    /// Such numbers in rows; from three rows on, one number of the second is NaN: it must spoil its own results and no other.
    pub(super) fn rows(&mut self, rows: usize, width: usize) -> Result<TestArray<Real>> {
        let mut numbers = self.normals(rows * width);
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
    pub(super) fn distinct(&mut self, n: usize, most: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..most).collect();
        for i in 0..n {
            all.swap(i, i + below(&mut self.rng, (most - i) as u64) as usize);
        }
        all.truncate(n);
        all
    }

    /// Such numbers for a kernel that copies: the first is NaN and the last -0.
    pub(super) fn copied(&mut self, n: usize) -> Result<TestArray<Real>> {
        let mut numbers = self.normals(n);
        (numbers[0], numbers[n - 1]) = (f64::NAN, -0.0);
        self.array(numbers)
    }

    /// An array that is not written yet: NaN, or the largest whole number.
    pub(super) fn blank<T: Element>(&self, n: usize) -> Result<TestArray<T>> {
        let integer = T::stored(self.kernels.dtype) == ElementType::U32;
        self.array(vec![if integer { f64::from(u32::MAX) } else { f64::NAN }; n])
    }

    /// Compares every number of `array`, up to the roundings of terms of this magnitude.
    pub(super) fn near<T: Element>(&mut self, array: &TestArray<T>, size: f64, expected: &[f64]) -> Result {
        self.near_each(array, |_| size, expected)
    }

    /// [`Case::near`] with the magnitude of the terms of each value.
    pub(super) fn near_each<T: Element>(
        &mut self,
        array: &TestArray<T>,
        size: impl Fn(f64) -> f64,
        expected: &[f64],
    ) -> Result {
        let last = if array.stored == ElementType::Bf16 { BF16 } else { 0.0 };
        self.compare(array, expected, |value| F32 * size(value) + last * value.abs())
    }

    /// [`Case::near`] where terms of magnitude `stored` were rounded to the run's dtype on the way.
    pub(super) fn near_stored<T: Element>(
        &mut self,
        array: &TestArray<T>,
        (size, stored): (f64, f64),
        expected: &[f64],
    ) -> Result {
        let rounding = if self.kernels.dtype == Dtype::Bf16 { BF16 } else { 0.0 };
        self.compare(array, expected, |value| F32 * size + rounding * (stored + value.abs()))
    }

    /// Compares every number of `array` to the bit, after the rounding of what is expected; any NaN is equal to any other.
    pub(super) fn exact<T: Element>(&mut self, array: &TestArray<T>, expected: &[f64]) -> Result {
        let stored: Vec<f64> = expected.iter().map(|x| rounded(*x, array.stored)).collect();
        self.compare(array, &stored, |_| 0.0)
    }

    /// Compares every number of `array`, up to the bound of its value, and the guard bytes.
    pub(super) fn compare<T: Element>(
        &mut self,
        array: &TestArray<T>,
        expected: &[f64],
        bound: impl Fn(f64) -> f64,
    ) -> Result {
        let found = array.read()?;
        assert_eq!(found.len(), expected.len(), "expected numbers of {}", self.finding.kernel);
        found.iter().zip(expected).for_each(|(found, value)| self.number(*found, *value, bound(*value)));
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
        // Each step is a bijection of what was there, so that no other bit is hidden by those after it.
        finding.bits = (finding.bits ^ found.to_bits()).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        // With a bound of 0, 0 is not -0.
        let sign = bound > 0.0 || found.is_sign_negative() == value.is_sign_negative();
        let same = (found == value && sign) || (found.is_nan() && value.is_nan());
        let error = if same { 0.0 } else { (found - value).abs() };
        let error = if error.is_nan() || (found == value && !same) { f64::INFINITY } else { error };
        // The number that is furthest out by its own measure; all errors of 0 are equal.
        let worse = match (error == 0.0, finding.error == 0.0) {
            (true, true) => bound > finding.bound,
            (true, false) => false,
            (false, true) => true,
            (false, false) => error * finding.bound > finding.error * bound || error.is_infinite(),
        };
        if worse {
            (finding.error, finding.bound) = (error, bound);
        }
    }
}

/// The largest magnitude among finite numbers, at least 1.
pub(super) fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(1.0, f64::max)
}
