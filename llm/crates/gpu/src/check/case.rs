//! One case: numbers on a device, a launch, and what must be there afterwards.

use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::rng::{below, normal, unit};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::array::TestArray;
use super::{Extent, Finding};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::kernels::{Kernel, Kernels};
use crate::ptr::{Element, ElementType, Real};

/// One rounding to `f32`, relative.
pub(super) const F32: f64 = 1.0 / (1u64 << 24) as f64;
/// One rounding to bf16, relative.
pub(super) const BF16: f64 = 1.0 / 256.0;
/// Launches before timing, and timed; the median is reported.
const WARMUP: usize = 3;
const REPEATS: usize = 21;
/// Bytes written before a timed launch: several times the cache of any card.
pub(super) const EVICTED: usize = 256 << 20;

pub(super) type Result<T = ()> = std::result::Result<T, DeviceError>;

/// A value, and the sum of its absolute terms.
pub(super) type Term = (f64, f64);

/// Runs cases on a device.
pub(super) struct Checker {
    kernels: Kernels,
    rng: ChaCha8Rng,
    pub(super) extent: Extent,
    only: Option<String>,
    pub(super) findings: Vec<Finding>,
    /// Whether the device has failed for good.
    pub(super) lost: bool,
}

impl Checker {
    pub(super) fn new(device: &Arc<dyn Device>, dtype: Dtype, extent: Extent, only: Option<&str>) -> Self {
        Checker {
            kernels: Kernels { device: device.clone(), dtype },
            rng: ChaCha8Rng::seed_from_u64(0),
            extent,
            only: only.map(str::to_owned),
            findings: Vec::new(),
            lost: false,
        }
    }

    /// One case; `body` fills a [`Case`], launches and compares.
    pub(super) fn case(
        &mut self,
        kernel: &'static str,
        sizes: String,
        body: impl FnOnce(&mut Case<'_>) -> Result,
    ) {
        if self.lost || self.only.as_deref().is_some_and(|only| only != kernel) {
            return;
        }
        let mut finding = broken(kernel, self.kernels.dtype, &sizes, "nothing was compared");
        finding.error = 0.0;
        let mut case = Case { kernels: &self.kernels, rng: &mut self.rng, finding };
        let failed = body(&mut case).inspect_err(|error| case.finding.problem = Some(error.to_string()));
        self.findings.push(case.finding);
        // After an illegal access a card refuses everything: what follows would be blamed on kernels that were not run.
        if failed.is_err() && self.kernels.device.synchronize().is_err() {
            self.lost = true;
            let problem =
                "not run: since this case the device refuses every call; --only checks another kernel alone";
            self.findings.push(broken(kernel, self.kernels.dtype, "all that follows", problem));
        }
    }
}

/// A finding of which there is nothing to say but `problem`.
pub(super) fn broken(kernel: &'static str, dtype: Dtype, case: &str, problem: &str) -> Finding {
    Finding {
        kernel,
        dtype,
        case: case.to_owned(),
        error: f64::INFINITY,
        bound: 0.0,
        seconds: None,
        bytes: 0.0,
        operations: 0.0,
        problem: Some(problem.to_owned()),
    }
}

/// See [`Checker::case`].
pub(super) struct Case<'a> {
    pub(super) kernels: &'a Kernels,
    rng: &'a mut ChaCha8Rng,
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
    pub(super) fn of<T: Element>(&self, numbers: Vec<f64>) -> Result<TestArray<T>> {
        TestArray::new(self.device(), self.kernels.dtype, numbers)
    }

    /// Normal numbers of this deviation.
    pub(super) fn random<T: Element>(&mut self, n: usize, deviation: f64) -> Result<TestArray<T>> {
        let numbers = (0..n).map(|_| normal(self.rng) * deviation).collect();
        self.of(numbers)
    }

    /// Normal numbers of deviation 1, stored as weights are.
    pub(super) fn reals(&mut self, n: usize) -> Result<TestArray<Real>> {
        self.random(n, 1.0)
    }

    /// Whole numbers.
    pub(super) fn integers(&self, numbers: impl IntoIterator<Item = usize>) -> Result<TestArray<u32>> {
        self.of(numbers.into_iter().map(|x| x as f64).collect())
    }

    /// Random whole numbers below `most`.
    pub(super) fn below(&mut self, n: usize, most: usize) -> Result<TestArray<u32>> {
        let numbers = (0..n).map(|_| below(self.rng, most as u64) as f64).collect();
        self.of(numbers)
    }

    /// `n` of `0..most` in random order, none twice.
    pub(super) fn distinct(&mut self, n: usize, most: usize) -> Vec<f64> {
        let mut all: Vec<f64> = (0..most).map(|i| i as f64).collect();
        for i in 0..n {
            let other = i + below(self.rng, (most - i) as u64) as usize;
            all.swap(i, other);
        }
        all.truncate(n);
        all
    }

    /// A number in `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        unit(rand::Rng::next_u64(self.rng))
    }

    /// An array of which nothing is written yet: NaN, or the largest whole number.
    pub(super) fn blank<T: Element>(&self, n: usize) -> Result<TestArray<T>> {
        let integer = T::stored(self.kernels.dtype) == ElementType::U32;
        self.of(vec![if integer { f64::from(u32::MAX) } else { f64::NAN }; n])
    }

    /// Every element `i` of `array` that `expected` speaks of is its value, up to what `f32` explains when a thread adds `serial`
    /// numbers of the sum one after the other.
    pub(super) fn expect<T: Element>(
        &mut self,
        array: &TestArray<T>,
        serial: usize,
        expected: impl Fn(usize) -> Option<Term>,
    ) -> Result {
        self.expect_after(array, serial, 0.0, expected)
    }

    /// As [`Case::expect`], of a value whose terms were stored so many times on the way.
    pub(super) fn expect_after<T: Element>(
        &mut self,
        array: &TestArray<T>,
        serial: usize,
        stored: f64,
        expected: impl Fn(usize) -> Option<Term>,
    ) -> Result {
        let rounding = if array.stored == ElementType::Bf16 { BF16 } else { 0.0 };
        let unit = F32 * (8.0 + (serial as f64).sqrt()) + stored * rounding;
        let bound = |(value, magnitude): Term| {
            unit * magnitude + rounding * value.abs() + f64::from(f32::MIN_POSITIVE)
        };
        self.compare(array, |i| expected(i).map(|term| (term.0, bound(term))))
    }

    /// As [`Case::expect`], to the bit; a NaN is expected by a NaN.
    pub(super) fn exact<T: Element>(
        &mut self,
        array: &TestArray<T>,
        expected: impl Fn(usize) -> Option<f64>,
    ) -> Result {
        self.compare(array, |i| expected(i).map(|value| (value, 0.0)))
    }

    /// What was there at first is there still.
    pub(super) fn untouched<T: Element>(&mut self, array: &TestArray<T>) -> Result {
        self.exact(array, |i| Some(array.initial[i]))
    }

    /// Every element that `expected` speaks of is its value, up to the bound beside it, and nothing was written beyond the end.
    pub(super) fn compare<T: Element>(
        &mut self,
        array: &TestArray<T>,
        expected: impl Fn(usize) -> Option<Term>,
    ) -> Result {
        for (i, found) in array.now()?.into_iter().enumerate() {
            if let Some((value, bound)) = expected(i) {
                self.number(found, value, bound);
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
        let same = found == value || (found.is_nan() && value.is_nan());
        let error = if same { 0.0 } else { (found - value).abs() };
        let error = if error.is_nan() { f64::INFINITY } else { error };
        // The one that is furthest out by its own measure; an error of 0 is as good as any other.
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

    /// All of these bytes are what a launch must move; where it is timed, the kernel is launched some more times.
    pub(super) fn time<K: Kernel + Copy>(&mut self, timed: bool, bytes: f64, kernel: K) -> Result {
        self.time_with(timed, bytes, |k| k.launch(kernel))
    }

    /// As [`Case::time`], of whatever `launch` does.
    pub(super) fn time_with(
        &mut self,
        timed: bool,
        bytes: f64,
        launch: impl Fn(&Kernels) -> Result,
    ) -> Result {
        self.finding.bytes = bytes;
        if !timed || self.finding.problem.is_some() {
            return Ok(());
        }
        // What an earlier launch left in the cache goes: a step's arrays do not fit into it.
        let evict = Buffer::new(self.device(), "check", EVICTED)?;
        let mut seconds = Vec::with_capacity(REPEATS);
        for repeat in 0..WARMUP + REPEATS {
            evict.clear()?;
            let took = self.device().timed(&mut || launch(self.kernels))?;
            if repeat >= WARMUP {
                seconds.push(took);
            }
        }
        seconds.sort_by(f64::total_cmp);
        self.finding.seconds = Some(seconds[REPEATS / 2]);
        Ok(())
    }

    /// Operations of a launch.
    pub(super) fn operations(&mut self, operations: f64) {
        self.finding.operations = operations;
    }
}
