//! One case: numbers on a device, a launch, and what must be there afterwards.

use std::sync::Arc;
use std::time::Instant;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::rng::{below, normal, unit};
use half::bf16;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Extent, Finding};
use crate::device::{Buffer, Device};
use crate::kernels::Kernels;

/// Bytes after every array that nothing may write.
const GUARD: [u8; 256] = [0xA5; 256];
/// One rounding to `f32`, relative.
const F32: f64 = 1.0 / (1u64 << 24) as f64;
/// One rounding to bf16, relative.
const BF16: f64 = 1.0 / 256.0;
/// Launches before timing, and timed.
const REPEATS: [u32; 2] = [3, 20];

pub(super) type Outcome = Result<(), DeviceError>;

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    F32,
    Bf16,
    F64,
    U32,
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Kind::Bf16 => 2,
            Kind::F32 | Kind::U32 => 4,
            Kind::F64 => 8,
        }
    }
}

/// An array on the device.
pub(super) struct Numbers {
    buffer: Buffer,
    pub(super) kind: Kind,
    /// What it held at first, after rounding; NaN where it was blank.
    pub(super) at_start: Vec<f64>,
}

impl Numbers {
    pub(super) fn at(&self) -> u64 {
        self.buffer.address()
    }
    pub(super) fn bytes(&self) -> f64 {
        (self.at_start.len() * self.kind.bytes()) as f64
    }
    pub(super) fn now(&self) -> Result<Vec<f64>, DeviceError> {
        let n = self.at_start.len();
        Ok(match self.kind {
            Kind::F32 => self.buffer.read::<f32>(0, n)?.into_iter().map(f64::from).collect(),
            Kind::Bf16 => self
                .buffer
                .read::<u16>(0, n)?
                .into_iter()
                .map(|bits| f64::from(bf16::from_bits(bits).to_f32()))
                .collect(),
            Kind::F64 => self.buffer.read::<f64>(0, n)?,
            Kind::U32 => self.buffer.read::<u32>(0, n)?.into_iter().map(f64::from).collect(),
        })
    }
    fn guarded(&self) -> Result<bool, DeviceError> {
        Ok(self.buffer.read::<u8>(self.at_start.len() * self.kind.bytes(), GUARD.len())? == GUARD)
    }
    /// Other numbers in its place.
    pub(super) fn write(&self, numbers: &[f64]) -> Outcome {
        write(&self.buffer, self.kind, numbers)
    }
}

fn write(buffer: &Buffer, kind: Kind, numbers: &[f64]) -> Outcome {
    match kind {
        Kind::F32 => buffer.write(0, &numbers.iter().map(|x| *x as f32).collect::<Vec<_>>()),
        Kind::Bf16 => {
            buffer.write(0, &numbers.iter().map(|x| bf16::from_f32(*x as f32).to_bits()).collect::<Vec<_>>())
        }
        Kind::F64 => buffer.write(0, numbers),
        Kind::U32 => buffer.write(0, &numbers.iter().map(|x| *x as u32).collect::<Vec<_>>()),
    }
}

/// A value, and the sum of its absolute terms.
pub(super) type Term = (f64, f64);

/// Runs cases on a device.
pub(super) struct Bench {
    kernels: Kernels,
    rng: ChaCha8Rng,
    pub(super) extent: Extent,
    only: Option<String>,
    pub(super) findings: Vec<Finding>,
}

impl Bench {
    pub(super) fn new(device: &Arc<dyn Device>, dtype: Dtype, extent: Extent, only: Option<&str>) -> Self {
        Bench {
            kernels: Kernels { device: device.clone(), dtype },
            rng: ChaCha8Rng::seed_from_u64(0),
            extent,
            only: only.map(str::to_owned),
            findings: Vec::new(),
        }
    }

    /// One case; `body` fills a [`Case`], launches and compares.
    pub(super) fn case(
        &mut self,
        kernel: &'static str,
        sizes: String,
        body: impl FnOnce(&mut Case<'_>) -> Outcome,
    ) {
        if self.only.as_deref().is_some_and(|only| only != kernel) {
            return;
        }
        let mut finding = broken(kernel, self.kernels.dtype, &sizes, "nothing was compared");
        finding.error = 0.0;
        let mut case = Case { kernels: &self.kernels, rng: &mut self.rng, finding };
        if let Err(error) = body(&mut case) {
            case.finding.problem = Some(error.to_string());
        }
        self.findings.push(case.finding);
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

/// See [`Bench::case`].
pub(super) struct Case<'a> {
    pub(super) kernels: &'a Kernels,
    rng: &'a mut ChaCha8Rng,
    finding: Finding,
}

impl Case<'_> {
    pub(super) fn device(&self) -> &Arc<dyn Device> {
        &self.kernels.device
    }

    /// How weights and activations are stored.
    pub(super) fn real(&self) -> Kind {
        match self.kernels.dtype {
            Dtype::F32 => Kind::F32,
            Dtype::Bf16 => Kind::Bf16,
        }
    }

    /// These numbers, rounded to `kind`.
    pub(super) fn of(&self, kind: Kind, numbers: Vec<f64>) -> Result<Numbers, DeviceError> {
        let bytes = numbers.len() * kind.bytes();
        let buffer = Buffer::new(self.device(), "check", bytes + GUARD.len())?;
        write(&buffer, kind, &numbers)?;
        buffer.write(bytes, &GUARD)?;
        let mut held = Numbers { buffer, kind, at_start: numbers };
        if matches!(kind, Kind::F32 | Kind::Bf16) {
            for x in &mut held.at_start {
                *x = rounded(*x, kind);
            }
        }
        Ok(held)
    }

    /// Normal numbers of this deviation.
    pub(super) fn random(&mut self, kind: Kind, n: usize, deviation: f64) -> Result<Numbers, DeviceError> {
        let numbers = (0..n).map(|_| normal(self.rng) * deviation).collect();
        self.of(kind, numbers)
    }

    /// Normal numbers of deviation 1, stored as weights are.
    pub(super) fn reals(&mut self, n: usize) -> Result<Numbers, DeviceError> {
        self.random(self.real(), n, 1.0)
    }

    /// Whole numbers below `most`.
    pub(super) fn below(&mut self, n: usize, most: usize) -> Result<Numbers, DeviceError> {
        let numbers = (0..n).map(|_| below(self.rng, most as u64) as f64).collect();
        self.of(Kind::U32, numbers)
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
    pub(super) fn blank(&self, kind: Kind, n: usize) -> Result<Numbers, DeviceError> {
        self.of(kind, vec![if kind == Kind::U32 { f64::from(u32::MAX) } else { f64::NAN }; n])
    }

    /// Every number `i` of `held` that `expected` speaks of is its value, up to what `f32` explains when a thread adds `lone`
    /// numbers of the sum one after the other.
    pub(super) fn expect(
        &mut self,
        held: &Numbers,
        lone: usize,
        expected: impl Fn(usize) -> Option<Term>,
    ) -> Outcome {
        self.expect_after(held, lone, 0.0, expected)
    }

    /// As [`Case::expect`], of a value whose terms were stored so many times on the way.
    pub(super) fn expect_after(
        &mut self,
        held: &Numbers,
        lone: usize,
        stored: f64,
        expected: impl Fn(usize) -> Option<Term>,
    ) -> Outcome {
        let rounding = if held.kind == Kind::Bf16 { BF16 } else { 0.0 };
        let unit = F32 * (8.0 + (lone as f64).sqrt()) + stored * rounding;
        let bound = |(value, magnitude): Term| {
            unit * magnitude + rounding * value.abs() + f64::from(f32::MIN_POSITIVE)
        };
        self.compare(held, |i| expected(i).map(|term| (term.0, bound(term))))
    }

    /// As [`Case::expect`], to the bit; a NaN is expected by a NaN.
    pub(super) fn exact(&mut self, held: &Numbers, expected: impl Fn(usize) -> Option<f64>) -> Outcome {
        self.compare(held, |i| expected(i).map(|value| (value, 0.0)))
    }

    /// What was there at first is there still.
    pub(super) fn untouched(&mut self, held: &Numbers) -> Outcome {
        self.exact(held, |i| Some(held.at_start[i]))
    }

    fn compare(&mut self, held: &Numbers, expected: impl Fn(usize) -> Option<Term>) -> Outcome {
        for (i, found) in held.now()?.into_iter().enumerate() {
            if let Some((value, bound)) = expected(i) {
                self.number(found, value, bound);
            }
        }
        if !held.guarded()? {
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

    /// All of these bytes are what a launch must move; on a device that is timed, `launch` runs some more times.
    pub(super) fn time(&mut self, timed: bool, bytes: f64, launch: impl Fn(&Kernels) -> Outcome) -> Outcome {
        self.finding.bytes = bytes;
        if !timed || self.finding.problem.is_some() {
            return Ok(());
        }
        for _ in 0..REPEATS[0] {
            launch(self.kernels)?;
        }
        self.device().synchronize()?;
        let clock = Instant::now();
        for _ in 0..REPEATS[1] {
            launch(self.kernels)?;
        }
        self.device().synchronize()?;
        self.finding.seconds = Some(clock.elapsed().as_secs_f64() / f64::from(REPEATS[1]));
        Ok(())
    }

    /// Operations of a launch.
    pub(super) fn operations(&mut self, operations: f64) {
        self.finding.operations = operations;
    }
}

/// As it is stored.
pub(super) fn rounded(x: f64, kind: Kind) -> f64 {
    match kind {
        Kind::Bf16 => f64::from(bf16::from_f32(x as f32).to_f32()),
        Kind::F32 => f64::from(x as f32),
        Kind::F64 | Kind::U32 => x,
    }
}
